"""Prepared requests: tokens and settings for the engine, with a reader for each reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from localspec.apps.server.faults import refused
from localspec.apps.server.requests.thinking import with_budget
from localspec.apps.server.served import Served
from localspec.base.tokens import Tokens
from localspec.core.requests.settings import Settings
from localspec.formats.dialects import Content, Part, ReplyReader
from localspec.formats.templates.message import Message
from localspec.running.runtime.prompting import Conversation, prompt


class Verbatim:
    """Reads a reply to a text that is no conversation: all of it is content."""

    def read(self, text: str) -> list[Part]:
        return [Content(text)] if text else []

    def close(self) -> list[Part]:
        return []


@dataclass(frozen=True, slots=True)
class Prepared:
    """A prompt that is ready for the engine, for one reply or several."""

    tokens: Sequence[int]
    settings: Settings
    served: Served
    reader: Callable[[], ReplyReader] = Verbatim
    left_out: Sequence[str] = ()  # fields that were shortened to fit the context
    before_next: Callable[[Message], Tokens] | None = None  # how, after a reply, the next begins


def prepare_conversation(
    served: Served, conversation: Conversation, settings: Settings
) -> Prepared:
    """Render and tokenise a conversation, with its grammar; slow, so not on the event loop."""
    check_choice(conversation)
    settings = with_budget(served, conversation.extra, settings)
    prepared = prompt(served.runtime.text, conversation, settings)
    reader, before_next = prepared.reader, prepared.before_next
    return Prepared(prepared.tokens, prepared.settings, served, reader, before_next=before_next)


def check_choice(conversation: Conversation) -> None:
    """Refuse a tool choice that the tools cannot meet."""
    if conversation.named is not None and not conversation.may_call:
        raise refused(f"tool_choice names {conversation.named!r}, which is no tool", "tool_choice")
    if conversation.allowed and not conversation.may_call and conversation.choice != "none":
        names = ", ".join(map(repr, sorted(conversation.allowed)))
        raise refused(f"tool_choice allows {names[:200]}: none of them is a tool", "tool_choice")
    if conversation.must_call and not conversation.may_call:
        message = "a tool has to be called, but there is no function among the tools"
        raise refused(f"{message}: give functions, or leave tool_choice out", "tool_choice")
    kind = conversation.format.kind if conversation.format else None
    if conversation.may_call and (kind == "lark" or (kind == "regex" and conversation.must_call)):
        raise refused("a reply with a grammar cannot call tools: leave one of them out", "grammar")


def prepare_text(served: Served, tokens: Sequence[int], settings: Settings) -> Prepared:
    """Prepare a text to continue; an empty one begins with the start token."""
    start = served.runtime.tokenizer.bos
    return Prepared(tokens or ([] if start is None else [start]), settings, served)


def with_infill_ends(served: Served, settings: Settings) -> Settings:
    """End the reply at the tokens with which the model ends a filled-in middle."""
    marks = served.runtime.tokenizer.infill
    return replace(settings, ends=settings.ends | marks.ends) if marks else settings
