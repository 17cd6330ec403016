"""Messages as OpenAI's API puts them, and what clients and other servers added to them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, JsonValue, Tag, model_validator

from localspec.server.faults import refused
from localspec.server.requests.fields import Object, TextPart
from localspec.server.requests.files import FilePart
from localspec.server.requests.json_size import check_size
from localspec.server.requests.leniency import LeftOut, RequestPart
from localspec.server.requests.validators import OTHER, as_texts, readable, tagged, typed
from localspec.templates.message import Json, Message

TEXTS = ("text", "input_text", "output_text")
FILES = ("file", "input_file")


class RefusalPart(RequestPart):
    type: Literal["refusal"]
    refusal: str

    @property
    def text(self) -> str:
        return self.refusal


Part = Annotated[
    Annotated[TextPart, Tag("text")]
    | Annotated[TextPart, Tag("input_text")]
    | Annotated[TextPart, Tag("output_text")]
    | Annotated[RefusalPart, Tag("refusal")]
    | Annotated[FilePart, Tag("file")]
    | Annotated[FilePart, Tag("input_file")]
    | Annotated[LeftOut, Tag(OTHER)],
    tagged(*TEXTS, "refusal", *FILES),
    BeforeValidator(readable),
    typed("text"),
]
Parts = Annotated[list[Part], BeforeValidator(as_texts)]


def said(parts: Sequence[TextPart | RefusalPart | FilePart | LeftOut]) -> Json:
    """The texts of parts: one as it is, several each on its own."""
    texts = [part.text for part in parts if not isinstance(part, LeftOut)]
    return texts[0] if len(texts) == 1 else [{"type": "text", "text": each} for each in texts]


def as_arguments(given: object) -> object:
    """Arguments that PHP wrote as an empty list are none; other data is told as JSON."""
    if given == []:
        return {}
    if isinstance(given, str):
        check_size(given)  # for templates that read arguments
    return json.dumps(given) if isinstance(given, list | int | float) else given


def as_identity(given: object) -> object:
    """Identifiers that are numbers."""
    return str(given) if isinstance(given, int) else given


Identity = Annotated[str | None, BeforeValidator(as_identity)]


class CalledFunction(RequestPart):
    name: str
    arguments: Annotated[str | Object, BeforeValidator(as_arguments)] = "{}"


class CallGiven(RequestPart):
    """A call in a message that a client sends back; a custom tool is called with a text."""

    id: Identity = None
    type: str = "function"
    function: CalledFunction

    @model_validator(mode="before")
    @classmethod
    def of_custom(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        custom = given.get("custom")
        if "name" in given and "function" not in given:  # as LangChain keeps calls
            arguments = given.get("arguments", given.get("args"))
            return given | {"function": {"name": given["name"], "arguments": arguments}}
        if not isinstance(custom, dict):
            return given
        rest = {name: value for name, value in given.items() if name != "custom"}
        called = {"name": custom.get("name"), "arguments": {"input": custom.get("input")}}
        return rest | {"function": called}

    @property
    def call(self) -> Json:
        function: Json = {"name": self.function.name, "arguments": self.function.arguments}
        identity = {} if self.id is None else {"id": self.id}
        return {**identity, "type": "function", "function": function}


class Thought(RequestPart):
    """A thought in a list, as litellm and OpenRouter send them."""

    type: str = ""
    thinking: str = ""
    text: str = ""
    summary: str = ""


def as_thoughts(given: object) -> object:
    """A text or an object is short for a list of one."""
    return [
        {"text": each} if isinstance(each, str) else each
        for each in (given if isinstance(given, list) else [given])
    ]


Thoughts = Annotated[list[Thought] | None, BeforeValidator(as_thoughts)]
ROLES = {
    **dict.fromkeys(("function", "ipython", "observation", "tool_response"), "tool"),
    **dict.fromkeys(("model", "ai", "bot", "gpt"), "assistant"),
    "human": "user",
}


def as_role(given: object) -> object:
    lower = given.lower() if isinstance(given, str) else ""
    return ROLES.get(lower, lower) if lower else given


KNOWN = ("system", "developer", "user", "assistant", "tool")
Role = Annotated[
    Literal["system", "developer", "user", "assistant", "tool"],
    BeforeValidator(as_role),
]


class MessageGiven(RequestPart):
    role: Role = "user"
    content: Parts = Field(default_factory=list)
    name: Identity = None
    tool_calls: list[CallGiven] | None = None
    function_call: CalledFunction | None = None  # as calls were given once
    tool_call_id: Identity = None
    images: list[JsonValue] | None = None
    # One thing, as servers and clients call it.
    reasoning_content: JsonValue = None
    reasoning: JsonValue = None
    reasoning_text: JsonValue = None
    thinking: JsonValue = None
    thinking_blocks: Thoughts = None
    reasoning_details: Thoughts = None

    @model_validator(mode="before")
    @classmethod
    def of_others(cls, given: object) -> object:
        """A message in a role that no template is sure to know is the user's, and that is told."""
        if not isinstance(given, dict):
            return {"content": given} if isinstance(given, str) else given
        if given.get("function_call") == {}:
            given = {**given, "function_call": None}
        role = as_role(given.get("role"))
        if not isinstance(role, str) or role in KNOWN:
            return given
        rest = {name: value for name, value in given.items() if name != "role"}
        return {**rest, **({f"role.{role}": role} if role else {})}

    @property
    def thought(self) -> str:
        for each in (self.reasoning_content, self.reasoning, self.reasoning_text, self.thinking):
            if each and isinstance(each, str):
                return each
        blocks = self.thinking_blocks or self.reasoning_details or ()
        return "".join(each.thinking or each.text or each.summary for each in blocks)

    @property
    def message(self) -> Message:
        if self.images:
            raise refused("models here read text only: leave the images out", "images")
        return {"role": self.role, **dict(self._fields())}

    def _fields(self) -> Iterator[tuple[str, Json]]:
        if self.content:
            yield "content", said(self.content)
        for name, text in (("name", self.name), ("tool_call_id", self.tool_call_id)):
            if text is not None:
                yield name, text
        if self.thought:
            yield "reasoning_content", self.thought
        calls: list[Json] = [each.call for each in self.tool_calls or ()]
        if self.function_call:
            function = self.function_call.model_dump(include={"name", "arguments"})
            calls.append({"type": "function", "function": function})
        if calls:
            yield "tool_calls", calls
