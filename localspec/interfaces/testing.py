"""A model small enough to reason about, and strict about the seam's promises.

Third-party proposers and tests use it in place of an engine.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from functools import cache, lru_cache
from weakref import WeakValueDictionary

import numpy as np
from numpy.typing import NDArray

from localspec.base.errors import ContextFull, UsageError
from localspec.base.tokenizer import Infill, Tokenizer
from localspec.base.tokens import Logits, Tokens, tokens_of
from localspec.interfaces.backend import Head, Roll, Row, Saved
from localspec.interfaces.draft import Draft
from localspec.interfaces.forward_loop import roll_by_forward
from localspec.interfaces.media import Kind, Medium, Run, RunName, Sight
from localspec.interfaces.media_positions import NUMBERS

VOCABULARY = 7
# From here on, numbers in a script's context are positions of pictures: twenty bits that stand for
# a picture and its piece, and ten for the position.
PICTURED, PICTURES, POSITIONS = 1 << 30, 1 << 20, 1 << 10

Script = Callable[[Sequence[int]], Logits]


@lru_cache(16)  # which tests make again and again
def hashed_logits(seed: int, sharpness: float = 1.0, vocabulary: int = VOCABULARY) -> Script:
    """Make logits that depend on the last three tokens, reproducibly."""

    @cache
    def drawn(*last: int) -> Logits:
        rng = np.random.default_rng([seed, *last])
        values: Logits = (sharpness * rng.normal(size=vocabulary)).astype(np.float32)
        values.flags.writeable = False
        return values

    def logits(context: Sequence[int]) -> Logits:
        return drawn(*context[-3:])

    return logits


def seeing_logits(seed: int, sharpness: float = 1.0, vocabulary: int = VOCABULARY) -> Script:
    """Make such logits that also depend on all pictures in the text, and on where they stand."""

    @cache
    def script(*pictures: tuple[int, int]) -> Script:
        seen = zlib.crc32(repr(pictures).encode()) if pictures else 0
        return hashed_logits(seed + seen, sharpness, vocabulary)

    def logits(context: Sequence[int]) -> Logits:
        pictures = [(at, shown) for at, shown in enumerate(context) if shown >= PICTURED]
        return script(*pictures)(context)

    return logits


class Alphabet:
    """A vocabulary of byte strings; a token without bytes is a control token."""

    def __init__(
        self, pieces: Sequence[bytes], ends: Sequence[int] = (), infill: Infill | None = None
    ) -> None:
        self.kind = "alphabet"
        self.size = len(pieces)
        self.bos: int | None = None
        self.starts = False
        self.ends = frozenset(ends)
        self.eos = min(ends, default=None)
        self.chat_template: str | None = None
        self.infill = infill
        self._pieces = list(pieces)

    def encode(self, text: str, *, special: bool = False) -> Tokens:
        """Match the longest token first; leave out what no token spells."""
        data, tokens = text.encode("utf-8", "replace"), []
        while data:
            fits = [t for t, piece in enumerate(self._pieces) if piece and data.startswith(piece)]
            best = max(fits, key=lambda t: len(self._pieces[t]), default=None)
            if best is not None:
                tokens.append(best)
            data = data[len(self._pieces[best]) if best is not None else 1 :]
        return tokens_of(tokens)

    def token_bytes(self, token: int) -> bytes:
        return self._pieces[token]

    def token_text(self, token: int) -> str:
        return self._pieces[token].decode("utf-8", "backslashreplace") or f"<{token}>"


LETTERS = Alphabet([bytes([ord("a") + at]) for at in range(VOCABULARY)])


@dataclass(frozen=True, eq=False)
class ScriptedRun:
    name: RunName
    first: int
    whole: bool
    sight: ScriptedSight

    def encoding(self) -> Future[object] | None:
        return self.sight.encoding(self.name)


class ScriptedSight:
    """Takes any file but an empty one: a token, its runs with that token between, another token."""

    kinds: frozenset[Kind] = frozenset({"image"})

    def __init__(
        self, begin: int, end: int, lengths: Sequence[int] = (3, 2), *, whole: bool = False
    ) -> None:
        self._begin, self._end = tokens_of([begin]), tokens_of([end])
        self._lengths, self._whole = lengths, whole
        self._runs: WeakValueDictionary[int, ScriptedRun] = WeakValueDictionary()

    def pieces(self, medium: Medium) -> Sequence[Tokens | Run]:
        if not medium.data:
            raise UsageError("the picture is empty")
        pieces: list[Tokens | Run] = []
        for piece, length in enumerate(self._lengths):
            pieces += [self._begin, self._run(RunName(medium.digest, piece, length))]
        return [*pieces, self._end]

    def _run(self, name: RunName) -> ScriptedRun:
        first = NUMBERS.first(name)
        run = self._runs.get(first) or ScriptedRun(name, first, self._whole, self)
        self._runs[first] = run
        return run

    def encoding(self, name: RunName) -> Future[object] | None:
        """Return what a text with this run has to wait for: nothing, unless a test says so."""
        return None

    def seen(self, tokens: Sequence[int]) -> list[int]:
        """Return the tokens of a row with what a script sees at positions of pictures."""
        seen: list[int] = []
        for at, token in enumerate(tokens):
            if token >= 0:
                seen.append(token)
                continue
            [run] = [r for r in self._runs.values() if 0 <= r.first - token < r.name.length]
            place = run.first - token
            assert place == 0 or not self._whole or at, "a row begins in the middle of a picture"
            remaining = run.name.length - place
            assert not self._whole or at + remaining <= len(tokens), "a row ends within a picture"
            seen.append(shown(run.name, place))
        return seen


def is_picture(rows: Sequence[Row]) -> bool:
    """Return whether a forward reads nothing but one run, or part of one."""
    return len(rows) == 1 and bool((rows[0].tokens < 0).all())


def shown(name: RunName, place: int) -> int:
    """Return what a script sees at a place of a run."""
    digest = zlib.crc32(name.digest + bytes([name.piece]))
    return PICTURED + digest % PICTURES * POSITIONS + place


def before_picture(held: Sequence[int], length: int) -> int:
    """Return the length; in the middle of a run, that of what comes before it."""
    inside = length < len(held) and held[length] >= PICTURED
    return length - held[length] % POSITIONS if inside else length


class ScriptedModel:
    """A model whose logits a function gives; `recurrent` makes it return to checkpoints only."""

    slots = 8
    context = 1 << 20
    pool = 1 << 30
    batch = 64
    tentative = 16
    head: Head | None = None
    sight: Sight | None = None

    def __init__(
        self,
        logits: Script,
        tokenizer: Alphabet = LETTERS,
        *,
        recurrent: bool = False,
        sight: ScriptedSight | None = None,
    ) -> None:
        self.tokenizer: Tokenizer = tokenizer
        self.sight = self._sight = sight
        self.vocabulary = tokenizer.size
        self.recurrent = recurrent
        self.forwards = 0
        self.held: dict[int, list[int]] = {}
        self._logits = logits
        self._tentative: dict[int, int] = {}

    def forward(self, rows: Sequence[Row]) -> list[Logits]:
        total = sum(len(row.tokens) for row in rows)
        assert 0 < total <= self.batch or is_picture(rows), f"{total} tokens in one forward"
        assert len({row.slot for row in rows}) == len(rows), "a slot has two rows"
        held = sum(map(len, self.held.values()))
        if held + total > self.pool:
            raise ContextFull(rows[0].slot, self.pool)
        self.forwards += 1
        return [self._append(row) for row in rows]

    def _append(self, row: Row) -> Logits:
        assert 0 <= row.slot < self.slots
        assert row.outputs <= len(row.tokens) > 0
        assert row.tentative <= self.tentative
        held = self.held.setdefault(row.slot, [])
        assert len(held) + len(row.tokens) <= self.context, f"slot {row.slot} overflows"
        first = len(held) + len(row.tokens) - row.outputs
        held.extend(self._seen(row.tokens.tolist()))
        self._tentative[row.slot] = row.tentative
        reports = [self._logits(held[: at + 1]) for at in range(first, len(held))]
        return np.array(reports, np.float32).reshape(row.outputs, self.vocabulary)

    def _seen(self, tokens: list[int]) -> list[int]:
        if min(tokens) >= 0:
            return tokens
        assert self._sight is not None, "a model without sight reads a picture"
        return self._sight.seen(tokens)

    def truncate(self, slot: int, length: int) -> int:
        held = self.held.setdefault(slot, [])
        length = before_picture(held, min(length, len(held)))
        if self.recurrent and length < len(held):
            checkpoint = len(held) - self._tentative.get(slot, 0)
            length = checkpoint if length >= checkpoint else 0
        self._tentative[slot] = max(self._tentative.get(slot, 0) - len(held) + length, 0)
        del held[length:]
        return length

    def copy(self, source: int, target: int, length: int) -> int:
        held = self.held.get(source, [])
        assert length <= len(held)
        length = before_picture(held, length)
        if self.recurrent and length != len(held):
            length = 0
        self.held[target] = held[:length]
        self._tentative[target] = 0
        return length

    def save(self, slot: int, most: int) -> Saved | None:
        data = tokens_of(self.held.get(slot, [])).view(np.uint8)
        return Saved(data, self.recurrent) if 0 < len(data) <= most else None

    def restore(self, slot: int, data: NDArray[np.uint8], length: int) -> int:
        held = data.view(np.int32).tolist()
        assert len(held) == length <= self.context
        self.held[slot] = held
        self._tentative[slot] = 0
        return length

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        return roll_by_forward(self, rolls)

    def free_head(self) -> None:
        self.head = None

    def close(self) -> None:
        self.held.clear()
