"""The commands for models by name, compared literally; the hub is not asked here."""

from __future__ import annotations

import json
import re
import threading
from dataclasses import replace
from pathlib import Path

import pytest
from filelock import FileLock

from localspec.apps.command_line import run
from localspec.base.errors import HubUnreachable
from localspec.console.options.model_names import name_or_path
from localspec.running.models import catalogue, catalogue_file, store
from localspec.running.models.locate import locate
from localspec.running.models.stored_pair import File, PulledPair, StoredModel
from localspec.running.pulling import hub, listed_model
from tests import engines
from tests.machines import MACHINES

# Of speed, on any machine, busy or not.
FIGURE = r"about \d+ tokens/s|\d+ tokens/s or more|a token/s or less|speed not known"

OWN = """\
[small]
about = "a small one"
licence = "MIT"
[small.gguf.weights]
q8_0 = { from = "hf:people/small", size = "600MB" }

[large]
about = "a large one"
family = "Sizes"
parameters = "100B"
licence = "MIT"
context = 32768
good-at = ["taking room"]
sampling = { temperature = 0.7, top-k = 20 }
[large.gguf]
drafter = "model"
draft = "small:q8_0"
projector = "hf:people/large:mmproj-F16.gguf"
projector-size = "900MB"
[large.gguf.weights]
q4_k_m = { from = "hf:people/large", size = "60.0GB" }
[large.mlx]
drafter = "mtp"
draft = "hf:people/large-mtp"
draft-size = "700MB"
[large.mlx.weights]
4bit = { from = "hf:people/large-4bit", size = "55.0GB" }
"""


@pytest.fixture(autouse=True)
def _a_shelf(monkeypatch, tmp_path):
    own = tmp_path / "config" / "models.toml"
    own.parent.mkdir()
    own.write_text(OWN)
    monkeypatch.setattr(catalogue, "own", lambda: own)
    monkeypatch.setattr(catalogue, "_builtin", dict)
    monkeypatch.setattr(store, "folder", lambda: tmp_path / "pulled")
    monkeypatch.setattr(listed_model, "machine", lambda engine: MACHINES["16 GB laptop"])
    both = (engines.GGUF_ENGINE, engines.MLX_ENGINE)
    monkeypatch.setattr(listed_model, "all_engines", lambda: both)


def kept(name: str, *, draft: Path | None = None) -> PulledPair:
    """A record of files that are here."""
    pulled = PulledPair(
        name, "q8_0", "llamacpp", held(engines.tiny("llama")), "model" if draft else "none",
        held(draft) if draft else None,
    )  # fmt: skip
    store.keep(pulled)
    return pulled


def held(path: Path) -> StoredModel:
    return StoredModel("hf:people/it", path, (File(path, path.stat().st_size, "", large=True),))


def test_the_list_tells_what_is_here_and_what_would_fit(capsys):
    kept("mine", draft=engines.tiny("llama", seed=3))
    gone = kept("gone")
    store.keep(PulledPair("gone", "q8_0", "llamacpp", held_but_gone(gone), "none"))
    assert run(["list"]) == 0
    out = re.sub(FIGURE, "about 28 tokens/s", capsys.readouterr().out)
    assert out == (
        "NAME   WEIGHTS  SIZE     ENGINE    DRAFTER        PROJECTOR\n"
        "gone   q8_0     1 MiB    llamacpp  none                      files are missing\n"
        "mine   q8_0     2 MiB    llamacpp  model 1 MiB               here\n"
        "small  q8_0     573 MiB  llamacpp  none                      fits, about 28 tokens/s\n"
        "large  q4_k_m   56 GiB   llamacpp  model 573 MiB  859 MiB    does not fit\n"
    )


def test_the_list_and_a_description_come_as_json_with_the_same_facts(capsys):
    kept("mine", draft=engines.tiny("llama", seed=3))
    assert run(["list", "--json"]) == 0
    mine, small, large = json.loads(capsys.readouterr().out)["models"]
    assert re.fullmatch(FIGURE, small.pop("speed"))
    assert small == {
        "name": "small",
        "weights": "q8_0",
        "bytes": 600_000_000,
        "engine": "llamacpp",
        "drafter": "none",
        "drafter_bytes": 0,
        "state": "fits",
        "projector_bytes": 0,
    }
    assert large["projector_bytes"] == 900_000_000
    assert (mine["state"], large["state"]) == ("here", "does not fit")
    assert run(["show", "large", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["catalogue"]["offers"]["gguf"]["weights"]["q4_k_m"]["source"] == "hf:people/large"
    assert shown["pulled"] == []
    assert run(["show", "mine", "--json"]) == 0
    shown = json.loads(capsys.readouterr().out)
    assert shown["catalogue"] is None
    assert shown["pulled"][0]["target"]["path"] == str(engines.tiny("llama"))


def held_but_gone(pulled: PulledPair) -> StoredModel:
    [file] = pulled.target.files
    return StoredModel(
        "x", Path("/nowhere.gguf"), (File(Path("/nowhere.gguf"), file.bytes, "", True),)
    )


def test_everything_known_of_a_name_is_shown(capsys):
    assert run(["show", "large"]) == 0
    assert capsys.readouterr().out == (
        "large: a large one\n"
        "  family     Sizes\n"
        "  parameters 100B\n"
        "  licence    MIT\n"
        "  context    32,768 tokens\n"
        "  good at    taking room\n"
        "  sampling   temperature 0.7, top-k 20\n"
        "  checked    not yet: sizes are as published\n"
        "  gguf       drafts with small:q8_0\n"
        "    projector  859 MiB  hf:people/large:mmproj-F16.gguf\n"
        "    q4_k_m      56 GiB  hf:people/large\n"
        "  mlx        drafts with hf:people/large-mtp, a drafting head (mtp; 668 MiB)\n"
        "    4bit        51 GiB  hf:people/large-4bit\n"
    )


def test_how_the_parts_of_a_pair_agree_is_shown(capsys):
    target, draft = engines.tiny("llama"), engines.tiny("llama", layout="shuffled")
    kept("mine", draft=draft)
    assert run(["show", "mine"]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"here: q8_0 for llamacpp, 2 MiB\n  model    {target}\n")
    assert f"  model    {draft}\n" in out
    assert "  tokens   98.4% shared; the first token is 267, the target's 365\n" in out
    assert out.endswith("  template the same in both\n")


def test_what_is_not_here_can_be_neither_removed_nor_verified(capsys):
    for command in ("rm", "verify-files"):
        assert run([command, "another"]) == 2
        assert "another is not here; `localspec list` shows what is" in capsys.readouterr().err
    assert run(["show", "larje"]) == 2
    assert "did you mean large?" in capsys.readouterr().err


STARTER = """\
[starter]
about = "one that comes with a package"
licence = "MIT"
[starter.gguf.weights]
q4_1 = { from = "package:tests/conftest.py", size = "1MB" }
"""


@pytest.mark.parametrize(
    ("arguments", "way"),
    [
        (["rm", "starter"], "`pip uninstall tests` removes it"),
        (["verify-files", "starter"], "`pip install --force-reinstall tests` gets its file anew"),
        (["cp", "starter", "mine"], "`localspec serve starter --alias mine` serves it under"),
    ],
)
def test_of_a_model_that_a_package_holds_it_is_said_that_it_was_not_pulled(arguments, way, capsys):
    catalogue.own().write_text(OWN + STARTER)
    assert run(arguments) == 2
    err = capsys.readouterr().err
    assert "starter was not pulled, it comes with the package tests" in err
    assert way in err


def test_a_copy_is_another_name_for_the_same_files(capsys):
    path = kept("mine").target.path
    assert run(["cp", "mine", "other"]) == 0
    assert locate("other").path == locate("mine").path == path
    assert run(["rm", "mine"]) == 0
    assert locate("other").path == path
    for name, message in (("large", "there is a model large already"), ("A B", "is no name")):
        assert run(["cp", "other", name]) == 2
        assert message in capsys.readouterr().err


@pytest.mark.parametrize(
    ("wish", "source"),
    [
        ("People/Model-8B", "hf:People/Model-8B"),
        ("People/Model-8B:Q4_K_M", "hf:People/Model-8B:*Q4_K_M*"),
        ("hf.co/People/Model-8B-GGUF:Q8_0", "hf:People/Model-8B-GGUF:*Q8_0*"),
        ("https://huggingface.co/People/Model-8B", "hf:People/Model-8B"),
    ],
)
def test_what_looks_like_a_repository_is_answered_with_its_source(wish, source, capsys):
    assert run(["pull", wish]) == 2
    assert capsys.readouterr().err.rstrip().endswith(source)
    if not wish.startswith("http"):
        assert run(["generate", wish, "hi"]) == 2
        assert f"localspec pull {source}\n" in capsys.readouterr().err


def test_without_the_hub_a_dry_run_tells_the_sizes_of_the_catalogue(capsys, monkeypatch):
    def list_files(_):
        raise HubUnreachable(hub.unreachable())

    monkeypatch.setattr(hub, "list_files", list_files)
    assert run(["pull", "large:q4_k_m", "--backend", "llamacpp", "--dry-run"]) == 0
    out, err = capsys.readouterr()
    assert out == (
        "large, q4_k_m for llamacpp\n"
        "  model     hf:people/large  (about 56 GiB)\n"
        "  model     small:q8_0  (about 573 MiB)\n"
        "  projector hf:people/large:mmproj-F16.gguf  (about 859 MiB)\n"
        "  about 57 GiB to download, less what is here\n"
    )
    assert "these are sizes of the catalogue: the hub is " in err
    assert run(["pull", "large:q4_k_m", "--backend", "llamacpp"]) == 1
    assert re.search("unset it|check the network, or HF_ENDPOINT", capsys.readouterr().err)
    assert run(["pull", "hf:people/large", "--dry-run"]) == 1


def test_a_draft_model_of_one_s_own_may_come_from_a_hub(capsys):
    path = str(engines.tiny("llama"))
    assert run(["add", "own", "--target", path, "--draft", "hf:people/small-gguf:q8_0.gguf"]) == 0
    assert run(["list"]) == 0
    assert catalogue.entries()["own"].offers["gguf"].draft == "hf:people/small-gguf:q8_0.gguf"


def test_a_file_of_one_s_own_needs_no_pull_once_it_has_a_name(capsys, tmp_path, monkeypatch):
    target, draft = engines.tiny("llama"), engines.tiny("llama", seed=3)
    monkeypatch.chdir(draft.parent)
    assert run(["add", "own", "--target", str(target), "--draft", f"./{draft.name}"]) == 0
    monkeypatch.chdir(tmp_path)  # a path counts from where it was written
    located = locate("own")
    assert (located.path, located.draft) == (target, draft)
    assert run(["list"]) == 0
    assert re.search(r"^own +as-given +\d MiB .*your own file$", capsys.readouterr().out, re.M)
    for command in (["rm", "own"], ["verify-files", "own"], ["cp", "own", "other"]):
        assert run(command) == 2
        assert f"own was not pulled; {catalogue.own()} lists it" in capsys.readouterr().err


@pytest.mark.parametrize("draft", ["hf:people/small-gguf:q8_0.gguf", "small"])
def test_a_file_of_one_s_own_waits_for_a_draft_model_that_is_to_be_pulled(capsys, draft):
    assert run(["add", "own", "--target", str(engines.tiny("llama")), "--draft", draft]) == 0
    assert run(["generate", "own", "hi"]) == 2
    assert "is not here yet: localspec pull" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "fault"),
    [
        (["--target", "./nothing.gguf"], "there is no file"),
        (["--draft", "nothing"], "there is no file"),
        (["--draft", "small:q3"], "models.toml: own drafts with small:q3; small has: q8_0"),
        (["--format", "mlx"], "is gguf, not mlx"),
        (["--about", "\udcff"], "is not UTF-8"),
    ],
)
def test_nothing_is_added_that_would_stop_later_commands(capsys, arguments, fault):
    before = catalogue.own().read_text()
    assert run(["add", "own", "--target", str(engines.tiny("llama")), *arguments]) == 2
    assert fault in capsys.readouterr().err
    assert catalogue.own().read_text() == before


def test_two_that_add_at_once_wait_for_each_other(tmp_path):
    arguments = ["add", "own", "--target", str(engines.tiny("llama"))]
    adding = threading.Thread(target=run, args=[arguments])
    with FileLock(catalogue.own().with_suffix(".lock")):
        adding.start()
        adding.join(0.5)
        assert adding.is_alive()
        before = catalogue.own().read_text()
        catalogue.own().write_text(before.replace("[large", "[other"))
    adding.join()
    assert {"own", "other"} <= set(catalogue_file.names(catalogue.own()))


def test_an_entry_is_described_in_several_lines(capsys):
    about = 'a "quoted" \\ one\nof two lines'
    assert run(["add", "own", "--target", str(engines.tiny("llama")), "--about", about]) == 0
    assert catalogue.entries()["own"].about == about


def test_a_name_of_one_s_own_is_added_once(capsys, tmp_path):
    path = str(engines.tiny("llama"))
    assert run(["add", "own", "--target", path, "--draft", "small:q8_0", "--size", "2GB"]) == 0
    assert run(["show", "own"]) == 0
    assert f"as-given   1.9 GiB  {path}" in capsys.readouterr().out
    assert run(["add", "own", "--target", path]) == 2
    assert "has own already: edit it there" in capsys.readouterr().err
    for arguments in (["Bad Name", "--target", path], ["x", "--target", "hf:a"]):
        assert run(["add", *arguments]) == 2
    assert run(["add", "x", "--target", path, "--size", "big"]) == 2
    assert "write it as 5.0GB" in capsys.readouterr().err
    assert "x" not in catalogue.entries()
    assert catalogue.entries()["own"].offers["gguf"].draft == "small:q8_0"
    assert not list(tmp_path.rglob("*.part"))


def test_records_that_make_no_sense_are_passed_over(tmp_path):
    kept("mine")
    for number, text in enumerate(["", "{", "[]", '{"name": 3}', '{"engine": "x"}']):
        (tmp_path / "pulled" / f"{number}.json").write_text(text)
    assert [pulled.name for pulled in store.everything()] == ["mine"]
    assert [pulled.name for pulled in store.find("mine:q8_0")] == ["mine"]
    assert store.find("mine:q4_0") == []


def test_what_was_pulled_for_an_engine_that_has_gone_can_still_be_removed(capsys):
    store.keep(replace(kept("mine"), engine="onnx", weights="q4_0"))
    assert run(["list"]) == 0
    row = "mine   q4_0     1 MiB    onnx      none                      engine missing\n"
    assert row in capsys.readouterr().out
    assert locate("mine").engine.name == "llamacpp"
    assert run(["rm", "mine:q4_0"]) == 0
    assert [each.engine for each in store.everything()] == ["llamacpp"]


def test_of_what_was_pulled_for_two_engines_that_of_the_preferred_one_is_used(monkeypatch):
    preferred = (engines.MLX_ENGINE, engines.GGUF_ENGINE)
    for engine in preferred:
        store.keep(replace(kept("small"), engine=engine.name))
    monkeypatch.setattr("localspec.running.models.engines.all_engines", lambda: preferred)
    assert locate("small").engine == engines.MLX_ENGINE


def test_a_format_that_no_engine_here_takes_is_listed_but_not_run(capsys):
    catalogue.own().write_text(OWN.replace("small.gguf", "small.onnx").partition("[large]")[0])
    assert run(["list"]) == 0
    out = capsys.readouterr().out
    assert out.endswith("small  q8_0     573 MiB  onnx    none                engine missing\n")
    assert run(["generate", "small", "hi"]) == 2
    out = capsys.readouterr().err
    assert "small is listed as onnx only, which none of the engines here takes: " in out
    assert "llamacpp" in out


def test_what_has_lost_files_is_not_found():
    pulled = kept("gone")
    store.keep(replace(pulled, target=held_but_gone(pulled)))
    assert store.everything()
    assert store.find("gone") == []


def test_of_several_weights_the_catalogue_s_first_is_loaded(tmp_path):
    more = 'size = "600MB" }\nq4_0 = { from = "hf:a/b", size = "1MB" }'
    catalogue.own().write_text(OWN.replace('size = "600MB" }', more))
    first, second = engines.tiny("llama", seed=3), engines.tiny("llama")
    for weights, path in (("q4_0", second), ("q8_0", first)):
        store.keep(replace(kept("small"), weights=weights, target=held(path)))
    assert locate("small").path == first
    assert locate("small:q4_0").path == second


def test_names_complete_in_a_shell():
    assert [each.value for each in name_or_path(None, None, "la")] == ["large"]  # type: ignore


def test_where_nobody_sits_at_a_terminal_nobody_is_asked(capsys):
    assert run(["generate", "large", "hi"]) == 2
    assert "large is not here yet: localspec pull large" in capsys.readouterr().err
