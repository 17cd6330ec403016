"""The prompts, and faults of a file of prompts."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from localspec.apps.bench.prompts import built_in, choose, read
from localspec.base.errors import UsageError

CATEGORIES = ("chat", "code", "edit", "summarise", "extract", "translate", "reason")


def content(prompt):
    [message] = prompt.messages
    return message["content"]


def test_every_category_has_at_least_four_prompts_of_its_own():
    counted = Counter(prompt.category for prompt in built_in())
    assert tuple(counted) == CATEGORIES
    assert min(counted.values()) >= 4
    assert len({content(prompt) for prompt in built_in()}) == counted.total()
    assert len({prompt.name for prompt in built_in()}) == counted.total()


def test_some_documents_are_shared_and_open_their_prompts():
    """Prefix caching, and proposers that learn from replies, then have something to show."""
    opened = Counter(
        content(prompt).partition("\n\n")[0]
        for prompt in built_in()
        if content(prompt).startswith("```")
    )
    assert sum(count >= 2 for count in opened.values()) >= 3


def test_edits_predict_the_file_that_they_edit():
    for prompt in built_in():
        assert bool(prompt.prediction) == (prompt.category == "edit")
        assert prompt.prediction in content(prompt)


def test_a_file_of_prompts_is_read_in_its_order(tmp_path):
    messages = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Who?"}]
    lines = [
        {"category": "b", "prompt": "Why?", "prediction": "Because."},
        {"category": "a", "messages": messages},
        {"category": "b", "prompt": "Grüße?"},
    ]
    path = tmp_path / "mine.jsonl"
    path.write_text("\n\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    prompts = read(path)
    assert [prompt.name for prompt in prompts] == ["b 1", "a 1", "b 2"]
    assert list(prompts[1].messages) == messages
    assert (prompts[0].prediction, prompts[2].prediction) == ("Because.", "")
    assert content(prompts[2]) == "Grüße?"


def test_the_requests_of_a_batch_are_prompts(tmp_path):
    messages = [{"role": "user", "content": "Who?"}]
    expected = {"type": "content", "content": "Nobody."}
    body = {"model": "m", "messages": messages, "temperature": 0, "prediction": expected}
    lines = [
        {"custom_id": "a", "url": "/v1/chat/completions", "body": body},
        {"custom_id": "b", "url": "/v1/completions", "body": {"prompt": "Why?"}},
    ]
    path = tmp_path / "requests.jsonl"
    path.write_text("\n".join(map(json.dumps, lines)))
    first, second = read(path)
    assert (first.name, list(first.messages), first.prediction) == (
        "requests 1",
        messages,
        "Nobody.",
    )
    assert (second.name, content(second), second.prediction) == ("requests 2", "Why?", "")
    path.write_text(json.dumps({"custom_id": "a", "body": {"input": "Why?"}}))
    with pytest.raises(UsageError, match="give either a prompt or messages"):
        read(path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", "line 2: not JSON"),
        ('"hello"', "line 2: not an object"),
        ('{"prompt": "hi"}', "line 2: there is no category"),
        ('{"category": 3, "prompt": "hi"}', "line 2: category is not a text"),
        ('{"category": "a"}', "line 2: give either"),
        ('{"category": "a", "prompt": "hi", "messages": []}', "line 2: give either"),
        ('{"category": "a", "prompt": 3}', "line 2: prompt is not a text"),
        ('{"category": "a", "messages": []}', "line 2: messages are a list"),
        ('{"category": "a", "messages": "hi"}', "line 2: messages are a list"),
        ('{"category": "a", "messages": [{"role": "user"}]}', "line 2: messages are a list"),
        ('{"category": "a", "messages": [{"role": "user", "content": 3}]}', "line 2: messages"),
        ('{"category": "a", "prompt": "hi", "predicted": "x"}', "unknown field 'predicted'"),
        ('{"category": "a", "prompt": "hi", "prediction": null}', "prediction is not a text"),
    ],
)
def test_a_line_that_is_no_prompt_is_named(tmp_path, line, message):
    path = tmp_path / "mine.jsonl"
    path.write_text(f'{{"category": "a", "prompt": "hi"}}\n{line}\n', encoding="utf-8")
    with pytest.raises(UsageError, match=message):
        read(path)


def test_a_file_that_is_missing_empty_or_no_text_is_refused(tmp_path):
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "none.jsonl")
    (tmp_path / "empty.jsonl").write_text("\n \n")
    with pytest.raises(UsageError, match="has no prompts"):
        read(tmp_path / "empty.jsonl")
    (tmp_path / "bytes.jsonl").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(UsageError, match="cannot be read"):
        read(tmp_path / "bytes.jsonl")


def test_prompts_are_chosen_by_category_and_number():
    prompts_here = built_in()
    assert choose(prompts_here, (), None) == prompts_here
    assert [p.name for p in choose(prompts_here, ("edit", "chat"), 2)] == [
        "chat 1",
        "chat 2",
        "edit 1",
        "edit 2",
    ]
    with pytest.raises(UsageError, match="no category 'poems'; known: chat, code"):
        choose(prompts_here, ("chat", "poems"), None)
