"""The way from a conversation to tokens, to the reply's constraint, and to its reader."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal

from localspec.dialects import Bounds, PlainCalls, ReplyReader
from localspec.dialects.offered_tools import offered_tools
from localspec.dialects.schemas import repair_tool
from localspec.engine.settings import Settings
from localspec.errors import UsageError
from localspec.grammar.grammar import MAX_CHARACTERS, Grammar
from localspec.templates.message import Json, Message, Tool

if TYPE_CHECKING:
    from localspec.runtime.runtime import Runtime

Choice = Literal["auto", "none", "required"]
ANY_OBJECT = '{"type": "object"}'
MAX_ENDING = 256  # characters of a prompt's end, which tell a dialect how the reply begins


@dataclass(frozen=True, slots=True)
class Conversation:
    """The messages so far, and the demands on the next reply."""

    messages: Sequence[Message]
    tools: Sequence[Tool] = ()
    choice: Choice = "auto"
    named: str | None = None  # the one tool that has to be called
    allowed: Set[str] | None = None  # the only tools that may be called; None: all
    parallel: bool | None = None  # whether several calls are wanted; None: where calls are free
    format: Grammar | None = None
    extra: Mapping[str, Json] = field(default_factory=dict)  # for the chat template

    def __post_init__(self) -> None:
        object.__setattr__(self, "tools", list(map(repair_tool, self.tools)))

    @property
    def begun(self) -> bool:
        """Whether the last message is the beginning of the reply."""
        last = self.messages[-1] if self.messages else {}
        return last.get("role") == "assistant" and not last.get("tool_calls")

    @property
    def offered(self) -> Sequence[Tool]:
        """The tools that the template shows to the model."""
        return () if self.choice == "none" else self.tools

    @property
    def may_call(self) -> Sequence[Tool]:
        """The tools that the reply may call."""
        if self.named is not None:
            return [tool for tool in self.tools if name_of(tool) == self.named]
        if self.allowed is not None:
            return [tool for tool in self.offered if name_of(tool) in self.allowed]
        return self.offered

    @property
    def must_call(self) -> bool:
        return self.choice == "required" or self.named is not None

    @property
    def may_repeat(self) -> bool:
        """Whether several calls may be made; if one is required, only on request.

        A small model that is held to calls goes on with them until its limit.
        """
        return not self.must_call if self.parallel is None else self.parallel


@dataclass(frozen=True, slots=True)
class PreparedPrompt:
    """A conversation as the engine takes it; each reply to it has a reader of its own."""

    tokens: Sequence[int]
    settings: Settings  # with the dialect's marks and grammar
    runtime: Runtime
    conversation: Conversation
    ending: str

    def reader(self) -> ReplyReader:
        tools = self.conversation.may_call
        reader = self.runtime.dialect.reader(tools, self.ending)
        if not tools or self.conversation.format:  # what has a form is an answer
            return reader
        return PlainCalls(reader, offered_tools(tools), self.conversation.may_repeat)


def prompt(runtime: Runtime, conversation: Conversation, settings: Settings) -> PreparedPrompt:
    """Render and tokenise a conversation; may take seconds for a long one."""
    tools = conversation.offered
    text = runtime.render(
        conversation.messages, tools, conversation.extra, continued=conversation.begun
    )
    ending = text[-MAX_ENDING:]
    marks = map(runtime.control_token, runtime.dialect.marks)
    settings = replace(
        settings,
        marks=frozenset(mark for mark in marks if mark is not None),
        grammar=grammar(runtime, conversation, ending),
    )
    return PreparedPrompt(runtime.read(text), settings, runtime, conversation, ending)


def grammar(runtime: Runtime, conversation: Conversation, ending: str) -> Grammar | None:
    """Constrain calls to their tools, and the text after any reasoning to the format.

    A reply that has to be a call has no text, so its format says nothing.
    """
    form = None if conversation.must_call else conversation.format
    if form and form.kind in ("lark", "regex"):
        return form  # there is no telling what in it would be a call
    bounds = Bounds(
        conversation.may_call,
        runtime.control_token,
        conversation.must_call,
        conversation.may_repeat,
        json.loads(form.text or ANY_OBJECT) if form else None,
        ending,
    )
    text = runtime.dialect.grammar(bounds)
    if text and len(text) > MAX_CHARACTERS:
        raise UsageError(
            f"{len(conversation.may_call):,} tools make a grammar of {len(text):,} characters; it "
            f"may have {MAX_CHARACTERS:,}: offer fewer tools, or such with shorter schemas"
        )
    return Grammar("lark", text) if text else form


def name_of(tool: Tool) -> Json:
    function = tool["function"]
    return function["name"] if isinstance(function, Mapping) else None
