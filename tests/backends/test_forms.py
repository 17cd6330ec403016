"""Replies that must have a form, on a real engine: each has it, and guessing changes no token."""

from __future__ import annotations

import json
from contextlib import ExitStack, closing

import jsonschema
import pytest

from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.first_of import FirstOf
from localspec.core.proposers.forced import ForcedProposer
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from localspec.formats.dialects import Arguments, Bounds, Call, dialect_of
from localspec.formats.grammar.grammar import Grammar
from tests import engines
from tests.runs import TEXTS, Want, replies, said

WORD = {"type": "string", "maxLength": 12}
NUMBER = {"type": "integer", "minimum": -500, "maximum": 500}


def record(**fields):
    return {
        "type": "object",
        "properties": fields,
        "required": list(fields),
        "additionalProperties": False,
    }


SCHEMAS = [
    record(name=WORD, age=NUMBER, married={"type": "boolean"}),
    record(colour={"enum": ["red", "green", "blue"]}, size={"enum": [1, 2, 3]}),
    record(words={"type": "array", "items": WORD, "minItems": 1, "maxItems": 3}),
    record(place=record(city=WORD, country={"const": "Norway"}), nothing={"type": "null"}),
    record(
        date={"type": "string", "format": "date"}, code={"type": "string", "pattern": "^[a-f]{4}$"}
    ),
]
TOOLS = [
    {"type": "function", "function": {"name": name, "parameters": schema}}
    for name, schema in zip(
        ("greet", "paint", "list_words", "travel", "book"), SCHEMAS, strict=True
    )
]
HERMES = "<tool_call>{json}</tool_call>"

PROPOSERS = {
    "ngram 2": lambda model: NgramProposer(4, 2),
    "ngram 5": lambda model: NgramProposer(7, 5),
    "forced": lambda model: ForcedProposer(),
    "draft model": DraftModelProposer,
    "forced, then draft model": lambda model: FirstOf(
        {"forced": ForcedProposer(), "draft-model": DraftModelProposer(model)}
    ),
}


def schema_wants(tokenizer, name):
    """Twenty, and other ones for each guesser."""
    at = list(PROPOSERS).index(name)
    for number in range(20):
        schema = SCHEMAS[number % len(SCHEMAS)]
        prompt = tokenizer.encode(f"{TEXTS[number % len(TEXTS)]} {at} {number}").tolist()
        yield schema, Want(prompt, Settings(grammar=Grammar("json_schema", json.dumps(schema))))


def tool_wants(tokenizer, name):
    at = list(PROPOSERS).index(name)
    dialect = dialect_of(HERMES)
    for number in range(10):
        tools = TOOLS[: 1 + number % len(TOOLS)]
        source = dialect.grammar(Bounds(tools, lambda _: None, required=True, parallel=False))
        prompt = tokenizer.encode(f"{TEXTS[number % len(TEXTS)]} call {at} {number}").tolist()
        yield tools, Want(prompt, Settings(grammar=Grammar("lark", source)))


@pytest.fixture(scope="module")
def both():
    """A target, and a model that says much the same."""
    with closing(engines.target("llama", context=1024)) as target, ExitStack() as stack:
        draft = engines.draft("llama", context=1024)
        stack.callback(draft.close)
        yield target, draft


def answered(both, name, wants):
    target, draft = both
    plain = replies(target, Silent(), wants)
    fast = replies(target, PROPOSERS[name](draft), wants)
    assert said(fast) == said(plain)
    assert all(result.finish_reason == "stop" for result in fast)
    return fast


@pytest.mark.parametrize("name", PROPOSERS)
def test_what_must_follow_a_schema_does(both, name):
    schemas, wants = zip(*schema_wants(both[0].tokenizer, name), strict=True)
    results = answered(both, name, wants)
    for schema, result in zip(schemas, results, strict=True):
        jsonschema.validate(json.loads(result.text), schema)
    if "forced" in name:
        guesses = [g for r in results for g in r.speculation.positions.get("forced", ())]
        assert sum(each.drafted for each in guesses) > 100
        assert all(each.drafted == each.accepted for each in guesses)


@pytest.mark.parametrize("name", PROPOSERS)
def test_a_call_that_must_be_made_is_one_of_a_tool_and_follows_its_schema(both, name):
    offered, wants = zip(*tool_wants(both[0].tokenizer, name), strict=True)
    for tools, result in zip(offered, answered(both, name, wants), strict=True):
        reader = dialect_of(HERMES).reader(tools, "")
        parts = [*reader.read(result.text), *reader.close()]
        [name] = [part.name for part in parts if isinstance(part, Call)]
        arguments = "".join(part.text for part in parts if isinstance(part, Arguments))
        [schema] = [t["function"]["parameters"] for t in tools if t["function"]["name"] == name]
        jsonschema.validate(json.loads(arguments), schema)
