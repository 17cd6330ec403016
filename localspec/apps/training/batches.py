"""Recorded texts in batches, in an order that depends on a seed alone."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from localspec.apps.training.head import Texts
from localspec.apps.training.record import Shard, shards

DRAFTED = 8192  # tokens that a head can draft, at most
LEAST = 3  # tokens of a text, the third of which can be drafted


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The tokens that a head can draft."""

    tokens: NDArray[np.int64]  # rising
    numbers: NDArray[np.int64]  # of all tokens among these; -1: not among them

    @classmethod
    def numbered(cls, tokens: NDArray[np.int64], size: int) -> Vocabulary:
        numbers = np.full(size, -1)
        numbers[tokens] = np.arange(len(tokens))
        return cls(tokens, numbers)


def likeliest_tokens(folder: Path, size: int) -> NDArray[np.int64]:
    """Choose the tokens that a target is likeliest to write."""
    counts = np.zeros(size)
    for path in shards(folder):
        shard = Shard.load(path)
        chances = shard.chances.ravel().astype(np.float32)
        counts += np.bincount(shard.likeliest.ravel(), chances, size)
    chosen = np.argsort(-counts, kind="stable")[:DRAFTED]
    return np.sort(chosen[counts[chosen] > 0]).astype(np.int64)


class Reader:
    """Makes batches of the texts in a folder."""

    def __init__(self, folder: Path, vocabulary: Vocabulary, device: torch.device) -> None:
        self._folder, self._vocabulary, self._device = folder, vocabulary, device
        self._embeddings = np.load(folder / "embeddings.npy", mmap_mode="r")

    def epoch(self, number: int, most: int) -> Iterator[Texts]:
        """Yield all texts that are learned from, in batches of at most `most` tokens."""
        random = np.random.default_rng([number])
        paths = shards(self._folder)
        for at in random.permutation(len(paths)):
            shard = Shard.load(paths[at])
            learned = np.flatnonzero(~shard.held_out & drafts(shard))
            groups = of_similar_lengths(shard, random.permutation(learned), most)
            for group in random.permutation(len(groups)):
                yield self._texts(shard, groups[group])

    def held_out(self, tokens: int, most: int) -> Iterator[Texts]:
        """Yield the first texts that are held out, until they have so many tokens."""
        for path in shards(self._folder):
            shard = Shard.load(path)
            numbers = np.flatnonzero(shard.held_out & drafts(shard))
            for group in of_similar_lengths(shard, numbers, most):
                yield self._texts(shard, group)
                tokens -= int(shard.lengths[group].sum())
                if tokens <= 0:
                    return

    def mean_squares(self) -> Tensor:
        """Return the mean square of each number of the states, in the first shard."""
        squares = np.square(Shard.load(shards(self._folder)[0]).states.astype(np.float32))
        return torch.from_numpy(squares.mean(axis=0))

    def _texts(self, shard: Shard, numbers: NDArray[np.int64]) -> Texts:
        starts = np.cumsum(shard.lengths) - shard.lengths
        lengths = shard.lengths[numbers]
        places = np.arange(lengths.max())
        inside = places < lengths[:, None]
        rows = np.where(inside, starts[numbers][:, None] + places, starts[numbers][:, None])
        candidates = self._vocabulary.numbers[shard.likeliest[rows]]
        chances = np.where(candidates >= 0, shard.chances[rows], 0).astype(np.float32)
        tokens = shard.tokens[rows]
        following = np.concatenate((tokens[:, 1:], np.full((len(tokens), 1), -1)), axis=1)
        arrays = (
            self._embeddings[tokens].astype(np.float32),
            shard.states[rows].astype(np.float32),
            candidates.clip(min=0),
            chances,
            shard.likeliest[rows][..., 0] == following,
            candidates[..., 0] >= 0,
            lengths,
            shard.begins[numbers],
        )
        return Texts(*(torch.from_numpy(array).to(self._device) for array in arrays))


def drafts(shard: Shard) -> NDArray[np.bool_]:
    """Return which texts have anything to draft."""
    return (shard.lengths >= LEAST) & (shard.begins < shard.lengths)


def of_similar_lengths(
    shard: Shard, numbers: NDArray[np.int64], most: int
) -> Sequence[NDArray[np.int64]]:
    """Divide texts into groups that have at most so many tokens when filled up, or one text."""
    groups = list[list[int]]()
    for number in numbers[np.argsort(-shard.lengths[numbers], kind="stable")].tolist():
        fits = groups and (len(groups[-1]) + 1) * shard.lengths[groups[-1][0]] <= most
        if fits:
            groups[-1].append(number)
        else:
            groups.append([number])
    return [np.array(group) for group in groups]
