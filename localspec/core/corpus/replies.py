"""Replies that are kept for later: texts in a private folder, of which the oldest go first."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from localspec.base.system import folders
from localspec.base.system.atomic_write import write
from localspec.base.tokenizer import Tokenizer

MAX_REPLIES, MAX_REPLY_BYTES = 4096, 32 << 20  # of all of them together
MIN_TOKENS = 32  # of a reply that is worth keeping
LEAD = 32  # tokens of the prompt that are kept with it, so that its beginning is found again
TIDY_EVERY = 16  # replies


class UnkeptReply(NamedTuple):
    """The end of a prompt, and its reply."""

    lead: Sequence[int]
    reply: Sequence[int]


class KeptReplies:
    """A folder with a file for each reply; one that is given again is new. One thread calls it."""

    def __init__(self, folder: Path, most: int = MAX_REPLIES, most_bytes: int = MAX_REPLY_BYTES):
        self._folder = folder
        self._most, self._most_bytes = most, most_bytes
        self._writes = 0

    def keep(self, text: str) -> None:
        """Write a reply; raise an OSError where that cannot be done."""
        for folder in (self._folder.parent, self._folder):
            folders.make_private(folder)
        path = self._folder / f"{hashlib.sha256(text.encode()).hexdigest()[:32]}.txt"
        if path.exists():
            os.utime(path)
        else:
            write(path, text)
        if self._writes % TIDY_EVERY == 0:
            self._tidy()
        self._writes += 1

    def _tidy(self) -> None:
        """Remove the oldest replies beyond the bounds."""
        total = 0
        for at, (_, size, path) in enumerate(sorted(replies(self._folder), reverse=True)):
            total += size
            if at >= self._most or total > self._most_bytes:
                with suppress(OSError):
                    path.unlink()


def kept_folder() -> Path:
    """Return the folder of all kept replies, in which each owner has one."""
    return folders.data() / "replies"


def folder_of(owner: str) -> Path:
    """Return the folder of an owner's replies; "" is the user of this machine."""
    return kept_folder() / (owner or "own")


def replies(folder: Path) -> list[tuple[int, int, Path]]:
    """List the replies below a folder: when each was said last, its bytes and its file."""
    listed = []
    with suppress(OSError):
        for path in folder.rglob("*.txt"):
            info = path.stat()
            listed.append((info.st_mtime_ns, info.st_size, path))
    return listed


def text_of(unkept: UnkeptReply, tokenizer: Tokenizer) -> str:
    """Spell a reply after the end of its prompt, control tokens by their names."""

    def spelled(token: int) -> bytes:
        return tokenizer.token_bytes(token) or tokenizer.token_text(token).encode()

    tokens = [token for token in (*unkept.lead, *unkept.reply) if token >= 0]
    text = b"".join(map(spelled, tokens)).decode("utf-8", "replace")
    return text.lstrip("\N{REPLACEMENT CHARACTER}")
