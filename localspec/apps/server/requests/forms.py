"""The form of a reply: grammars and schemas, by the names of OpenAI, llama.cpp and vLLM."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import lru_cache
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue

from localspec.apps.server.faults import refused
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.validators import as_object, as_type
from localspec.base.errors import UsageError
from localspec.formats.dialects.patterns import without_unfollowable
from localspec.formats.grammar.compile_trial import fault_of_schema, lark_of_gbnf
from localspec.formats.grammar.grammar import MAX_CHARACTERS, Grammar

Object = dict[str, JsonValue]
Schema = Annotated[Object, BeforeValidator(as_object)]
KEYWORDS = {"properties", "$ref", "anyOf"}  # of a schema that stands where its name should


@lru_cache(maxsize=64)  # schemas may be long
def is_covered(schema: str) -> bool:
    """Return whether a grammar covers all of a schema."""
    try:
        return not fault_of_schema(schema)
    except ValueError:  # which is refused where it is used
        return True


def grammar_of_schema(schema: Object | str) -> Grammar:
    """Make a grammar of a schema, or of as much of it as a grammar can cover."""
    text = schema if isinstance(schema, str) else json.dumps(schema)
    if len(text) > MAX_CHARACTERS or is_covered(text):
        return Grammar("json_schema", text)
    try:
        loose = without_unfollowable(json.loads(text))
    except (ValueError, RecursionError) as error:
        raise refused("the schema is not JSON, or too deep", "json_schema") from error
    fields = loose if isinstance(loose, dict) else {}
    return Grammar("json_schema", json.dumps({**fields, "x-guidance": {"lenient": True}}))


def is_loose(schema: Object | None) -> bool:
    """Return whether the grammar leaves out some of a schema."""
    text = "" if schema is None else json.dumps(schema)
    return bool(text) and len(text) <= MAX_CHARACTERS and not is_covered(text)


class JsonSchema(RequestPart):
    name: str = ""
    description: str | None = None
    schema_: Schema = Field(default_factory=dict, alias="schema")
    strict: bool | None = None

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if is_loose(self.schema_):
            yield "schema"


def as_wrapped(value: object) -> object:
    """Read a schema that is a text, or lacks the object around it."""
    value = as_object(value)
    bare = isinstance(value, dict) and "schema" not in value and KEYWORDS & value.keys()
    return {"schema": value} if bare else value


KINDS = {  # as others call them
    "json": "json_object",
    "gbnf": "grammar",
    **dict.fromkeys(("", "auto", "markdown", "plain_text", "text/plain"), "text"),
}


def as_kind(value: object) -> object:
    lower = value.lower() if isinstance(value, str) else value
    return KINDS.get(lower, lower) if isinstance(lower, str) else value


class Format(RequestPart):
    type: Annotated[
        Literal["text", "json_object", "json_schema", "regex", "grammar"], BeforeValidator(as_kind)
    ] = "text"
    json_schema: Annotated[JsonSchema | None, BeforeValidator(as_wrapped)] = None
    schema_: Schema | None = Field(None, alias="schema")  # as llama.cpp and /v1/responses have it
    name: str = ""  # with the schema, of /v1/responses
    description: str = ""
    value: Object | str | None = None  # whichever it is, as text-generation-inference has it
    pattern: str = ""
    grammar_: str = Field("", alias="grammar")

    @property
    def grammar(self) -> Grammar | None:
        schema = self.json_schema.schema_ if self.json_schema else self.schema_
        if schema is None and isinstance(self.value, dict):
            schema = self.value
        if self.type == "text":
            return None
        if self.type in ("regex", "grammar"):
            return self._of_text(self.pattern or self.grammar_ or self.value)
        if self.type == "json_object" and not schema:
            return Grammar("json_object")
        if schema is None:
            raise refused("a response_format json_schema needs the schema", "response_format")
        return grammar_of_schema(schema)

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if is_loose(self.schema_):
            yield "schema"

    def _of_text(self, text: Object | str | None) -> Grammar:
        if not isinstance(text, str) or not text:
            raise refused(f"a response_format {self.type} needs its text", "response_format")
        return Grammar("regex", text) if self.type == "regex" else gbnf(text)


class Structured(RequestPart):
    """The structured outputs of vLLM."""

    json_: Object | str | None = Field(None, alias="json")
    json_object: bool = False
    regex: str = ""
    choice: list[str] | None = None
    grammar: str = ""


class FormatFields(RequestPart):
    """The fields that hold a reply to a form, of which a request may use one."""

    response_format: Annotated[Format | None, BeforeValidator(as_type)] = None
    json_schema: Schema | None = None
    grammar: str = ""  # GBNF
    structured_outputs: Structured = Structured(json=None)
    guided_json: Object | str | None = None
    guided_regex: str = ""
    guided_choice: list[str] = Field(default_factory=list)
    guided_grammar: str = ""

    @property
    def form(self) -> Grammar | None:
        grammars = list(dict.fromkeys(grammar for grammar in self._forms() if grammar))
        if len(grammars) > 1:  # any object is what an object by a schema is too
            grammars = [grammar for grammar in grammars if grammar.kind != "json_object"]
        if len(grammars) > 1:
            raise refused("a reply has one form: give one grammar or schema", "response_format")
        return grammars[0] if grammars else None

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if is_loose(self.json_schema):
            yield "json_schema"

    def _forms(self) -> Iterator[Grammar | None]:
        also = self.structured_outputs
        yield self.response_format.grammar if self.response_format else None
        for schema in (self.json_schema, self.guided_json, also.json_):
            if schema is not None and schema != "":
                yield grammar_of_schema(schema)
        yield Grammar("json_object") if also.json_object else None
        for regex in filter(None, (self.guided_regex, also.regex)):
            yield Grammar("regex", regex)
        for choice in filter(None, (self.guided_choice, also.choice)):
            # As one terminal: of rules llguidance takes 2,000 at most.
            words = " | ".join(map(json.dumps, choice))
            yield Grammar("lark", f"start: CHOICE\nCHOICE: {words}")
        for text in filter(None, (self.grammar, self.guided_grammar, also.grammar)):
            yield gbnf(text)


def gbnf(text: str) -> Grammar:
    """Translate GBNF by llguidance, which knows Lark grammars."""
    if len(text) > MAX_CHARACTERS:
        message = f"the grammar has {len(text):,} characters; it may have {MAX_CHARACTERS:,}"
        raise refused(message, "grammar")
    try:
        return Grammar("lark", lark_of_gbnf(text))
    except UsageError as error:
        raise refused(str(error), "grammar") from error
