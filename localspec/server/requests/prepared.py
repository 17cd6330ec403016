"""Requests of any API as tokens and settings for the engine, with a reader for each reply."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from localspec.dialects import Content, Part, ReplyReader
from localspec.engine.settings import Settings
from localspec.runtime.prompting import Conversation, prompt
from localspec.server.faults import refused
from localspec.server.model_host import Served


class Verbatim:
    """Reads a reply to a text that is no conversation: all of it is content."""

    def read(self, text: str) -> list[Part]:
        return [Content(text)] if text else []

    def close(self) -> list[Part]:
        return []


@dataclass(frozen=True, slots=True)
class Prepared:
    """A request that is ready to be answered, as often as wished."""

    tokens: Sequence[int]
    settings: Settings
    served: Served
    reader: Callable[[], ReplyReader] = Verbatim
    left_out: Sequence[str] = ()  # fields of which a part had no room


def prepare_conversation(
    served: Served, conversation: Conversation, settings: Settings
) -> Prepared:
    """Render, tokenise and put under a grammar; takes its time, so not on the event loop."""
    check_choice(conversation)
    prepared = prompt(served.runtime, conversation, settings)
    return Prepared(prepared.tokens, prepared.settings, served, prepared.reader)


def check_choice(conversation: Conversation) -> None:
    """Refuse a call that has to be made and cannot."""
    if conversation.named is not None and not conversation.may_call:
        raise refused(f"tool_choice names {conversation.named!r}, which is no tool", "tool_choice")
    if conversation.allowed and not conversation.may_call and conversation.choice != "none":
        names = ", ".join(map(repr, sorted(conversation.allowed)))
        raise refused(f"tool_choice allows {names[:200]}: none of them is a tool", "tool_choice")
    if conversation.must_call and not conversation.may_call:
        message = "a tool has to be called, but there is none that a model can be told of"
        raise refused(f"{message}: give functions, or leave tool_choice out", "tool_choice")
    kind = conversation.format.kind if conversation.format else None
    if conversation.may_call and (kind == "lark" or (kind == "regex" and conversation.must_call)):
        raise refused("a reply with a grammar cannot call tools: leave one of them out", "grammar")


def prepare_text(served: Served, tokens: Sequence[int], settings: Settings) -> Prepared:
    """Prepare a text to go on with, which is no conversation; an empty one is begun anew."""
    start = served.runtime.tokenizer.bos
    return Prepared(tokens or ([] if start is None else [start]), settings, served)


def with_infill_ends(served: Served, settings: Settings) -> Settings:
    """End a middle at the tokens with which the model ends one."""
    marks = served.runtime.tokenizer.infill
    return replace(settings, ends=marks.ends) if marks else settings
