"""The part of a conversation that fits in the model's context."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.apps.chat.session import ChatMessage, Session
from localspec.base.errors import PromptTooLong
from localspec.console.speakers.speaker import Speaker
from localspec.formats.templates.message import Message

ROOM = 512  # tokens that are kept for an answer, where the context is large enough
KEPT = 0.7  # of the rest, when that is full: the less is kept, the later it is full again, and
# until then each prompt begins with the last one, which need not be read again


def fitting(
    session: Session, speaker: Speaker, question: ChatMessage
) -> tuple[Sequence[Message], str]:
    """Leave out the oldest turns until the messages fit; return these and a notice of it."""
    context, before = speaker.context, session.forgotten
    messages = session.messages(question)
    count = speaker.count(messages)
    limit = context - min(ROOM, context // 4)
    if count is None or not context or count <= limit:
        return messages, ""
    while count > KEPT * limit and session.forget():
        messages = session.messages(question)
        count = speaker.count(messages) or 0
    if count >= context:
        raise PromptTooLong(
            f"the message is {count:,} tokens, the system prompt included; the context holds "
            f"{context:,}: shorten it, or load the model with --context {count + ROOM}"
        )
    if session.forgotten == before:
        return messages, ""
    return messages, f"the context of {context:,} tokens is full: {forgotten(session)}"


def forgotten(session: Session) -> str:
    return f"the model hears the oldest {session.forgotten:,} messages no more"
