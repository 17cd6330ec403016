"""What a model is to hear of a conversation: all of it, or what its context has room for."""

from __future__ import annotations

from collections.abc import Sequence

from localspec.chat.session import Said, Session
from localspec.chat.speaker import Speaker
from localspec.errors import PromptTooLong
from localspec.message import Message

ROOM = 512  # tokens that are kept for an answer, where the context is large enough
ENOUGH = 0.75  # of the context; so much is kept when it is full, so that it is not soon full again


def fitting(session: Session, speaker: Speaker, question: Said) -> tuple[Sequence[Message], str]:
    """The messages, and what is to be said of them; the oldest turns of the session may go."""
    context, before = speaker.context, session.forgotten
    messages = session.messages(question)
    count = speaker.count(messages)
    if count is None or not context or count <= context - min(ROOM, context // 4):
        return messages, ""
    while count > ENOUGH * context and session.forget():
        messages = session.messages(question)
        count = speaker.count(messages) or 0
    if count >= context:
        raise PromptTooLong(
            f"the message is {count:,} tokens, the system prompt included; the context holds "
            f"{context:,}: shorten it, or load the model with --context {count + ROOM}"
        )
    if session.forgotten == before:
        return messages, ""
    return messages, (
        f"the context of {context:,} tokens is full: the model hears the oldest "
        f"{session.forgotten:,} messages no more"
    )
