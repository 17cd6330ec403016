"""Projectors from the folder of a model to what is loaded: taken, left out, refused."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest

from localspec.apps.command_line import run
from localspec.base.errors import LocalSpecError, ModelFileError, UsageError
from localspec.interfaces.backend import Footprint, Needs, Options
from localspec.running.memory.concessions import TEXT_ONLY
from localspec.running.memory.planner import Limits, require_projectors
from localspec.running.models import trial
from localspec.running.models.locate import ModelFiles
from localspec.running.runtime.loading import Loading, load
from localspec.running.runtime.pair_files import ExaminedPair, PairFiles
from localspec.running.runtime.resolved_pair import resolve_pair
from localspec_llamacpp.backend import inspect
from tests import engines
from tests.tiny_vision import picture, write_projector, write_sighted

SMALL = Options(context=256, threads=1)
PLAIN = Loading(SMALL, "none", limits=Limits(device="cpu"))


@pytest.fixture(scope="module")
def seeing(tmp_path_factory) -> Path:
    """A model with a projector beside it."""
    return write_sighted(tmp_path_factory.mktemp("seeing"), "llama")[0]


def given(projector: Path) -> Loading:
    return replace(PLAIN, options=replace(SMALL, projector=projector))


def conceded(runtime) -> list[str]:
    return [concession.what for concession in runtime.facts.plan.concessions]


def test_the_projector_beside_a_model_is_loaded_with_it(seeing):
    files = PairFiles.locate(seeing, None, "auto")
    assert PLAIN.media_of(files) == {"image"}
    with load(seeing, loading=PLAIN) as runtime:
        assert runtime.sight
        assert runtime.sight.kinds == {"image"}
        [projector] = [item for item in runtime.facts.plan.items if item.what == "projector"]
        assert projector.bytes > files.target.projector.stat().st_size * 0.8


def test_a_model_is_loaded_without_its_projector_on_request(seeing):
    loading = replace(PLAIN, limits=replace(PLAIN.limits, text_only=True))
    assert loading.media_of(PairFiles.locate(seeing, None, "auto")) == frozenset()
    with load(seeing, loading=loading) as runtime:
        assert runtime.sight is None
        assert not conceded(runtime)


def test_a_projector_that_does_not_fit_its_model_is_left_away_with_a_reason(seeing, tmp_path):
    path = tmp_path / seeing.name
    path.symlink_to(seeing)
    narrow = write_projector(tmp_path / "mmproj-other.gguf", "llama", width=96)
    with load(path, loading=PLAIN) as runtime:
        assert runtime.sight is None
        assert conceded(runtime) == [TEXT_ONLY]
    with pytest.raises(LocalSpecError):
        load(path, loading=given(narrow))


class DyingOfPictures:
    """A trial that a projector ends."""

    def __init__(self, files: ModelFiles) -> None:
        self._files = files

    def footprint(self) -> Footprint:
        return inspect(self._files.path)

    def needs(self, options: Options) -> Needs:
        return Needs(1, 1, 1, projector=int(options.projector is not None))

    def run(self, options: Options, *, driven: bool = False) -> None:
        if options.projector:
            raise ModelFileError("it ends its engine")

    def close(self) -> None: ...


def test_a_projector_that_ends_its_engine_is_left_away_unless_it_was_given(tmp_path):
    model, projector = write_sighted(tmp_path, "llama", seed=5)
    files = ModelFiles(engines.GGUF_ENGINE, model).with_projector()
    limits = Limits(device="cpu")
    with trial.examine(files, DyingOfPictures) as target:
        pair = ExaminedPair(target, None)
        plan = resolve_pair(pair, SMALL, limits, insists=False).plan
        assert plan.options.projector is None
        assert [(one.what, one.why) for one in plan.concessions] == [
            (TEXT_ONLY, "it ends its engine")
        ]
        with pytest.raises(ModelFileError, match="it ends its engine"):
            resolve_pair(pair, replace(SMALL, projector=projector), limits, insists=False)


def test_a_file_that_is_no_projector_is_refused_by_name(seeing):
    with pytest.raises(UsageError, match="is no projector: its architecture is llama"):
        load(seeing, loading=given(seeing))


def test_projectors_that_cannot_be_told_apart_are_named_and_not_loaded(seeing, tmp_path):
    path = tmp_path / seeing.name
    path.symlink_to(seeing)
    for seed, kind in enumerate(("llama", "gemma3")):
        write_projector(tmp_path / f"mmproj-{kind}-sees.gguf", kind, seed=seed)
    with load(path, loading=PLAIN) as runtime:
        assert conceded(runtime) == [TEXT_ONLY]
        [concession] = runtime.facts.plan.concessions
        assert concession.why.endswith("give one with --mmproj")
    with load(path, loading=given(tmp_path / "mmproj-llama-sees.gguf")) as runtime:
        assert runtime.sight


def test_an_engine_without_projectors_names_the_forms_that_have_them(seeing):
    blind = replace(engines.MLX_ENGINE, spec=replace(engines.MLX_ENGINE.spec, projectors=None))
    target = SimpleNamespace(files=ModelFiles(blind, seeing))
    with pytest.raises(UsageError, match=r"^mlx takes no projector .* as .*a GGUF file"):
        require_projectors(target, replace(SMALL, projector=seeing))


def test_a_projector_of_a_gguf_is_refused_for_an_mlx_folder(seeing):
    options = Options(context=256, projector=seeing.with_name("mmproj-llama.gguf"))
    with pytest.raises(UsageError, match="an MLX folder sees by its own tower"):
        load(engines.tiny_folder("llama"), loading=replace(PLAIN, options=options))


def test_commands_show_the_projector_and_leave_it_away(seeing, capsys):
    assert run(["plan", str(seeing), "--context", "256"]) == 0
    out = capsys.readouterr().out
    assert "with the projector mmproj-llama.gguf" in out
    assert "P projector" in out
    assert run(["plan", str(seeing), "--context", "256", "--no-mmproj", "--json"]) == 0
    assert "projector" not in {
        item["what"] for item in json.loads(capsys.readouterr().out)["items"]
    }
    assert run(["info", str(seeing)]) == 0
    assert "mmproj-llama.gguf: it takes images" in capsys.readouterr().out
    assert run(["info", str(seeing), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["projector"].endswith("mmproj-llama.gguf")
    options = ["--mmproj", str(seeing.with_name("mmproj-llama.gguf"))]
    assert run(["plan", str(seeing), *options, "--no-mmproj"]) == 2
    assert "omit one" in capsys.readouterr().err


def test_a_picture_is_read_by_a_model_that_was_loaded_by_its_path(seeing):
    with load(seeing, loading=PLAIN) as runtime:
        message = {"role": "user", "content": "the code", "images": [picture()]}
        assert runtime.chat([message], max_tokens=4).tokens


def test_the_command_line_shows_a_picture_in_the_process_that_survives_a_fork(seeing, tmp_path):
    file = tmp_path / "picture.bmp"
    file.write_bytes(picture())
    command = [sys.executable, "-m", "localspec", "generate", str(seeing), "the code"]
    command += ["--image", str(file), "--max-tokens", "2", "--context", "256"]
    assert subprocess.run(command, capture_output=True, timeout=60).returncode == 0
