"""The texts of a training: read from files, or written by the model; kept in a file that grows."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

import numpy as np

from localspec.apps.training.record import Text
from localspec.base.tokens import Tokens, tokens_of
from localspec.core.corpus import files, replies
from localspec.core.corpus.segment import Key

PIECE = 512  # tokens of a text that is read from a file
LEAST_PIECE = 32  # tokens of a file's last piece: less says little
HELD_OUT = 16  # one text of so many is never trained on
WRITTEN, FILED, KEPT = "written", "file", "kept reply"  # where texts come from


def is_held_out(key: bytes) -> bool:
    """Choose by a digest, so that the choice is the same each time."""
    return hashlib.sha256(key).digest()[0] % HELD_OUT == 0


class TextStore:
    """The texts of a training in their order, which stays. A line that was cut short is dropped."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._entries: list[tuple[str, Text]] = []  # each with its source
        self._read = set[bytes]()  # of what was not written here
        self.counts, self.tokens = Counter[str](), Counter[str]()  # by source
        whole = 0
        for line in path.read_bytes().splitlines(keepends=True) if path.exists() else ():
            if not line.endswith(b"\n"):
                os.truncate(path, whole)
                break
            whole += len(line)
            fields = json.loads(line)
            text = Text(tokens_of(fields["tokens"]), fields["begin"], fields["held_out"])
            self._take(text, fields["source"])

    def _take(self, text: Text, source: str) -> None:
        self._entries.append((source, text))
        self.counts[source] += 1
        self.tokens[source] += len(text.tokens)
        if source != WRITTEN:
            self._read.add(text.tokens.tobytes())

    @property
    def texts(self) -> list[Text]:
        return [text for _, text in self._entries]

    def from_source(self, source: str) -> list[Text]:
        return [text for origin, text in self._entries if origin == source]

    def add(self, text: Text, source: str) -> None:
        """Write a text after the others; one that was read before is left out."""
        if source != WRITTEN and text.tokens.tobytes() in self._read:
            return
        self._take(text, source)
        fields = {"source": source, "tokens": text.tokens.tolist()}
        fields |= {"begin": text.begin, "held_out": text.held_out}
        self.path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with self.path.open("a", encoding="utf-8") as file:
            file.write(f"{json.dumps(fields)}\n")


def read_texts(path: Path) -> Iterator[str]:
    """Read a file, or the files below a folder that are texts, as `--corpus` does.

    Those of a folder come in an order without meaning, so that the first of them stand for all.
    """
    if path.is_file():
        yield path.read_text(encoding="utf-8", errors="replace")
        return
    for key in sorted(files.listing(path).keys, key=shuffled):
        yield files.text_of(key)


def kept_replies() -> Iterator[str]:
    """Read the replies that `--learn` keeps, the newest first."""
    for _, _, path in sorted(replies.replies(replies.kept_folder()), reverse=True):
        with suppress(OSError):  # it has just gone
            yield path.read_text(encoding="utf-8", errors="replace")


def shuffled(key: Key) -> bytes:
    return hashlib.sha256(os.fsencode(key[0])).digest()


def pieces(texts: Iterable[str], encode: Callable[[str], Tokens], begin: Tokens) -> Iterator[Text]:
    """Cut texts into pieces, each after the tokens that a text begins with."""
    for text in texts:
        tokens = encode(text)
        for at in range(0, len(tokens), PIECE):
            piece = tokens[at : at + PIECE]
            if len(piece) >= LEAST_PIECE:
                yield Text(np.concatenate((begin, piece)), 0, is_held_out(piece.tobytes()))
