"""Names, paths, and the engine that runs what is there."""

from __future__ import annotations

import pytest

from localspec.catalog import Entry, Found, Source, choose, entries, locate, preferred
from localspec.errors import UnknownModel, UsageError

SOURCE = Source("package", "file", "pip install package")
BOTH = Entry("both", "about", "licence", {"llamacpp": SOURCE, "mlx": SOURCE})
GGUF = Entry("gguf", "about", "licence", {"llamacpp": SOURCE})
APPLE, OTHERS = ("mlx", "llamacpp"), ("llamacpp", "mlx")


def test_a_file_and_a_folder_decide_for_themselves(tmp_path):
    file = tmp_path / "model.gguf"
    file.touch()
    assert locate(str(file)) == locate(str(file), "llamacpp") == Found("llamacpp", file)
    assert locate(str(tmp_path)) == locate(str(tmp_path), "mlx") == Found("mlx", tmp_path)
    with pytest.raises(UsageError, match="GGUF file"):
        locate(str(tmp_path), "llamacpp")
    with pytest.raises(UsageError, match="MLX folder"):
        locate(str(file), "mlx")


def test_a_name_runs_on_mlx_where_it_was_made_for_and_the_model_is_there_for_it():
    assert choose(BOTH, "auto", APPLE) == "mlx"
    assert choose(BOTH, "auto", OTHERS) == "llamacpp"
    assert choose(GGUF, "auto", APPLE) == "llamacpp"
    assert set(preferred()) == set(APPLE)


def test_a_wish_for_an_engine_is_granted_or_refused():
    assert choose(BOTH, "mlx", OTHERS) == "mlx"
    assert choose(BOTH, "llamacpp", APPLE) == "llamacpp"
    with pytest.raises(UsageError, match="gguf is not listed as an MLX folder"):
        choose(GGUF, "mlx", OTHERS)


def test_a_catalogue_lists_weights_for_each_engine(tmp_path):
    path = tmp_path / "models.toml"
    path.write_text(
        '[one]\nabout = "a"\nlicence = "l"\n[one.mlx]\npackage = "p"\nfile = "f"\ninstall = "i"\n'
    )
    assert entries(path) == {"one": Entry("one", "a", "l", {"mlx": Source("p", "f", "i")})}
    assert "smollm2-135m" in entries()


def test_an_unknown_name_suggests_one_that_is_near():
    with pytest.raises(UnknownModel, match=r"did you mean smollm2-135m\?"):
        locate("smollm-135m")
    with pytest.raises(UnknownModel, match="no file"):
        locate("nowhere/model.gguf")
