"""The way from a conversation to tokens, to the reply's constraint, and to its reader."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field, replace
from typing import Literal

from localspec.base.errors import UsageError
from localspec.base.tokenizer import Tokenizer, encode_within
from localspec.base.tokens import NONE, Tokens, common_prefix, tokens_of
from localspec.core.decoding.growing_text import sendable
from localspec.core.requests.settings import Settings
from localspec.formats.dialects import Bounds, PlainCalls, ReplyReader
from localspec.formats.dialects.offered_tools import offered_tools
from localspec.formats.dialects.schemas import repair_tool
from localspec.formats.grammar.grammar import MAX_CHARACTERS, Grammar
from localspec.formats.templates.message import Json, Message, Tool
from localspec.formats.templates.thinking import BUDGET, SWITCH
from localspec.formats.thought.form import Thoughts
from localspec.interfaces.media import Medium
from localspec.running.runtime.media_text import mark_media, split_at_marks
from localspec.running.runtime.model_text import ModelText

Choice = Literal["auto", "none", "required"]
ANY_OBJECT = '{"type": "object"}'
UNLIKE = ("Aa", "0")  # words of the next message, which share no token
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
    media: Sequence[Medium] = ()  # for the parts of messages that are no text, in their order

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
    model: ModelText
    conversation: Conversation
    ending: str

    def reader(self) -> ReplyReader:
        tools = self.conversation.may_call
        reader = self.model.dialect.reader(tools, self.ending)
        if not tools or self.conversation.format:  # what has a form is an answer
            return reader
        return PlainCalls(reader, offered_tools(tools), self.conversation.may_repeat)

    def before_next(self, reply: Message) -> Tokens:
        """Return the beginning of the next prompt: up to what the user or a tool will say."""
        earlier = [
            message for message in self.conversation.messages if message["role"] == "assistant"
        ]
        sends_thoughts = any("reasoning_content" in message for message in earlier)
        is_unknown = "tool_calls" in reply and "reasoning_content" in reply and not earlier
        if self.conversation.media or self.conversation.begun or is_unknown:
            return NONE
        if not sends_thoughts:
            reply = {key: value for key, value in reply.items() if key != "reasoning_content"}
        role = "tool" if reply.get("tool_calls") else "user"
        readings = []
        for content in UNLIKE:
            messages = [*self.conversation.messages, reply, {"role": role, "content": content}]
            conversation = replace(self.conversation, messages=messages)
            text = render_prompt(self.model, conversation, self.settings)
            readings.append(tokens_of(self.model.read(text)))
        return readings[0][: common_prefix(*readings)]


def prompt(model: ModelText, conversation: Conversation, settings: Settings) -> PreparedPrompt:
    """Render and tokenise a conversation; may take seconds for a long one, or for pictures."""
    if settings.reasoning_budget is None and conversation.extra.get(SWITCH) is False:
        settings = replace(settings, reasoning_budget=0)
    text = split_at_marks(render_prompt(model, conversation, settings), conversation.media)
    ending = text.texts[-1][-MAX_ENDING:]
    marks = map(model.control_token, model.dialect.marks)
    settings = replace(
        settings,
        marks=frozenset(mark for mark in marks if mark is not None),
        grammar=grammar(model, conversation, ending),
        thoughts=thoughts(model, conversation, settings, ending),
    )
    tokens, runs = text.read(model)
    return PreparedPrompt(tokens, replace(settings, media=runs), model, conversation, ending)


def render_prompt(model: ModelText, conversation: Conversation, settings: Settings) -> str:
    """Render a conversation, with a mark for each of its media.

    A template that reads them hears of budgets for thought.
    """
    extra = dict(conversation.extra)
    if settings.reasoning_budget == 0:
        extra.setdefault(SWITCH, False)
    elif (settings.reasoning_budget or 0) > 0:
        extra.setdefault(BUDGET, settings.reasoning_budget)
    messages = conversation.messages
    if conversation.media:
        messages = mark_media(messages, conversation.media)
    return model.render(messages, conversation.offered, extra, continued=conversation.begun)


def thoughts(
    model: ModelText, conversation: Conversation, settings: Settings, ending: str
) -> Thoughts | None:
    """Return how the reply shows its thoughts, and the tokens that end one.

    A grammar of the client's own leaves no room for a thought, so none is ended there.
    """
    marks, form = model.dialect.thoughts(conversation.may_call, ending), conversation.format
    own_grammar = form and not conversation.must_call and form.kind in ("lark", "regex")
    if marks is None:
        return None
    if own_grammar or not has_budget(settings):
        return Thoughts(marks.form)
    tokenizer, message = model.tokenizer, ""
    if settings.reasoning_budget:  # a thought that has not begun needs no last words
        message = sendable(settings.reasoning_budget_message or "")
    closing = (
        *encode_in_reply(tokenizer, message),
        *encode_in_reply(tokenizer, marks.closing, special=True),
    )
    return Thoughts(marks.form, closing, tuple(first_tokens(tokenizer, marks.word)))


def has_budget(settings: Settings) -> bool:
    return settings.reasoning_budget is not None and settings.reasoning_budget >= 0


def encode_in_reply(tokenizer: Tokenizer, text: str, *, special: bool = False) -> list[int]:
    """Tokenise a text as it stands within a reply, or else as it would stand alone."""
    within = encode_within(tokenizer, text, special=special)
    return tokenizer.encode(text, special=special).tolist() if within is None else within


def first_tokens(tokenizer: Tokenizer, word: str) -> set[int]:
    """Find the tokens by which a word may begin."""
    spellings = (encode_within(tokenizer, word[:end]) for end in range(1, len(word) + 1))
    return {tokens[0] for tokens in spellings if tokens is not None and len(tokens) == 1}


def grammar(model: ModelText, conversation: Conversation, ending: str) -> Grammar | None:
    """Constrain calls to their tools, and the text after any reasoning to the format.

    A reply that has to be a call has no text, so its format says nothing.
    """
    form = None if conversation.must_call else conversation.format
    if form and form.kind in ("lark", "regex"):
        return form  # there is no telling what in it would be a call
    bounds = Bounds(
        conversation.may_call,
        model.control_token,
        conversation.must_call,
        conversation.may_repeat,
        json.loads(form.text or ANY_OBJECT) if form else None,
        ending,
    )
    text = model.dialect.grammar(bounds)
    if text and len(text) > MAX_CHARACTERS:
        raise UsageError(
            f"{len(conversation.may_call):,} tools make a grammar of {len(text):,} characters; it "
            f"may have {MAX_CHARACTERS:,}: offer fewer tools, or such with shorter schemas"
        )
    return Grammar("lark", text) if text else form


def name_of(tool: Tool) -> Json:
    function = tool["function"]
    return function["name"] if isinstance(function, Mapping) else None
