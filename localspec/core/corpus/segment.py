"""Tokens of many texts, with an index of their runs; written once, and mapped into memory."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from localspec.base.system.atomic_write import replacing
from localspec.base.tokens import Tokens, common_prefix

GRAM = 8  # tokens of the runs that are indexed
MAX_MATCH = 32  # most tokens that are compared
MOST_ENDS = 16  # places where a run occurred that are looked at, the last ones
BREAK = -1  # stands between two texts; no token
FORM = 0x4C530002  # of a file: begins its header, and changes with it
HEADER = 5  # numbers: the form, the bits of a bucket, the tokens, those of the table, the texts
LEAST_BITS = 4
MULTIPLIER, MIXER, MASK = 0x2C1B3C6D, 0x9E3779B1, 0xFFFFFFFF

# A text by its path, bytes and time of change; the tokens of one that is no text are empty.
Key = tuple[str, int, int]
Text = tuple[Key, Tokens]


class Segment:
    """The texts of one file, or of an array.

    Looking a run up takes one place in `starts` and one in `positions` for each place where it
    occurred, so that little of a file has to be in memory. What the file says is not trusted.
    """

    def __init__(self, array: NDArray[np.int32]) -> None:
        """Take an array of `pack`; raise a ValueError for any other."""
        if array.ndim != 1 or array.dtype != np.int32 or len(array) < HEADER:
            raise ValueError("it is no array of numbers")
        form, bits, count, table, self.texts_read = array[:HEADER].tolist()
        sizes = [HEADER, count, (1 << bits) + 1 if 0 < bits < 32 else 0, count - GRAM + 1, table]
        if form != FORM or min(sizes) < 0 or count < MAX_MATCH or sum(sizes) != len(array):
            raise ValueError("its parts are not as long as it says")
        parts = np.split(array[HEADER:], np.cumsum(sizes[1:-1]))
        self.tokens, starts, positions, self._table = parts
        self._numbers = self.tokens.data
        self._starts, self._positions = starts.data, positions.data
        self._shift = 32 - bits
        self.bytes = array.nbytes

    @property
    def size(self) -> int:
        """Count the tokens."""
        return len(self.tokens) - MAX_MATCH

    def texts(self) -> Iterator[Text]:
        """Yield the texts; none of a table that cannot be read."""
        with suppress(ValueError, TypeError, OverflowError, RecursionError):
            for path, size, changed, begin, end in json.loads(self._table.tobytes()):
                yield (str(path), int(size), int(changed)), self.tokens[int(begin) : int(end)]

    def ends(self, key: int, gram: Sequence[int]) -> list[int]:
        """Return where a run occurred last, by its key."""
        bucket = key >> self._shift
        begin, end = self._starts[bucket], self._starts[bucket + 1]
        if begin >= end:
            return []
        places = self._positions[max(begin, end - MOST_ENDS, 0) : end]
        numbers, last = self._numbers, gram[-1]
        some = [at for at in places if 0 < at <= len(numbers) and numbers[at - 1] == last]
        return [at for at in some if at >= GRAM and numbers[at - GRAM : at].tolist() == gram]

    def agreement(self, end: int, newest_first: Tokens) -> int:
        """Count how many of the newest tokens of a text stand before a place."""
        return common_prefix(self.tokens[max(end - MAX_MATCH, 0) : end][::-1], newest_first)

    def stretch(self, place: int, before: int, after: int, vocabulary: int) -> tuple[Tokens, int]:
        """Return the text around a place, as far as it goes on, and the place in it."""
        begin = max(place - before, 0)
        tokens = self.tokens[begin : place + after]
        ends = np.flatnonzero((tokens < 0) | (tokens >= vocabulary)) + begin
        at = int(ends.searchsorted(place))
        start = int(ends[at - 1]) + 1 if at else begin
        end = int(ends[at]) if at < len(ends) else begin + len(tokens)
        return self.tokens[start:end], place - start


def key_of(gram: Sequence[int]) -> int:
    """Compute the key of a run: its highest bits are its bucket."""
    key = 0
    for token in gram:
        key = (key * MULTIPLIER + token) & MASK
    return ((key ^ key >> 15) * MIXER) & MASK


def keys_of(tokens: Tokens) -> NDArray[np.uint32]:
    """Compute the keys of all runs in a text."""
    words = tokens.view(np.uint32)
    keys = np.zeros(len(tokens) - GRAM + 1, np.uint32)
    for at in range(GRAM):
        keys *= np.uint32(MULTIPLIER)
        keys += words[at : at + len(keys)]
    keys ^= keys >> np.uint32(15)
    keys *= np.uint32(MIXER)
    return keys


def pack(texts: Iterable[Text]) -> NDArray[np.int32]:
    """Index texts; 12 bytes a token, and up to three times as much memory while it does so."""
    end = np.array([BREAK], np.int32)
    parts, table, at, filled = [np.repeat(end, MAX_MATCH)], [], MAX_MATCH, 0
    for key, text in texts:
        filled += len(text) > 0
        table.append((*key, at, at + len(text)))
        parts += [text.astype(np.int32, copy=False), end]
        at += len(text) + 1
    tokens = np.concatenate(parts)
    parts.clear()
    bits = max(len(tokens).bit_length() - 1, LEAST_BITS)
    starts, positions = index_runs(tokens, bits)
    data = json.dumps(table).encode()
    data += b" " * (-len(data) % 4)
    header = [FORM, bits, len(tokens), len(data) // 4, filled]
    numbers = (np.asarray(part, np.int32) for part in (header, tokens, starts, positions))
    return np.concatenate([*numbers, np.frombuffer(data, np.int32)])


def index_runs(tokens: Tokens, bits: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """Sort where runs end by their buckets; return where each bucket begins, and the places."""
    places = (keys_of(tokens) >> np.uint32(32 - bits)).astype(np.uint64)
    places <<= np.uint64(32)
    places += np.arange(GRAM, GRAM + len(places), dtype=np.uint64)
    places.sort()  # in place, by one number each: of a bucket the last place comes last
    positions = places.astype(np.uint32).view(np.int32)
    places >>= np.uint64(32)
    counts = np.bincount(places.view(np.int64), minlength=1 << bits)
    return np.append(np.int32(0), counts.cumsum(dtype=np.int32)), positions


def write(path: Path, array: NDArray[np.int32]) -> None:
    """Write an array atomically, readable for its owner alone."""
    with replacing(path, ".part") as file:
        np.save(file, array)


def open_segment(path: Path) -> Segment | None:
    """Map a file into memory; None if there is none that can be used."""
    with suppress(OSError, ValueError, TypeError, OverflowError, RecursionError, MemoryError):
        return Segment(np.asarray(np.lib.format.open_memmap(path, mode="r")))
    return None
