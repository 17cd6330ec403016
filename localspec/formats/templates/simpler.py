"""Simpler forms of a conversation, for chat templates that refuse it as it came."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from localspec.formats.templates.adapt import conversation
from localspec.formats.templates.capabilities import Takes
from localspec.formats.templates.message import Message
from localspec.formats.templates.tools_in_words import in_words

ASKED: Message = {"role": "user", "content": ""}
SAID: Message = {"role": "assistant", "content": ""}


def simpler(messages: Sequence[Message], takes: Takes) -> Iterator[list[Message]]:
    """Yield the conversation with alternating roles, then with calls and results in words, too."""
    strict = replace(takes, systems=False, repeats=False)
    for put in (_put_unpaired_in_words(messages), map(in_words, messages)):
        yield conversation(list(_in_turn(conversation(list(put), strict))), strict)


def _put_unpaired_in_words(messages: Sequence[Message]) -> Iterator[Message]:
    """Put in words results without a call before them, and calls without a result after them."""
    called = False
    for at, message in enumerate(messages):
        is_result = message.get("role") == "tool"
        follows = messages[at + 1].get("role") if at + 1 < len(messages) else "tool"
        called = called if is_result else bool(message.get("tool_calls")) and follows == "tool"
        yield message if called else in_words(message)


def _in_turn(messages: Iterable[Message]) -> Iterator[Message]:
    """Add empty turns where one is missing: the user's at the start, the model's after results."""
    before = "system"
    for message in messages:
        role = message.get("role")
        if before == "system" and role != "system" and role != "user":
            yield ASKED
        if before == "tool" and role == "user":
            yield SAID
        yield message
        before = str(role)
    if before == "system":
        yield ASKED
