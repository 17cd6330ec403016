"""From a conversation, as any of the APIs puts it, to tokens and settings for the engine."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, Protocol

from localspec.dialects import Bounds, Content, Part
from localspec.engine.settings import Settings
from localspec.grammar.grammar import Grammar
from localspec.server.faults import refused
from localspec.server.model_host import Served
from localspec.templates.message import Json, Message, Tool

Choice = Literal["auto", "none", "required"]
ANY = '{"type": "object"}'
ENDING = 256  # letters of the prompt's end that a dialect looks at


@dataclass(frozen=True, slots=True)
class Conversation:
    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    choice: Choice = "auto"
    named: str | None = None  # the one tool that has to be called
    parallel: bool = True
    format: Grammar | None = None
    extra: Mapping[str, Json] = field(default_factory=dict)  # for the chat template

    @property
    def begun(self) -> bool:
        """Whether the last message is the beginning of the reply."""
        last = self.messages[-1] if self.messages else {}
        return last.get("role") == "assistant" and not last.get("tool_calls")


@dataclass(frozen=True, slots=True)
class Prepared:
    """Ready to be answered, as often as wished."""

    tokens: Sequence[int]
    settings: Settings
    served: Served
    tools: Sequence[Tool] = ()
    ending: str | None = None  # of a prompt that is a conversation

    def reader(self) -> Reads:
        """A text that is only gone on with is all content."""
        if self.ending is None:
            return Verbatim()
        return self.served.dialect.reader(self.tools, self.ending)


def prepared(served: Served, conversation: Conversation, settings: Settings) -> Prepared:
    """Render, tokenise and put under a grammar; takes its time, so not on the event loop."""
    runtime, dialect = served.runtime, served.dialect
    tools = offered(conversation)
    text = runtime.render(
        conversation.messages, tools, conversation.extra, continued=conversation.begun
    )
    marks = map(runtime.control_token, dialect.marks)
    settings = replace(
        settings,
        marks=frozenset(mark for mark in marks if mark is not None),
        grammar=grammar(served, conversation, text[-ENDING:]),
    )
    return Prepared(runtime.read(text), settings, served, tools, text[-ENDING:])


def offered(conversation: Conversation) -> Sequence[Tool]:
    """The tools that the model hears of."""
    return () if conversation.choice == "none" else conversation.tools


def to_call(conversation: Conversation) -> Sequence[Tool]:
    """The tools that may be called."""
    if conversation.named is None:
        return offered(conversation)
    found = [each for each in conversation.tools if name_of(each) == conversation.named]
    if not found:
        raise refused(f"tool_choice names {conversation.named!r}, which is no tool", "tool_choice")
    return found


def name_of(tool: Tool) -> Json:
    function = tool["function"]
    return function["name"] if isinstance(function, Mapping) else None


def grammar(served: Served, conversation: Conversation, ending: str) -> Grammar | None:
    """What the reply has to be, if it has to be something."""
    tools = to_call(conversation)
    required = conversation.choice == "required" or conversation.named is not None
    if required and not tools:
        raise refused("a tool has to be called, but there are none: give tools", "tool_choice")
    dialect, control = served.dialect, served.runtime.control_token
    parallel, form = conversation.parallel, conversation.format
    if required and form:
        raise refused("a reply cannot be a tool call and have a format too", "response_format")
    schema = json.loads(form.text or ANY) if form else None
    found = dialect.grammar(Bounds(tools, control, required, parallel, schema, ending))
    return Grammar("lark", found) if found else form


def plain(served: Served, tokens: Sequence[int], settings: Settings) -> Prepared:
    """A text to go on with, which is no conversation."""
    return Prepared(tokens, settings, served)


def filling(served: Served, settings: Settings) -> Settings:
    """End a middle at the tokens with which the model ends one."""
    marks = served.runtime.tokenizer.infill
    return replace(settings, ends=marks.ends) if marks else settings


class Reads(Protocol):
    """Takes a reply apart while it comes."""

    def read(self, text: str) -> list[Part]: ...

    def close(self) -> list[Part]: ...


class Verbatim:
    """Reads a reply that has no form."""

    def read(self, text: str) -> list[Part]:
        return [Content(text)] if text else []

    def close(self) -> list[Part]:
        return []
