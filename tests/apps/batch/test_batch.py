"""Files of requests, their answers, and what an interruption leaves."""

from __future__ import annotations

import json

import pytest

from localspec.apps.batch.requests import answered, open_ones, requests_in
from localspec.apps.command_line import run
from localspec.base.errors import UsageError
from tests import engines

SAYS = {"messages": [{"role": "user", "content": "abc"}], "max_tokens": 4, "temperature": 0}


@pytest.fixture
def file(tmp_path):
    return tmp_path / "in.jsonl"


@pytest.fixture
def out(tmp_path):
    return tmp_path / "out.jsonl"


def write(path, *lines):
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))


def answers(out):
    lines = [json.loads(line) for line in out.read_text().splitlines()]
    return {line["custom_id"]: line["response"] for line in lines}


def batch(file, out, *options):
    model, few = str(engines.tiny("llama")), ["--threads", "1", "--context", "256", "--slots", "2"]
    return run(["batch", model, str(file), str(out), *few, *options])


def test_requests_of_several_apis_are_answered_with_their_names(file, out):
    listed = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": SAYS}
    text = {"custom_id": "c", "url": "/v1/completions", "body": {"prompt": "abc", "max_tokens": 3}}
    write(file, listed, {"custom_id": "b", "body": {"input": "abc", "max_output_tokens": 20}}, text)
    with file.open("a") as more:
        more.write("\n" + json.dumps({**SAYS, "stream": True}))
    assert batch(file, out) == 0
    by_id = answers(out)
    assert sorted(by_id) == ["5", "a", "b", "c"]
    assert {each["status_code"] for each in by_id.values()} == {200}
    assert by_id["a"]["body"]["object"] == by_id["5"]["body"]["object"] == "chat.completion"
    assert by_id["b"]["body"]["object"] == "response"
    assert by_id["c"]["body"]["object"] == "text_completion"
    messages = [by_id[name]["body"]["choices"][0]["message"] for name in ("a", "5")]
    assert messages[0] == messages[1]


def test_an_interrupted_batch_goes_on_where_it_was(file, out, capsys):
    write(file, *({"custom_id": name, "body": SAYS} for name in "abc"))
    assert batch(file, out) == 0
    whole = out.read_bytes()
    lines = whole.splitlines(keepends=True)
    out.write_bytes(lines[0] + lines[1][:20])  # as of a process that was killed
    left = [request.id for request in open_ones(file, out)]
    assert len(left) == 2
    assert out.read_bytes() == lines[0]
    assert batch(file, out) == 0
    assert sorted(answers(out)) == ["a", "b", "c"]
    capsys.readouterr()
    assert batch(file, out) == 0
    assert "have their answers" in capsys.readouterr().err


def test_a_request_that_is_refused_is_an_answer_and_the_others_go_on(file, out, capsys):
    odd = {**SAYS, "temperature": "hot"}
    write(file, {"custom_id": "a", "body": odd}, {"custom_id": "b", "body": SAYS})
    assert batch(file, out) == 1
    by_id = answers(out)
    assert by_id["a"]["status_code"] == 400
    assert "temperature" in by_id["a"]["body"]["error"]["message"]
    assert by_id["b"]["status_code"] == 200
    assert "1 of 2 were refused" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "line 2 of .* is no request"),
        ("[]", "no JSON object"),
        ('{"body": 3}', "its body is no JSON object"),
        ('{"model": "m"}', "give a url, or one of the fields"),
        ('{"url": "/v1/../health", "body": {}}', "'/v1/../health' is none of"),
        ('{"custom_id": 3, "prompt": "x"}', "custom_id is no text"),
        ('{"custom_id": "1", "prompt": "x"}', "has the custom_id '1' again"),
        ("[" * 100_000, "nested too deeply"),
    ],
)
def test_a_file_is_refused_by_its_first_line_that_is_no_request(file, line, why):
    file.write_text('{"prompt": "abc"}\n' + line)
    with pytest.raises(UsageError, match=why):
        requests_in(file)


def test_a_file_that_holds_something_else_is_not_appended_to(file, out):
    write(file, {"prompt": "abc"})
    out.write_text('{"a": "letter"}\n')
    with pytest.raises(UsageError, match="something else than answers"):
        answered(out)
    assert run(["batch", "any", str(file), str(file)]) == 2
