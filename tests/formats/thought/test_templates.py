"""Budgets over every template whose model thinks: the thought is cut, the answer is whole."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from localspec.core.proposers.first_of import FirstOf
from localspec.core.proposers.forced import ForcedProposer
from localspec.core.proposers.silent import Silent
from localspec.core.proposers.suffix import SuffixProposer
from localspec.core.requests.engine import Engine
from localspec.formats.dialects import dialect_of
from localspec.interfaces.testing import ScriptedModel
from localspec.running.runtime.runtime import Runtime
from tests.apps.server.scripted import END, TEMPLATE, Bytes
from tests.formats.dialects.samples import THINKERS
from tests.formats.dialects.test_learn import CASES, TOOLS, calls_of, read, reply
from tests.formats.dialects.written import TEMPLATES

REAL = sorted((Path(__file__).parents[4] / "shared/data/templates").glob("*.jinja"))
SIGNS = "{# <think> </think> #}"
CHANNELS = (  # as gpt-oss has them
    "{% for m in messages %}<|start|>{{ m.role }}<|message|>{{ m.content }}<|end|>{% endfor %}"
    "{% if add_generation_prompt %}<|start|>assistant{% endif %}{# <|channel|> #}"
)
SOURCES = {
    **TEMPLATES,
    "by signs": SIGNS + TEMPLATE,
    "opened": SIGNS + TEMPLATE.replace("assistant\n{% endif %}", "assistant\n<think>\n{% endif %}"),
    "granite": THINKERS["granite"].template + TEMPLATE,
    "channels": CHANNELS,
    **{path.stem: path.read_text() for path in REAL},
}
THINKING = [name for name, source in SOURCES.items() if dialect_of(source).reasons]
CALLING = [  # those whose templates show how they call
    name
    for name in THINKING
    if name in (*TEMPLATES, *(path.stem for path in REAL))
    and calls_of(read(SOURCES[name], reply(SOURCES[name], CASES["short"]))[0]) == CASES["short"]
]
THOUGHT, ANSWER = "x" * 120, "So."
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
BUDGETS = [0, 1, 100, -1]


class Thinker:
    """Writes a thought and an answer; where the thought was cut, it goes on with the answer."""

    def __init__(self, source, answer, kind="control"):
        self.dialect = dialect_of(source)
        self.tokenizer = Bytes(source, self.dialect.marks if kind == "control" else ())
        self.model = ScriptedModel(self.logits, self.tokenizer)
        self.model.context = 1 << 14
        marks = (self.tokenizer.token_text(mark) for mark in range(256, self.tokenizer.size))
        self.spelled = [*(bytes([byte]) for byte in range(256)), *(mark.encode() for mark in marks)]
        self.answer, self.close, self.plan = answer, "", ""
        self.start, self.tempted = 0, False

    def ask(self, budget, proposer=None, tools=(), **options):
        """Ask a question; return the chunks of the answer, and all of it."""
        with Runtime(Engine(self.model, proposer or Silent(), 16 if proposer else 0)) as runtime:
            extra = {"enable_thinking": True, "thinking_budget": budget}
            asked = runtime.text.render([{"role": "user", "content": "Why?"}], tools, extra)
            self._make_plan(asked, budget, tools)
            self.start = len(runtime.text.read(asked))
            options |= {"reasoning_budget": budget, "tools": tools}
            stream = runtime.stream("Why?", thinking=True, **options)
            return list(stream), stream.result

    def _make_plan(self, asked, budget, tools):
        marks, self.tempted = self.dialect.thoughts(tools, asked[-256:]), budget >= 0
        if marks.word:
            self.close, opening = "<|end|><|start|>assistant", "<|channel|>analysis<|message|>"
            if not self.answer.startswith((" to=", "<|channel|>")):
                self.answer = f"<|channel|>final<|message|>{self.answer}"
            self.plan = opening + THOUGHT + self.close + self.answer if budget else self.answer
            return
        self.close = self.dialect.thought.close
        opening = "" if marks.form.start.thinks else self.dialect.thought.open
        self.plan = opening + THOUGHT + marks.closing + self.answer

    def logits(self, context):
        text = b"".join(map(self.spelled.__getitem__, context[self.start :]))
        plan, answer = self.plan.encode(), self.answer.encode()
        following = plan[len(text) :]
        if not plan.startswith(text):
            after = text.partition(self.close.encode())[2].lstrip(b"\n")
            following = answer[len(after) :] if answer.startswith(after) else b""
        marks = range(256, self.tokenizer.size)
        whole = (mark for mark in marks if following.startswith(self.spelled[mark]))
        array = np.zeros(self.tokenizer.size, np.float32)
        array[next(whole, following[0]) if following else END] = 20.0
        if self.tempted and text.endswith(b"<|channel|>"):
            array[ord("a")] = 30.0  # it would rather think again
        return array


def proposers():
    return FirstOf({"forced": ForcedProposer(), "suffix": SuffixProposer()})


def check(name, budget, chunks, result):
    """Compare a reply with its budget, whole and streamed."""
    assert "".join(chunk.reasoning for chunk in chunks) == result.reasoning
    assert "".join(chunk.text for chunk in chunks) == result.text
    most = len(THOUGHT) if budget < 0 else budget
    assert result.reasoning == THOUGHT[:most]
    refused = budget == 0 and "<|channel|>" in SOURCES[name]
    assert result.usage.thoughts_cut == (budget >= 0 and not refused)
    assert most <= result.usage.reasoning_tokens <= most + 7  # and blanks, and parts of a mark


@pytest.mark.parametrize("name", THINKING)
@pytest.mark.parametrize("kind", ["control", "text"])
def test_a_thought_is_cut_and_answered(name, kind):
    for budget in BUDGETS if kind == "control" else [1]:
        _, plain = Thinker(SOURCES[name], ANSWER, kind).ask(budget)
        chunks, result = Thinker(SOURCES[name], ANSWER, kind).ask(budget, proposers())
        assert result.tokens == plain.tokens
        check(name, budget, chunks, result)
        assert result.text == ANSWER


@pytest.mark.parametrize("name", THINKING)
def test_an_answer_keeps_to_its_schema_behind_a_thought_that_was_cut(name):
    for budget in BUDGETS:
        thinker = Thinker(SOURCES[name], '{"a": 7}')
        chunks, result = thinker.ask(budget, proposers(), json_schema=SCHEMA)
        check(name, budget, chunks, result)
        assert json.loads(result.text) == {"a": 7}


@pytest.mark.parametrize("name", CALLING)
def test_a_tool_is_called_behind_a_thought_that_was_cut(name):
    call = reply(SOURCES[name], CASES["short"]).rpartition("</think>")[2].lstrip("\n")
    for budget in BUDGETS:
        chunks, result = Thinker(SOURCES[name], call).ask(budget, proposers(), TOOLS)
        check(name, budget, chunks, result)
        [made] = result.tool_calls
        assert (made.name, json.loads(made.arguments)) == CASES["short"][0]


@pytest.mark.parametrize("name", ["by signs", "opened", "channels"])
def test_a_message_stands_at_the_end_of_a_thought_that_was_cut(name):
    message = {"reasoning_budget_message": " Enough: \ud83d\ude00!"}
    _, result = Thinker(SOURCES[name], ANSWER).ask(5, proposers(), **message)
    assert (result.reasoning, result.text) == ("xxxxx Enough: ??!", ANSWER)


@pytest.mark.parametrize("budget", [0, 3])
def test_gpt_oss_may_call_a_tool_but_think_no_more_once_its_budget_is_spent(budget):
    call = '<|channel|>commentary to=functions.search_all <|constrain|>json<|message|>{"text": "x"}'
    _, result = Thinker(CHANNELS, call).ask(budget, proposers(), TOOLS)
    assert [made.name for made in result.tool_calls] == ["search_all"]
    assert result.reasoning == THOUGHT[:budget]


def test_no_thought_is_asked_of_a_template_that_has_a_switch():
    switch = "{% if enable_thinking is false %}<think>\n\n</think>\n\n{% endif %}"
    source = SIGNS + TEMPLATE + "{% if add_generation_prompt %}" + switch + "{% endif %}"
    tokenizer = Bytes(source)
    model = ScriptedModel(lambda context: np.eye(tokenizer.size)[END], tokenizer)
    with Runtime(Engine(model, Silent())) as runtime:
        asked = runtime.text.read(runtime.text.render([{"role": "user", "content": "hi"}], (), {}))
        off = len("<think>\n\n</think>\n\n")
        for options, more in (({"reasoning_budget": 0}, off), ({"thinking": False}, off), ({}, 0)):
            result = runtime.chat("hi", max_tokens=1, **options)
            assert result.usage.prompt_tokens == len(asked) + more
        both = runtime.chat("hi", max_tokens=1, thinking=True, reasoning_budget=0)
        assert both.usage.prompt_tokens == len(asked)


def test_a_template_hears_of_a_budget_that_it_reads():
    source = SIGNS + TEMPLATE + "{{ thinking_budget }}"
    tokenizer = Bytes(source)
    model = ScriptedModel(lambda context: np.eye(tokenizer.size)[END], tokenizer)
    with Runtime(Engine(model, Silent())) as runtime:
        lengths = [
            runtime.chat("hi", max_tokens=1, reasoning_budget=budget).usage.prompt_tokens
            for budget in (None, -1, 0, 7, 4096)
        ]
    assert [length - lengths[0] for length in lengths] == [0, 0, 1, 1, 4]
