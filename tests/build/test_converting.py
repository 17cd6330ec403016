"""Published heads become files by llama.cpp's converter, which a shell script stands in for."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from localspec.apps.command_line import run
from localspec.base.errors import BackendError, ModelFileError
from localspec.interfaces.file_tools import Published
from localspec.running.models.engines import Engine
from localspec.running.models.engines import engine as named
from localspec_llamacpp.converting import convert, convert_adapter
from tests import engines
from tests.backends import lora_files

VERSION = "llama-cpp-python==1"


@pytest.fixture
def converter(site):
    """A converter of version 1, which writes an EAGLE-3 head."""
    site.let(fault="")
    shutil.copy(engines.beside("llama-soft", "eagle3"), site.root / "head.gguf")
    site.target = site.target._replace(requirement=VERSION)
    return site


def write(site, out: Path, **changes: object) -> Path:
    head = Published(Path("head"), Path("model"))._replace(**changes)
    convert(head, out, site.target)
    return out


def left(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.suffix in (".gguf", ""))


def test_sources_and_an_environment_are_got_once(converter, tmp_path):
    for name in ("one.gguf", "two.gguf"):
        out = write(converter, tmp_path / name)
        assert out.read_bytes() == (converter.root / "head.gguf").read_bytes()
    [fetched] = converter.calls("-m pip download")
    assert VERSION in fetched
    [installed] = converter.calls("-m pip", "install")
    assert "--python" in installed
    assert installed.endswith("requirements-convert_hf_to_gguf.txt")
    for call in converter.calls("convert_hf_to_gguf.py", "--outfile"):
        assert " head --target-model-dir model --outfile " in call
        assert call.endswith("--outtype auto")


def test_a_head_among_a_models_weights_is_asked_for_alone(converter, tmp_path):
    write(converter, tmp_path / "out.gguf", model=None, kind="q8_0")
    [call] = converter.calls("--outfile")
    assert " head --mtp --outfile " in call
    assert call.endswith("--outtype q8_0")


def test_a_python_that_is_given_needs_no_environment(converter, tmp_path):
    write(converter, tmp_path / "out.gguf", python=converter.target.python)
    assert not converter.calls("-m venv")
    with pytest.raises(BackendError, match="there/python cannot be run"):
        write(converter, tmp_path / "other.gguf", python="there/python")


def test_a_converter_that_fails_leaves_nothing_and_says_why(converter, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    converter.let(fault="ValueError: no such layer\n")
    with pytest.raises(BackendError, match="failed: ValueError: no such layer\nall it said is in"):
        write(converter, folder / "out.gguf")
    with pytest.raises(BackendError, match="layer; a head in a folder of its own needs"):
        write(converter, folder / "out.gguf", model=None)
    assert left(folder) == []


def test_a_whole_model_is_no_head(converter, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    shutil.copy(engines.tiny("llama"), converter.root / "head.gguf")
    with pytest.raises(ModelFileError, match="head is a whole model"):
        write(converter, folder / "out.gguf")
    assert left(folder) == []


def test_an_adapter_is_converted_by_a_script_of_its_own(converter, tmp_path):
    lora_files.adapter(converter.root / "head.gguf", engines.tiny("llama"))
    out = tmp_path / "out.gguf"
    convert_adapter(Published(Path("poet"), Path("model")), out, converter.target)
    assert out.read_bytes() == (converter.root / "head.gguf").read_bytes()
    [call] = converter.calls("convert_lora_to_gguf.py", "--outfile")
    assert " poet --base model --outfile " in call
    assert call.endswith("--outtype auto")
    convert_adapter(Published(Path("poet"), None, "f16"), out, converter.target)
    assert " poet --outfile " in converter.calls("convert_lora_to_gguf.py")[-1]


def test_what_is_no_adapter_is_not_left(converter, tmp_path):
    folder = tmp_path / "new"
    folder.mkdir()
    with pytest.raises(ModelFileError, match="is no LoRA adapter"):
        convert_adapter(Published(Path("a"), None), folder / "out.gguf", converter.target)
    converter.let(fault="OSError: offline\n")
    with pytest.raises(BackendError, match="offline; the folder of its model can be given by --b"):
        convert_adapter(Published(Path("a"), None), folder / "out.gguf", converter.target)
    assert left(folder) == []


@pytest.mark.parametrize(("refused", "calls"), [("download", 0), ("install", 1)])
def test_what_cannot_be_fetched_is_fetched_again_next_time(refused, calls, converter, tmp_path):
    converter.let(refuses=refused)
    with pytest.raises(BackendError, match="pip failed"):
        write(converter, tmp_path / "out.gguf")
    assert len(converter.calls("-m venv")) == calls
    converter.let(refuses="")
    assert write(converter, tmp_path / "out.gguf").exists()


@pytest.fixture
def folders(tmp_path, monkeypatch):
    """A published head and its model, and what the command hands to an engine."""
    asked = []

    def convert(head, out):
        asked.append(head)
        out.write_bytes(bytes(2 << 20))

    spec = named("llamacpp").spec
    engine = Engine("llamacpp", replace(spec, heads=spec.heads._replace(convert=convert)))
    monkeypatch.setattr("localspec.apps.commands.convert.all_engines", lambda: [engine])
    monkeypatch.chdir(tmp_path)
    for name in ("head", "model"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "config.json").write_text("{}")
    return asked


def test_the_command_writes_a_file_named_by_the_folder_and_overwrites_none(folders, capsys):
    assert run(["convert-draft", "head", "--target", "model", "--type", "bf16"]) == 0
    assert capsys.readouterr().out == "head.gguf: 2 MiB; to use it: --draft head.gguf\n"
    assert folders == [Published(Path("head"), Path("model"), "bf16")]
    assert run(["convert-draft", "head", "--target", "model"]) == 2
    assert "head.gguf is there already: name another with --out" in capsys.readouterr().err


def test_the_command_wants_folders_as_they_were_published(folders, capsys):
    Path("model.gguf").write_bytes(b"GGUF")
    for wrong in (["model.gguf"], ["head", "--target", "model.gguf"]):
        assert run(["convert-draft", *wrong]) == 2
        assert "model.gguf has no config.json" in capsys.readouterr().err
    assert folders == []


def test_the_command_converts_what_peft_saved_and_overwrites_nothing(monkeypatch, tmp_path, capsys):
    asked = []

    def write(adapter, out):
        asked.append(adapter)
        out.write_bytes(bytes(2 << 20))

    spec = named("llamacpp").spec
    engine = Engine("llamacpp", replace(spec, adapters=spec.adapters._replace(convert=write)))
    monkeypatch.setattr("localspec.apps.commands.convert.all_engines", lambda: [engine])
    monkeypatch.chdir(tmp_path)
    for name, file in (("poet", "adapter_config.json"), ("model", "config.json")):
        Path(name).mkdir()
        (Path(name) / file).write_text("{}")
    assert run(["convert-adapter", "poet", "--base", "model"]) == 0
    assert capsys.readouterr().out == "poet.gguf: 2 MiB; to use it: --adapter poet.gguf\n"
    assert asked == [Published(Path("poet"), Path("model"))]
    for words, said in (
        (["poet"], "poet.gguf is there already"),
        (["model"], "model has no adapter_config.json"),
        (["poet", "--base", "poet", "--out", "x"], "poet has no config.json"),
    ):
        assert run(["convert-adapter", *words]) == 2
        assert said in capsys.readouterr().err
    assert len(asked) == 1
