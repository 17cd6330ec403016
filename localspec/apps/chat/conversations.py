"""The conversations that are kept, listed by title and found again."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from localspec.apps.chat import session
from localspec.apps.chat.session import Session
from localspec.base.errors import UsageError

AROUND = 30  # characters of an excerpt before and after what was searched for
MAX_NAMED = 5  # conversations that an error lists
MAX_DIGITS = 9  # of a number in a list


@dataclass(frozen=True, slots=True)
class KeptConversation:
    """A conversation, and the file that keeps it."""

    path: Path
    session: Session
    changed: float  # seconds since the epoch

    @property
    def title(self) -> str:
        return self.session.title

    @property
    def when(self) -> str:
        """Return the day of its last change, or the time if that was today."""
        day, now = time.localtime(self.changed), time.localtime()
        today = day[:3] == now[:3]
        return time.strftime("today %H:%M" if today else "%Y-%m-%d", day)

    def excerpt(self, word: str) -> str:
        """Quote the text around a word's first place in its messages; empty if it is nowhere."""
        for message in self.session.said:
            text = " ".join(message.text.split())
            at = text.lower().find(word)
            if at >= 0:
                start, end = max(at - AROUND, 0), at + len(word) + AROUND
                before, after = "..." * (start > 0), "..." * (end < len(text))
                return f"{before}{text[start:end]}{after}"
        return ""


def everything() -> list[KeptConversation]:
    """List what can be read, the newest first."""
    return [conversation for path in session.latest() if (conversation := read(path))]


def read(path: Path) -> KeptConversation | None:
    try:
        return KeptConversation(path, session.open_session(path), path.stat().st_mtime)
    except (UsageError, OSError):
        return None


def find(name: str, numbered: Sequence[Path] = ()) -> KeptConversation | None:
    """Find a conversation by its number in a list, its title, the beginning of one, or its file.

    None if there is none; several are an error that names them.
    """
    places = numbered or list(session.latest())
    if name.isdecimal() and len(name) < MAX_DIGITS and places:
        return by_number(int(name), places)
    text, candidates = name.strip().lower(), everything()
    tests: Sequence[Callable[[KeptConversation], bool]] = (
        lambda conversation: text in (conversation.title.lower(), conversation.path.stem),
        lambda conversation: conversation.title.lower().startswith(text),
        lambda conversation: conversation.path.stem.startswith(text),
    )
    for matches in tests:
        if fitting := [conversation for conversation in candidates if matches(conversation)]:
            return only(name, fitting)
    return None


def by_number(number: int, numbered: Sequence[Path]) -> KeptConversation:
    if not 1 <= number <= len(numbered):
        raise UsageError(f"there is no conversation {number}; the last is {len(numbered)}")
    if conversation := read(numbered[number - 1]):
        return conversation
    raise UsageError(f"conversation {number} is gone; /list shows those that are there")


def only(name: str, fitting: Sequence[KeptConversation]) -> KeptConversation:
    if len(fitting) == 1:
        return fitting[0]
    titles = "; ".join(conversation.title for conversation in fitting[:MAX_NAMED])
    raise UsageError(
        f"{len(fitting)} conversations begin with {name!r}: {titles}: "
        "give more of one's title, or its number in /list"
    )


def search(text: str) -> list[tuple[KeptConversation, str]]:
    """Find the conversations that hold all words of a text, with an excerpt of each."""
    words = text.lower().split()
    matches = []
    for conversation in everything():
        excerpts = [conversation.excerpt(word) for word in words]
        if all(excerpts):
            matches.append((conversation, excerpts[0]))
    return matches
