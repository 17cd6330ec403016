"""What a target computes at each token of some texts, kept on disk in shards.

shard-00000.npz   tokens, states, likeliest, chances, one row a token; lengths, begins, held_out
embeddings.npy, outputs.npy, norm.npy   rows of the target that a head begins with
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, fields
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from localspec.apps.training.support import layers_read, open_target
from localspec.base.tokens import Logits, Tokens
from localspec.interfaces.observed_model import ObservedModel
from localspec.running.models import trial
from localspec.running.models.locate import ModelFiles

Halves = NDArray[np.float16]
SHARD_BYTES = 64 << 20
CANDIDATES = 32  # tokens whose chances are kept
ROWS = 4096  # of a matrix that are unpacked at once
LARGEST = 65_504  # of a number in 16 bits


@dataclass(frozen=True, slots=True)
class Text:
    """A text to learn from, and the first token in it that the target wrote."""

    tokens: Tokens
    begin: int = 0
    held_out: bool = False  # it is judged by, and not learned from


class Rows(NamedTuple):
    """Hold the states and candidates that a head learns from, a row for each token."""

    states: Halves
    likeliest: Tokens  # the target's next tokens, the likeliest first
    chances: Halves  # of those


@dataclass(frozen=True, slots=True)
class Shard:
    """Texts one after the other, with a row for each of their tokens."""

    tokens: Tokens
    states: Halves
    likeliest: Tokens
    chances: Halves
    lengths: NDArray[np.int64]
    begins: NDArray[np.int64]
    held_out: NDArray[np.bool_]

    @classmethod
    def load(cls, path: Path) -> Shard:
        with np.load(path) as arrays:
            return cls(**{field.name: arrays[field.name] for field in fields(cls)})

    def save(self, path: Path) -> None:
        unfinished = path.with_name(f"{path.name}.part")
        with unfinished.open("wb") as file:
            np.savez(file, **{field.name: getattr(self, field.name) for field in fields(self)})
        unfinished.replace(path)


def shards(folder: Path) -> list[Path]:
    return sorted(folder.glob("shard-*.npz"))


def recorded_texts(folder: Path) -> int:
    return sum(len(lengths) for lengths in _lengths(folder))


def recorded_tokens(folder: Path) -> int:
    return sum(int(lengths.sum()) for lengths in _lengths(folder))


def _lengths(folder: Path) -> Iterator[NDArray[np.int64]]:
    for path in shards(folder):
        with np.load(path) as arrays:
            yield arrays["lengths"]


def record(
    files: ModelFiles,
    texts: Sequence[Text],
    folder: Path,
    between: Callable[[], None],
    most_bytes: int,
) -> Generator[int, None, None]:
    """Record texts after those that are recorded; yield how many tokens there are in all.

    The texts are those of earlier calls in the same order, and more. It ends when all are recorded,
    or when another shard would take more than `most_bytes` in all.
    """
    new, tokens = texts[recorded_texts(folder) :], recorded_tokens(folder)
    if not new:
        return
    folder.mkdir(parents=True, exist_ok=True)
    layers = layers_read(trial.footprint(files.path, files.engine.name).layers)
    with closing(open_target(files, layers, max(len(text.tokens) for text in new))) as target:
        keep_matrices(target, folder)
        left = most_bytes - sum(path.stat().st_size for path in shards(folder))
        size = row_bytes(target)
        for group in groups(new, SHARD_BYTES // size):
            left -= size * sum(len(text.tokens) for text in group)
            if left < 0:
                return
            read = list[Rows]()
            try:
                for text in group:
                    between()
                    read.append(read_text(target, text.tokens))
                    tokens += len(text.tokens)
                    yield tokens
            finally:  # a reading that is ended keeps what it has
                if read:
                    rows = shard(group[: len(read)], concatenate(read))
                    rows.save(folder / f"shard-{len(shards(folder)):05}.npz")


def row_bytes(target: ObservedModel) -> int:
    return 4 + 2 * 3 * target.width + 6 * min(CANDIDATES, target.vocabulary)


def groups(texts: Sequence[Text], most: int) -> Iterator[list[Text]]:
    """Divide texts into groups of at most so many tokens, or of one text."""
    group, held = list[Text](), 0
    for text in texts:
        if group and held + len(text.tokens) > most:
            yield group
            group, held = [], 0
        group.append(text)
        held += len(text.tokens)
    yield group


def read_text(target: ObservedModel, tokens: Tokens) -> Rows:
    """Read a text; keep what a head learns from."""
    rows = [
        Rows(np.clip(states, -LARGEST, LARGEST).astype(np.float16), *candidates(logits))
        for states, logits in target.read(tokens)
    ]
    return concatenate(rows)


def concatenate(rows: Sequence[Rows]) -> Rows:
    return Rows(
        np.concatenate([piece.states for piece in rows]),
        np.concatenate([piece.likeliest for piece in rows]),
        np.concatenate([piece.chances for piece in rows]),
    )


def candidates(logits: Logits) -> tuple[Tokens, Halves]:
    """Find the likeliest tokens of each row, and their chances among all tokens."""
    count = min(CANDIDATES, logits.shape[1])
    some = np.argpartition(logits, -count, axis=1)[:, -count:]
    order = np.argsort(-np.take_along_axis(logits, some, axis=1), axis=1, kind="stable")
    places = np.take_along_axis(some, order, axis=1)
    least = logits - np.take_along_axis(logits, places[:, :1], axis=1)
    chances = np.exp(np.take_along_axis(least, places, axis=1))
    chances /= np.exp(least).sum(axis=1, keepdims=True)
    return places.astype(np.int32), chances.astype(np.float16)


def shard(texts: Sequence[Text], rows: Rows) -> Shard:
    return Shard(
        np.concatenate([text.tokens for text in texts]),
        rows.states,
        rows.likeliest,
        rows.chances,
        np.array([len(text.tokens) for text in texts]),
        np.array([text.begin for text in texts]),
        np.array([text.held_out for text in texts]),
    )


def keep_matrices(target: ObservedModel, folder: Path) -> None:
    """Keep the target's embeddings and output matrix, unless they are there."""
    for name, rows in (("embeddings", target.embeddings), ("outputs", target.outputs)):
        path = folder / f"{name}.npy"
        if not path.exists():
            unfinished = path.with_suffix(".part")
            shape = (target.vocabulary, target.width)
            matrix = np.lib.format.open_memmap(unfinished, "w+", np.float16, shape)
            for at in range(0, target.vocabulary, ROWS):
                end = min(at + ROWS, target.vocabulary)
                matrix[at:end] = rows(np.arange(at, end, dtype=np.int32))
            matrix.flush()
            unfinished.replace(path)
    np.save(folder / "norm.npy", target.last_norm())
