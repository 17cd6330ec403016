"""The form that a reply is to have, by the names of OpenAI, llama.cpp and vLLM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from localspec.grammar.grammar import LONGEST, Grammar
from localspec.server.faults import refused
from localspec.server.requests.given import as_type
from localspec.server.requests.leniency import RequestPart

Object = dict[str, JsonValue]


class JsonSchema(RequestPart):
    name: str = ""
    description: str | None = None
    schema_: Object = Field(default_factory=dict, alias="schema")
    strict: bool | None = None


KINDS = {"json": "json_object", "gbnf": "grammar", "": "text"}  # as others call them


def as_kind(given: object) -> object:
    return KINDS.get(given, given) if isinstance(given, str) else given


class Format(RequestPart):
    type: Annotated[
        Literal["text", "json_object", "json_schema", "regex", "grammar"], BeforeValidator(as_kind)
    ] = "text"
    json_schema: JsonSchema | None = None
    schema_: Object | None = Field(None, alias="schema")  # as llama.cpp has it
    value: Object | str | None = None  # whichever it is, as text-generation-inference has it
    pattern: str = ""
    grammar_: str = Field("", alias="grammar")

    @property
    def grammar(self) -> Grammar | None:
        schema = self.json_schema.schema_ if self.json_schema else self.schema_
        if self.type == "text":
            return None
        if self.type in ("regex", "grammar"):
            return self._of_text(self.pattern or self.grammar_ or self.value)
        if schema is None and isinstance(self.value, dict):
            schema = self.value
        if self.type == "json_object" and not schema:
            return Grammar("json_object")
        if schema is None:
            raise refused("a response_format json_schema needs the schema", "response_format")
        return Grammar("json_schema", json.dumps(schema))

    def _of_text(self, text: Object | str | None) -> Grammar:
        if not isinstance(text, str) or not text:
            raise refused(f"a response_format {self.type} needs its text", "response_format")
        return Grammar("regex", text) if self.type == "regex" else gbnf(text)


class Structured(RequestPart):
    """The structured outputs of vLLM."""

    json_: Object | str | None = Field(None, alias="json")
    json_object: bool = False
    regex: str = ""
    choice: list[str] = Field(default_factory=list)
    grammar: str = ""


class Formed(RequestPart):
    """One of them at most, or none."""

    response_format: Annotated[Format | None, BeforeValidator(as_type)] = None
    json_schema: Object | None = None
    grammar: str = ""  # GBNF
    structured_outputs: Structured = Structured(json=None)
    guided_json: Object | str | None = None
    guided_regex: str = ""
    guided_choice: list[str] = Field(default_factory=list)
    guided_grammar: str = ""

    @property
    def form(self) -> Grammar | None:
        found = [each for each in self._forms() if each]
        if len(found) > 1:
            raise refused("a reply has one form: give one grammar or schema", "response_format")
        return found[0] if found else None

    def _forms(self) -> Iterator[Grammar | None]:
        also = self.structured_outputs
        yield self.response_format.grammar if self.response_format else None
        for schema in (self.json_schema, self.guided_json, also.json_):
            if schema is not None:
                text = schema if isinstance(schema, str) else json.dumps(schema)
                yield Grammar("json_schema", text)
        yield Grammar("json_object") if also.json_object else None
        for regex in filter(None, (self.guided_regex, also.regex)):
            yield Grammar("regex", regex)
        for choice in filter(None, (self.guided_choice, also.choice)):
            yield Grammar("lark", f"start: {' | '.join(map(json.dumps, choice))}")
        for text in filter(None, (self.grammar, self.guided_grammar, also.grammar)):
            yield gbnf(text)


def gbnf(text: str) -> Grammar:
    """Translate GBNF by llguidance, which knows Lark grammars."""
    from llguidance.gbnf_to_lark import gbnf_to_lark

    if len(text) > LONGEST:
        what = f"the grammar has {len(text):,} characters; it may have {LONGEST:,}"
        raise refused(what, "grammar")
    try:
        return Grammar("lark", gbnf_to_lark(text))
    except Exception as error:  # it raises several kinds, `Exception` itself among them
        raise refused(f"the grammar is not GBNF: {str(error)[:200]}", "grammar") from error
