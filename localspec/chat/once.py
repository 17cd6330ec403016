"""One question, as from a script: the answer and nothing else on standard output."""

from __future__ import annotations

import sys

from localspec.chat.hearing import hear
from localspec.chat.speaker import Speaker
from localspec.chat.status import status
from localspec.chat.view import Typed
from localspec.errors import PromptTooLong
from localspec.message import Message
from localspec.settings import Settings


def once(speaker: Speaker, settings: Settings, messages: list[Message]) -> None:
    """Answer it; what else there is to say goes to standard error."""
    count = speaker.count(messages)
    if count is not None and speaker.context and count >= speaker.context:
        raise PromptTooLong(
            f"the question is {count:,} tokens; the context holds {speaker.context:,}, the answer "
            f"included: shorten it, or load the model with a larger --context"
        )
    heard = hear(speaker.ask(messages, settings), Typed(sys.stdout, thoughts=False))
    if heard.error:
        raise heard.error
    assert heard.ended is not None, "an answer ends or fails"
    if heard.ended.finish == "cancelled":
        raise KeyboardInterrupt
    for notice in heard.ended.notices:
        print(f"localspec: {notice}", file=sys.stderr)
    if sys.stderr.isatty():
        print(status(heard.ended, speaker.context), file=sys.stderr)
