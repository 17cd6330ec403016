"""The option --adapter: a path, and a scale behind its last colon."""

from __future__ import annotations

import json
import os
from dataclasses import asdict
from pathlib import Path

import click
import pytest

from localspec.apps.command_line import run
from localspec.apps.server.command import for_other_models
from localspec.console.options.kinds import ADAPTER, parse_adapter
from localspec.console.options.loading import LoadingOptions, make_loading
from localspec.interfaces.adapter import Adapter
from localspec.interfaces.backend import Options
from tests import engines
from tests.backends.lora_files import adapter

WORDS = "the code is the code, and the return is"


@pytest.mark.parametrize(
    ("text", "path", "scale"),
    [
        ("poet.gguf", "poet.gguf", 1.0),
        ("poet.gguf:0.5", "poet.gguf", 0.5),
        ("poet.gguf:-2", "poet.gguf", -2.0),
        ("poet.gguf:0", "poet.gguf", 0.0),
        (r"C:\adapters\poet.gguf", r"C:\adapters\poet.gguf", 1.0),
        (r"C:\adapters\poet.gguf:1e-1", r"C:\adapters\poet.gguf", 0.1),
        ("a:b/poet.gguf:2", "a:b/poet.gguf", 2.0),
        (":2", ":2", 1.0),
    ],
)
def test_a_number_behind_the_last_colon_is_a_scale(text, path, scale):
    adapter = parse_adapter(text)
    assert adapter == Adapter(Path(path), scale)
    assert parse_adapter(str(adapter)) == adapter


def test_a_file_whose_name_ends_like_a_scale_is_found(tmp_path):
    path = tmp_path / "poet:2"
    path.write_bytes(b"")
    assert parse_adapter(str(path)) == Adapter(path)
    assert parse_adapter(f"{path}:0.5") == Adapter(path, 0.5)


@pytest.mark.parametrize(
    ("text", "message"),
    [("nowhere.gguf:0.5", "nowhere.gguf does not exist"), (":nan", "nan"), ("x:1000", "1000")],
)
def test_what_cannot_be_is_refused(text, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(click.BadParameter, match=message):
        ADAPTER.convert(text, None, None)


ADAPTERS = (Adapter(Path("poet.gguf")), Adapter(Path("judge.gguf"), -0.5))


def test_adapters_are_for_the_first_of_several_models():
    loading = make_loading(LoadingOptions(adapter=ADAPTERS))
    assert loading.options.adapters == ADAPTERS
    assert for_other_models(loading).options.adapters == ()


def test_options_come_back_from_json_as_they_were():
    options = Options(adapters=ADAPTERS, head=Path("head.gguf"), split=(1.0, 2.0))
    written = json.dumps(asdict(options), default=os.fspath)
    assert Options.from_json(json.loads(written)) == options


def test_a_plan_names_adapters_and_their_scales(capsys, tmp_path):
    base = engines.tiny("llama")
    file = adapter(tmp_path / "poet.gguf", base)
    assert run(["plan", str(base), "--adapter", f"{file}:0.5"]) == 0
    assert "with the adapter poet.gguf, at a scale of 0.5" in capsys.readouterr().out
    assert run(["plan", str(base), "--adapter", str(file), "--json"]) == 0
    [planned] = json.loads(capsys.readouterr().out)["options"]["adapters"]
    assert planned == {"path": str(file), "scale": 1.0}


def test_info_describes_an_adapter(capsys, tmp_path):
    file = adapter(tmp_path / "poet.gguf", engines.tiny("llama"))
    assert run(["info", str(file)]) == 0
    lines = dict(line.split(maxsplit=1) for line in capsys.readouterr().out.splitlines())
    assert lines["kind"] == "LoRA adapter: give it with --adapter"
    assert (lines["architecture"], lines["rank"], lines["alpha"]) == ("llama", "4", "8")
    assert lines["changes"] == "21 matrices"
    assert run(["info", str(file), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["name"] == "poet"


def test_an_adapter_changes_what_is_generated_and_drafts_do_not(capsys, tmp_path):
    base = engines.tiny("llama")
    file = adapter(tmp_path / "poet.gguf", base)
    texts = []
    for words in ([], ["--plain"], ["--adapter", str(file)], ["--adapter", str(file), "--plain"]):
        words = ["generate", str(base), WORDS, "--temperature", "0", "--max-tokens", "30", *words]
        assert run([*words, "--context", "256"]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] != texts[2] == texts[3]
