"""The command line: one answer, its figures, one-line errors and exit codes."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from localspec.apps.chat.command import is_question
from localspec.apps.command_line import commands, run
from tests import engines
from tests.tiny_vision import picture

WORDS = "the code is"
GREEDY = ["--temperature", "0"]
ONE_THREAD = ["--threads", "1"]  # more would only wait for each other on so small a model


def without_phases(err):
    """Leave out what a machine says that takes seconds to load a tiny model."""
    return re.sub(r"^localspec: (trying|planning|reading|measuring) .*\n", "", err, flags=re.M)


def ask(arguments):
    """Ask for greedy text, unless the arguments say otherwise."""
    return run(["generate", *ONE_THREAD, "--temperature", "0", *arguments])


@pytest.fixture(scope="module")
def model():
    return str(engines.tiny("llama"))


def test_an_answer_is_printed_and_nothing_else(model, capsys):
    assert ask([model, WORDS, "--max-tokens", "12"]) == 0
    out, err = capsys.readouterr()
    assert out.endswith("\n")
    assert len(out) > 5
    assert without_phases(err) == ""


def test_plain_and_speculative_answers_are_the_same(model, capsys):
    texts = []
    for options in (["--plain"], [], ["--draft", str(engines.tiny("llama", seed=3))]):
        assert ask([model, WORDS, "--max-tokens", "40", *options]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == texts[2]


def test_json_holds_text_and_figures(model, capsys):
    options = ["--max-tokens", "20", "--json", "--logprobs", "2", "--seed", "5"]
    assert ask([model, WORDS, "--temperature", "0.9", *options]) == 0
    result = json.loads(capsys.readouterr().out)
    assert result["seed"] == 5
    assert result["usage"]["completion_tokens"] == len(result["tokens"]) == 20
    assert len(result["logprobs"][0]["top"]) == 2
    assert {
        "rounds",
        "drafted",
        "accepted",
        "acceptance_by_position",
        "tokens_by_source",
        "positions",
        "depths",
        "taken_back",
    } <= set(result["speculation"])
    assert {"first_token", "between_tokens_p50", "between_tokens_p95"} <= set(result["timings"])


def test_a_prompt_is_read_from_standard_input(model, capsys, monkeypatch):
    monkeypatch.setattr(sys, "stdin", io.StringIO(WORDS))
    assert ask([model, "-", "--max-tokens", "12"]) == 0
    piped = capsys.readouterr().out
    assert ask([model, WORDS, "--max-tokens", "12"]) == 0
    assert capsys.readouterr().out == piped


def test_a_draft_with_another_vocabulary_is_announced_with_its_share(model, capsys):
    draft = str(engines.tiny("llama", layout="shuffled"))
    assert ask([model, WORDS, "--max-tokens", "12", "--draft", draft]) == 0
    mapped = capsys.readouterr()
    assert ask([model, WORDS, "--max-tokens", "12"]) == 0
    assert capsys.readouterr().out == mapped.out
    assert "another vocabulary" in mapped.err
    assert "% of the target's tokens" in mapped.err


def test_raw_prompts_go_without_the_chat_template(model, capsys):
    outs = []
    for options in (["--raw"], []):
        ask([model, WORDS, "--max-tokens", "12", "--json", *options])
        outs.append(json.loads(capsys.readouterr().out)["usage"]["prompt_tokens"])
    assert outs[0] < outs[1]


@pytest.mark.parametrize(
    ("option", "value", "plain"),
    [
        ("--top-k", "1", True),
        ("--logit-bias", "70=100", False),
        ("--stop", "e", False),
        ("--ban", "e", False),
        ("--repetition-penalty", "1.9", False),
        ("--frequency-penalty", "2", False),
        ("--presence-penalty", "2", False),
        ("--kv-type", "q4_0", False),
        ("--seed", "3", True),
        ("--threads", "1", True),
        ("--flash-attention", "off", True),
        ("--gpu-layers", "0", True),
        ("--context", "600", True),
        ("--proposer", "none", True),
        ("--depth", "2", True),
        ("--top-p", "0.9", True),
        ("--min-p", "0.1", True),
    ],
)
def test_every_option_does_what_it_should(model, capsys, option, value, plain):
    """Greedy text changes with what changes the target's law, and with nothing else."""
    ask([model, WORDS * 3, "--max-tokens", "40"])
    expected = capsys.readouterr().out
    assert ask([model, WORDS * 3, "--max-tokens", "40", option, value]) == 0
    assert (capsys.readouterr().out == expected) == plain


def test_info_tells_what_a_file_says_of_itself(model, capsys):
    assert run(["info", model]) == 0
    out = capsys.readouterr().out
    assert "llama" in out
    assert "4,096 tokens" in out
    assert run(["info", model, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["context"] == 4096


def test_info_tells_what_a_recurrent_model_keeps(capsys):
    assert run(["info", str(engines.tiny("mamba2"))]) == 0
    assert "bytes per slot" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["generate", "no-such-model", "hi"], 2, "there is no model 'no-such-model'"),
        (["generate", "no/such/file.gguf", "hi"], 2, "there is no file"),
        (["generate", "MODEL", "hi", "--temperature", "-1"], 2, "temperature is -1"),
        (["generate", "MODEL", "hi", "--top-p", "2"], 2, "top-p is 2"),
        (["generate", "MODEL", "hi", "--max-tokens", "0"], 2, "max_tokens is 0"),
        (["generate", "MODEL", "hi", "--logit-bias", "x"], 2, "TOKEN=BIAS"),
        (["generate", "MODEL", "hi", "--logit-bias", "99999=1"], 2, "bias names tokens"),
        (["generate", "MODEL", "hi", "--seed", "-4"], 2, "seed is -4"),
        (["generate", "MODEL", "", "--raw"], 2, "prompt is empty"),
        (["generate", "MODEL", "a" * 900, "--context", "64"], 2, "tokens > 64;"),
        (["generate", "MODEL", "hi", "--proposer", "draft-model"], 2, "needs a draft model"),
        (["generate", "MODEL", "hi", "--draft", "MODEL", "--proposer", "ngram"], 2, "give none"),
        (["generate", "MODEL", "hi", "--logprobs", "2"], 2, "add --json"),
        (["generate", "MODEL"], 2, "Missing argument"),
        (["generate", "MODEL", "hi", "--depth", "513"], 2, "513"),
        (["info", __file__], 1, "test_cli.py"),
        (["dance"], 2, "dance"),
    ],
)
def test_what_is_wrong_is_one_line_with_an_exit_code(model, capsys, arguments, code, message):
    assert run([model if each == "MODEL" else each for each in arguments]) == code
    out, err = capsys.readouterr()
    assert out == ""
    assert message in err
    assert err.strip().splitlines()[-1].count("\n") == 0
    assert "Traceback" not in err


@pytest.mark.parametrize(
    ("name", "options", "message"),
    [
        ("notes.png", [], "notes.png: a picture is of no known kind"),
        ("owl.png", ["--raw"], "--image goes through the chat template: leave --raw out"),
        ("owl.png", [], "reads text only, and takes no pictures; "),
    ],
)
def test_a_picture_is_for_the_chat_template_of_a_model_that_sees(
    model, capsys, tmp_path, name, options, message
):
    (tmp_path / "notes.png").write_text("no picture, whatever its name")
    (tmp_path / "owl.png").write_bytes(picture(1, 8, 8))
    assert ask([model, WORDS, "--image", str(tmp_path / name), *options]) == 2
    out, err = capsys.readouterr()
    assert (out, message in err, err.count("\n")) == ("", True, 1), err


def test_a_picture_comes_before_the_prompt(capsys, tmp_path):
    path, projector = engines.sighted_files("qwen3vl")
    (tmp_path / "owl.bmp").write_bytes(picture(1))
    read = []
    for images in ([], ["--image", str(tmp_path / "owl.bmp")] * 2):
        asked = [str(path), WORDS, "--mmproj", str(projector), "--max-tokens", "4", "--json"]
        assert ask([*asked, *images]) == 0, capsys.readouterr().err
        read.append(json.loads(capsys.readouterr().out)["usage"]["prompt_tokens"])
    assert read[1] > read[0] + 2


def command(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", "from localspec.apps.command_line import main; main()", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        **options,
    )


@pytest.mark.skipif(sys.platform != "linux", reason="other systems take UTF-8 alone")
def test_a_files_name_need_not_be_utf_8(model, capsys, tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))  # what is measured is kept by this name
    place = tmp_path / os.fsdecode(b"bad\xffname.gguf")
    shutil.copy(model, place)
    assert ask([str(place), WORDS, "--max-tokens", "2"]) == 0
    assert capsys.readouterr().out


@pytest.mark.parametrize("command", [["generate", "x" * 300, "hi"], ["rm", "x" * 300]])
def test_a_text_that_is_too_long_for_a_path_is_an_unknown_name(capsys, command):
    assert run(command) == 2
    out, err = capsys.readouterr()
    assert (out, err.count("\n")) == ("", 1)


def test_a_long_question_is_no_path_either():
    assert is_question("What is this? " * 40)


def test_a_folder_that_is_no_model_is_not_searched(model, capsys, tmp_path):
    """`generate /` read the ends of every file of the disk before it said so."""
    deep = tmp_path / "deep"
    deep.mkdir()
    (deep / "loop.safetensors").symlink_to(f"{'x' * 300}")  # which no stat can follow
    (tmp_path / "mounts").symlink_to("/proc/self/mounts")  # where there is one, it cannot seek
    assert run(["generate", str(tmp_path), "hi"]) == 2
    assert "is a folder without a model in it" in capsys.readouterr().err


@pytest.mark.skipif(sys.platform == "win32", reason="there is no MLX for Windows")
def test_a_place_that_the_system_refuses_is_told_in_a_line(capsys):
    model = str(engines.tiny_folder("llama"))
    assert run(["make-draft", model, "--skip-layers", "1", "--out", "x" * 256]) == 1
    assert capsys.readouterr().err == f"localspec: File name too long: {'x' * 256}\n"


def test_what_comes_through_a_pipe_is_one_question_and_only_its_answer_comes_out(model):
    answers = []
    for question, piped in (([], "a log\n\nwhat?\n"), (["what?"], "a log\n")):
        process = command("chat", model, *question, *ONE_THREAD, *GREEDY, "--max-tokens", "8")
        out, err = process.communicate(piped, timeout=60)
        assert (process.returncode, without_phases(err)) == (0, "")
        answers.append(out)
    assert answers[0] == answers[1]
    assert len(answers[0]) > 5


@pytest.mark.parametrize(
    ("piped", "message"),
    [("", "there is nothing to answer"), ("x" * 500, "the context holds 64: shorten it")],
)
def test_a_pipe_with_nothing_or_too_much_in_it_is_wrong_usage(model, piped, message):
    process = command("chat", model, *ONE_THREAD, "--context", "64")
    out, err = process.communicate(piped, timeout=60)
    assert (process.returncode, out) == (2, "")
    assert message in err
    assert without_phases(err).count("\n") == 1


@pytest.mark.parametrize("name", ["generate", "chat"])
def test_a_reader_that_leaves_early_is_no_crash(model, name):
    process = command(name, model, *ONE_THREAD, WORDS, "--max-tokens", "400")
    process.stdin.close()
    process.stdout.read(3)
    process.stdout.close()
    err = process.stderr.read()
    process.stderr.close()
    assert process.wait(60) in (0, 1)
    assert "Traceback" not in err
    assert "BrokenPipe" not in err


def test_the_docs_describe_every_command_and_name_every_option():
    docs = Path(__file__).parents[3] / "docs"
    page = (docs / "cli.md").read_text(encoding="utf-8")
    pages = "".join(each.read_text(encoding="utf-8") for each in docs.rglob("*.md"))
    shown = {name for name, command in commands.commands.items() if not command.hidden}
    assert set(re.findall(r"\*\*([a-z-]+)\*\*", page)) == shown
    for name, command in commands.commands.items():
        smaller = name in ("generate", "chat", "info", "plan", "doctor")
        for option in command.params:
            if option.opts[0].startswith("--"):
                assert option.opts[0] in (page if smaller else pages), name


def test_version_and_help_are_there(capsys):
    assert run(["--version"]) == 0
    assert "localspec" in capsys.readouterr().out
    assert run(["generate", "--help"]) == 0
    assert "--temperature" in capsys.readouterr().out


@pytest.mark.skipif(not engines.MLX, reason="there is no MLX for this system")
def test_an_mlx_folder_answers_and_tells_of_itself_like_a_file(capsys):
    folder = str(engines.tiny_folder("qwen3_5"))
    texts = []
    for options in (["--plain"], [], ["--backend", "mlx", "--draft", str(engines.tiny("llama"))]):
        assert run(["generate", folder, WORDS, *GREEDY, "--max-tokens", "30", *options]) == 0
        texts.append(capsys.readouterr().out)
    assert texts[0] == texts[1] == texts[2]
    assert run(["info", folder]) == 0
    assert "3: 1 with attention, 2 recurrent" in capsys.readouterr().out


@pytest.mark.skipif(not engines.MLX, reason="there is no MLX for this system")
def test_an_option_of_the_other_engine_is_refused(model, capsys):
    folder = str(engines.tiny_folder("llama"))
    for arguments, word in (
        ([folder, WORDS, "--threads", "2"], "llama.cpp"),
        ([folder, WORDS, "--backend", "llamacpp"], "GGUF"),
        ([model, WORDS, "--backend", "mlx"], "MLX folder"),
        ([model, WORDS, "--adapter", folder], "convert-adapter"),
        ([folder, WORDS, "--kv-type", "f16"], "auto"),
    ):
        assert run(["generate", *arguments]) == 2
        assert word in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--attach", "http://127.0.0.1:9", "--context", "64"), "--context is for a model"),
        (("--attach", "http://127.0.0.1:9", "--gpu-layers", "1"), "--gpu-layers is for a model"),
        (("--key", "k"), "--key is for a server"),
        (("--lens",), "--lens is for talking"),
    ],
)
def test_a_chat_refuses_options_that_would_be_left_aside(options, said, capsys):
    assert run(["chat", "any", "a question", *options]) == 2
    assert said in capsys.readouterr().err


def test_every_option_is_named_like_its_parameter():
    """Environment and files know an option by its parameter, people by its flag."""
    for command in commands.commands.values():
        for option in command.params:
            if option.opts[0].startswith("--"):
                assert option.opts[0] == f"--{option.name.replace('_', '-')}", command.name
