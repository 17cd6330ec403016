"""The command: what it prints and writes, refuses, and keeps when it is interrupted."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from localspec.apps.bench import command, modes, timed_run
from localspec.apps.bench.prompts import built_in
from localspec.apps.command_line import commands, run
from localspec.base.system.processors import ProcessorTimes
from localspec.running.models import trained
from tests import engines


@pytest.fixture(scope="module")
def model():
    return str(engines.tiny("llama"))


@pytest.fixture(scope="module", autouse=True)
def _registered():
    if "bench" not in commands.commands:
        commands.add_command(command.bench)


@pytest.fixture
def asked(tmp_path):
    """Two categories, three prompts, one of them an edit."""
    path = tmp_path / "asked.jsonl"
    lines = [
        {"category": "chat", "prompt": "the code is the code is"},
        {"category": "chat", "messages": [{"role": "user", "content": "and the return is"}]},
        {"category": "edit", "prompt": "change the code", "prediction": "the code"},
    ]
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    return str(path)


QUICK = ["--threads", "1", "--context", "512", "--max-tokens", "12"]


def bench(*arguments):
    return run(["bench", *QUICK, *arguments])


def test_a_run_prints_its_verdict_first_and_writes_its_file(model, asked, tmp_path, capsys):
    files = [f"--json={tmp_path / 'json'}"]
    assert bench(model, "--prompts", asked, "--modes", "ngram:2,auto", *files) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert [line.split()[0] for line in lines if line[:4] in ("chat", "edit", "all ")] == [
        "chat",
        "edit",
        "all",
    ]
    assert "revision" not in out
    assert "answers: 0, about 2 min left\n" in err
    record = json.loads((tmp_path / "json").read_text(encoding="utf-8"))
    assert record["modes"] == ["plain", "ngram:2", "auto", "plain again"]
    assert len(record["replies"]) == 12
    assert all(len(reply["tokens"]) <= 12 for reply in record["replies"])
    everything = next(s for s in record["sections"] if s["title"] == "all")
    assert [s["same_text"] for s in everything["summaries"]] == [3, 3, 3, 3]
    assert record["verdict"]["text"].split() == " ".join(out.split("\n\n")[0].split()).split()


def of_another_machine(path, drafts_right=False):
    """Change a run's file, so that speeds, which vary, are not compared."""
    record = json.loads(path.read_text(encoding="utf-8"))
    record["heading"]["machine"] = "another machine"
    for reply in record["replies"] if drafts_right else []:
        reply["rounds"] = [[n, n, n + 1, *seconds] for n, _, _, *seconds in reply["rounds"]]
    path.write_text(json.dumps(record), encoding="utf-8")


def test_a_run_that_is_compared_repeats_the_earlier_one_and_fails_on_a_fall(
    model, asked, tmp_path, capsys
):
    base = tmp_path / "base.json"
    pair = [model, "--draft", str(engines.tiny("llama", seed=3)), "--prompts", asked]
    assert bench(*pair, "--modes", "draft-model:2", "--json", str(base)) == 0
    of_another_machine(base)
    capsys.readouterr()
    against = [*pair, "--against", str(base)]
    assert run(["bench", "--threads=1", "--context=512", *against]) == 0
    out = capsys.readouterr().out
    assert f"Against {base}, 3 prompts:" in out
    assert re.search(r"draft-model:2: accepted +(\d+%) +\1 +\+0 ", out)
    of_another_machine(base, drafts_right=True)
    assert bench(*against, "--json", str(base)) == 2  # the next run would be compared with this
    assert "name another one" in capsys.readouterr().err
    assert bench(*against) == 1
    assert re.search(
        r"this fell: draft-model:2: accepted \d+% \(100% before; ", capsys.readouterr().err
    )


def test_a_run_of_other_weights_is_refused_before_anything_is_measured(
    model, asked, tmp_path, capsys
):
    base = tmp_path / "base.json"
    assert bench(model, "--prompts", asked, "--modes", "ngram:2", "--json", str(base)) == 0
    capsys.readouterr()
    other = str(engines.tiny("llama", seed=3))
    assert bench(other, "--prompts", asked, "--against", str(base)) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert "measured with another model" in err
    assert "answers" not in err


def test_details_have_the_tables_and_the_setup(model, asked, capsys):
    assert bench(model, "--prompts", asked, "--modes", "ngram:2", "--details") == 0
    out = capsys.readouterr().out
    for expected in ("revision", "numpy", "edit: 1 reply", "all: 3 replies", "Theory"):
        assert expected in out


def test_a_run_ends_in_its_time_with_the_first_prompts_of_each_category(model, tmp_path, capsys):
    lines = [
        {"category": kind, "prompt": f"{kind} {number}"}
        for kind in ("chat", "edit", "code")
        for number in range(200)
    ]
    prompts = tmp_path / "asked.jsonl"
    prompts.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    path = tmp_path / "found"
    assert bench(model, "--prompts", str(prompts), "--seconds", "0.1", "--json", str(path)) == 0
    replies = json.loads(path.read_text(encoding="utf-8"))["replies"]
    assert len(replies) == 3 * 3
    assert {reply["category"] for reply in replies} == {"chat", "edit", "code"}
    assert "3 prompts" in capsys.readouterr().out


def test_the_time_begins_once_the_model_is_loaded(model, asked, monkeypatch):
    """It began before, and a slow machine had read and measured when its time was over."""
    clock, deadlines = [100.0], []

    def slow_load(*arguments, **options):
        clock[0] += 1000.0
        return load(*arguments, **options)

    def noted(lineup, questions, repeat, deadline):
        deadlines.append(deadline)
        return run_modes(lineup, questions, repeat, deadline=0.0)

    load, run_modes = modes.load, timed_run.run
    monkeypatch.setattr(modes, "load", slow_load)
    monkeypatch.setattr(command, "run", noted)
    monkeypatch.setattr(command.time, "monotonic", lambda: clock[0])
    assert bench(model, "--prompts", asked, "--modes", "ngram:2", "--seconds", "30") == 0
    assert deadlines == [1130.0]


def test_a_busy_machine_is_told_at_the_start(capsys):
    command.warn_of_others(ProcessorTimes(idle=9.0, busy=91.0, own=10.0))
    assert "other programs take 81% of the processors" in capsys.readouterr().err
    command.warn_of_others(ProcessorTimes(idle=90.0, busy=10.0, own=1.0))
    assert capsys.readouterr() == ("", "")


def test_what_is_asked_can_be_narrowed(model, asked, tmp_path, capsys):
    path = tmp_path / "found"
    narrowed = ["--category", "chat", "--limit", "1", "--repeat", "2", "--json", str(path)]
    sampled = ["--temperature", "0.8", "--seed", "4", "--max-tokens", "5"]
    assert bench(model, "--prompts", asked, "--modes", "ngram", *narrowed, *sampled) == 0
    out = " ".join(capsys.readouterr().out.split())
    assert "2 prompts, replies of up to 5 tokens, temperature 0.8, seed 4." in out
    replies = json.loads(path.read_text(encoding="utf-8"))["replies"]
    assert [(r["prompt"], r["repeat"], r["mode"]) for r in replies] == [
        ("chat 1", 0, "plain"),
        ("chat 1", 0, "ngram"),
        ("chat 1", 0, "plain again"),
        ("chat 1", 1, "plain"),
        ("chat 1", 1, "ngram"),
        ("chat 1", 1, "plain again"),
    ]
    assert replies[0]["tokens"] == replies[1]["tokens"] != replies[3]["tokens"]


def test_a_draft_model_drafts_at_depths_beyond_the_usual(model, asked, capsys):
    draft = str(engines.tiny("llama", seed=3))
    modes = ["--modes", "draft-model:12,ngram", "--limit=1", "--details"]
    assert bench(model, "--draft", draft, "--prompts", asked, *modes) == 0
    out = capsys.readouterr().out
    assert "draft-model:12" in out
    assert "of the tokens" in out


def test_a_draft_model_is_judged_beside_prompt_lookup(model, asked, capsys):
    draft = str(engines.tiny("llama", seed=3))
    assert bench(model, "--draft", draft, "--prompts", asked) == 0
    assert "by prompt lookup  with this draft model" in capsys.readouterr().out


def ranked(out):
    """The rows of the table of drafters, which follows the verdict."""
    return [line.split() for line in out.split("\n\n")[1].splitlines()[1:]]


def test_several_drafters_answer_the_same_prompts_in_turn(model, asked, capsys):
    names = [str(engines.tiny("llama", seed=seed)) for seed in (3, 4)]
    drafts = [word for name in (*names, "none") for word in ("--draft", name)]
    assert bench(model, "--prompts", asked, *drafts) == 0
    out, err = capsys.readouterr()
    assert [row[-1] for row in ranked(out)] == ["3/3"] * 3
    assert {row[0] for row in ranked(out)} == {*names, "no"}
    assert err.count("answers: 0,") == 3
    assert bench(model, *drafts, "--modes", "ngram") == 2
    assert "--modes is for one --draft" in capsys.readouterr().err


def test_what_was_pulled_with_a_model_is_compared_unasked(asked, tmp_path, monkeypatch, capsys):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    model, draft = (tmp_path / name for name in ("model.gguf", "draft.gguf"))
    shutil.copy(engines.tiny("llama"), model)
    shutil.copy(engines.tiny("llama", seed=5), draft)
    trained.keep(model, draft)
    other = str(engines.tiny("llama", seed=4))
    limited = ["--prompts", asked, "--limit=1", "--draft", other, "--draft", "none"]
    assert bench(str(model), *limited) == 0
    assert {row[0] for row in ranked(capsys.readouterr().out)} == {other, str(draft), "no"}


def test_a_recurrent_model_gets_the_room_that_a_deep_mode_needs(asked, tmp_path):
    path = tmp_path / "found"
    wishes = ["--modes=ngram:12", "--max-tokens=100", "--limit=1", "--json", str(path)]
    assert bench(str(engines.tiny("mamba2")), "--prompts", asked, *wishes) == 0
    replies = json.loads(path.read_text(encoding="utf-8"))["replies"]
    assert max(drafted for reply in replies for drafted, *_ in reply["rounds"]) == 12


def test_the_prompts_that_come_with_it_are_asked_by_default(model, capsys):
    assert bench(model, "--limit", "1", "--modes", "ngram", "--context", "4096") == 0
    firsts = [line.split(" ")[0] for line in capsys.readouterr().out.splitlines()]
    categories = list(dict.fromkeys(prompt.category for prompt in built_in()))
    assert [first for first in firsts if first in categories] == categories


def test_a_draft_model_that_is_not_there_cannot_be_measured(model, capsys):
    assert bench(model, "--modes", "draft-model") == 2
    assert "give one with --draft" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--prompts", "NONE"], "cannot be read from"),
        (["--prompts", "BROKEN"], "line 1: not JSON"),
        (["--modes", "plain,fast"], "no mode 'fast'"),
        (["--category", "poems"], "no category 'poems'"),
        (["--max-tokens", "0"], "max_tokens is 0"),
        (["--temperature", "-1"], "temperature is -1"),
        (["--seed", "-1"], "seed is -1"),
        (["--limit", "0"], "limit"),
        (["--repeat", "0"], "repeat"),
        (["--json", "NONE/found.json"], "--json cannot be written"),
        (["--share", "NONE/rows"], "--share cannot be written"),
        (["--seconds", "0"], "seconds"),
        (["--json", "FOLDER"], "directory"),
        (["--against", "NONE"], "does not exist"),
        (["--against", "BROKEN"], "cannot be compared"),
    ],
)
def test_a_wrong_wish_fails_before_the_model_is_looked_for(arguments, message, tmp_path, capsys):
    (tmp_path / "broken").write_text("{")
    names = {"NONE": tmp_path / "none", "BROKEN": tmp_path / "broken", "FOLDER": tmp_path}
    for word, path in names.items():
        arguments = [each.replace(word, str(path)) for each in arguments]
    assert bench("no-such-model", *arguments) == 2
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert "no-such-model" not in err


def test_looking_whether_a_file_can_be_written_leaves_none_and_harms_none(tmp_path):
    old = tmp_path / "old"
    old.write_text("precious")
    for path in (tmp_path / "new", old):
        assert bench("no-such-model", "--json", str(path)) == 2
    assert old.read_text() == "precious"
    assert not (tmp_path / "new").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="only Linux has a disk that is full")
def test_a_full_disk_is_said_in_a_line_after_the_figures(model, asked, capsys):
    assert bench(model, "--prompts", asked, "--modes", "ngram", "--json", "/dev/full") == 1
    out, err = capsys.readouterr()
    assert "tokens/s" in out
    assert err.splitlines()[-1].startswith("localspec: --json cannot be written: [Errno 28]")


def test_the_proposer_is_named_by_modes_alone(capsys):
    for option in ("--proposer", "--depth"):
        assert bench("no-such-model", option, "2") == 2
        err = capsys.readouterr().err
        assert "No such option" in err
        assert option in err


SCRIPT = """
import sys
from localspec.apps.bench.command import bench
from localspec.apps.command_line import commands, run
commands.add_command(bench)
sys.exit(run(sys.argv[1:]))
"""


@pytest.mark.skipif(sys.platform == "win32", reason="another process cannot be sent Ctrl-C there")
def test_an_interrupted_run_shows_what_there_is(model, tmp_path):
    lines = [{"category": "long", "prompt": "the code is"}] * 400
    path = tmp_path / "asked.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)), encoding="utf-8")
    wishes = ["--prompts", str(path), "--modes=ngram", "--json", str(tmp_path / "found")]
    terminal, theirs = os.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, "bench", model, *QUICK, "--max-tokens=200", *wishes],
        stdout=subprocess.PIPE,
        stderr=theirs,
        text=True,
    )
    os.close(theirs)
    err = ""
    while not re.search("answers: ([3-9]|[0-9]{2})", err):  # a prompt, by all modes
        err += os.read(terminal, 1 << 10).decode(errors="replace")
    process.send_signal(signal.SIGINT)
    out, _ = process.communicate(timeout=60)
    with suppress(OSError):  # as a terminal's text ends on Linux
        while piece := os.read(terminal, 1 << 10):
            err += piece.decode(errors="replace")
    os.close(terminal)
    assert process.returncode == 130
    assert "interrupted: the figures are of what was answered" in err
    assert "Traceback" not in err
    assert "tokens/s" in out
    assert 0 < len(json.loads((tmp_path / "found").read_text(encoding="utf-8"))["replies"]) < 1200
