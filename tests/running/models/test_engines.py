"""Which engines there are, and which of them takes a path."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import fields, replace
from functools import partial
from importlib import import_module
from importlib.metadata import EntryPoint
from importlib.util import find_spec

import pytest

from localspec.base.errors import BackendError, UsageError
from localspec.running.models import engines
from localspec.running.models.engines import Engine, check, engine, load_specs, taker

GGUF, MLX = engine("llamacpp").spec, engine("mlx").spec


def entry(name, value):
    return EntryPoint(name, value, engines.GROUP)


def test_an_engine_that_cannot_be_asked_leaves_the_others_alone():
    good = entry("good", "localspec_mlx")
    specs = load_specs([entry("gone", "no_such_module"), entry("other", "json"), good, good])
    assert specs["good"] is MLX
    assert "No module named 'no_such_module'" in specs["gone"]
    assert "no attribute 'SPEC'" in specs["other"]
    assert load_specs([good, entry("good", "localspec_llamacpp")])["good"].startswith(
        "two packages"
    )


@pytest.mark.parametrize("spec", [GGUF, MLX], ids=lambda spec: spec.format)
def test_the_functions_that_an_engine_defers_are_there(spec):
    values = [getattr(spec, field.name) for field in fields(spec)]
    values += [part for value in values if isinstance(value, tuple) for part in value]
    deferred = [value.args for value in values if isinstance(value, partial)]
    assert len(deferred) >= 3
    for module, name in deferred:
        assert callable(getattr(import_module(module), name)), name


def test_the_preferred_engine_comes_first_and_then_they_go_by_name(monkeypatch):
    specs = {
        name: replace(GGUF, preference=at) for name, at in zip("dacb", (0, -1, 1, 0), strict=True)
    }
    monkeypatch.setattr(engines, "_offered", lambda: {**specs, "bad": "it is broken"})
    assert [*map(str, engines.all_engines())] == ["c", "b", "d", "a"]


def test_engines_are_asked_without_importing_their_libraries():
    code = (
        "import sys; from localspec.running.models.engines import all_engines;"
        "assert len(all_engines()) >= 2;"
        "assert not {'llama_cpp', 'mlx', 'mlx_lm', 'tokenizers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_what_is_wrong_with_an_engine_is_told_where_it_is_named(monkeypatch):
    offered = {"llamacpp": GGUF, "mlx": MLX, "bad": "it is broken"}
    monkeypatch.setattr(engines, "_offered", lambda: offered)
    assert engines.names() == ["llamacpp", "mlx", "bad"]
    check("bad")
    with pytest.raises(BackendError, match="the engine bad cannot be used: it is broken"):
        engine("bad")
    with pytest.raises(BackendError, match="no engine none here; there are: llamacpp"):
        engine("none")
    with pytest.raises(UsageError, match="known: auto, llamacpp, mlx, bad"):
        check("none")


def test_a_library_that_is_missing_comes_with_the_command_to_install_it():
    lacking = Engine("lacking", replace(GGUF, module="no_such_module"))
    with pytest.raises(BackendError, match="lacking needs no_such_module: pip install llama-cpp-"):
        lacking.backend()


def test_of_several_engines_for_a_path_the_preferred_one_or_the_wished_one_takes_it(
    monkeypatch, tmp_path
):
    def broken(path):
        raise RuntimeError("a defect")

    rival = replace(GGUF, module="rival", preference=1)
    body_fields = {
        "broken": replace(GGUF, claims=broken),
        "rival": rival,
        "llamacpp": GGUF,
        "mlx": MLX,
    }
    monkeypatch.setattr(
        engines, "all_engines", lambda: [Engine(*each) for each in body_fields.items()]
    )
    model = tmp_path / "model.gguf"
    model.touch()
    assert (taker(model).name, taker(model, "llamacpp").name) == ("rival", "llamacpp")
    with pytest.raises(UsageError, match="is for rival; mlx takes an MLX folder"):
        taker(model, "mlx")
    strange = tmp_path / "strange.txt"
    strange.touch()
    assert taker(strange).name == "broken"
    assert taker(tmp_path, "mlx").name == "mlx"  # which will say why not


def test_the_model_files_of_a_folder_are_listed_with_what_to_type(tmp_path):
    names = ["b.gguf", "a-00001-of-00002.gguf", "a-00002-of-00002.gguf", "mmproj-b.gguf", "x.txt"]
    for name in names:
        (tmp_path / name).touch()
    message = f"a-00001-of-00002.gguf, b.gguf; give the path of one, as {tmp_path}/a-"
    with pytest.raises(UsageError, match=re.escape(message)):
        taker(tmp_path)
    (tmp_path / "config.json").touch()  # as in many repositories of GGUF files
    with pytest.raises(UsageError, match="a model is one file in it"):
        taker(tmp_path)
    (tmp_path / "model.safetensors").touch()
    assert taker(tmp_path).name == "mlx"


def test_of_many_model_files_a_folder_lists_the_first(tmp_path):
    for number in range(20):
        (tmp_path / f"{number:02}.gguf").touch()
    with pytest.raises(UsageError, match=r"06.gguf, 07.gguf and 12 more; give"):
        taker(tmp_path)


def test_a_folder_without_a_model_is_refused_whatever_engines_are_here(tmp_path):
    (tmp_path / "mmproj-b.gguf").touch()
    with pytest.raises(UsageError, match="without a model in it: give a GGUF file or an MLX f"):
        taker(tmp_path)
    (tmp_path / "config.json").touch()
    assert taker(tmp_path).name == "mlx"  # which will say what it lacks


def test_a_gguf_is_known_by_its_name_or_by_what_it_begins_with(tmp_path):
    blob, other = tmp_path / "sha256-c0ffee", tmp_path / "other"
    blob.write_bytes(b"GGUF\3\0\0\0")
    other.write_bytes(b"PK")
    folder = tmp_path / "folder.gguf"
    folder.mkdir()
    claimed = (blob, tmp_path / "gone.GGUF", other, folder, tmp_path / "gone", tmp_path)
    assert [GGUF.claims(path) for path in claimed] == [True, True, False, False, False, False]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="there are no pipes with names")
def test_a_pipe_that_nobody_writes_to_is_not_waited_for(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    assert not GGUF.claims(pipe)


LIMITS = """
import resource
from localspec.running.models.engines import engine
before = resource.getrlimit(resource.RLIMIT_NOFILE)
engine("mlx").backend()
assert resource.getrlimit(resource.RLIMIT_NOFILE) == before, before
"""


@pytest.mark.skipif(find_spec("mlx_lm") is None, reason="the engine that lowers it is not here")
def test_an_engine_that_is_imported_leaves_the_number_of_open_files_alone():
    subprocess.run([sys.executable, "-c", LIMITS], check=True)
