"""The search for layers that a model can leave out when it drafts for itself.

A candidate is judged by how often it agrees with its target on a text, and by the share of the
weights that it reads for a token: together they foretell tokens a second.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from localspec.apps.bench.theory import tokens_a_round
from localspec.base.tokens import Tokens, tokens_of
from localspec.core.sampling.filters import best_of_rows
from localspec.interfaces.backend import Model, Row

DEEPEST = 8  # tokens of a draft that are considered
PARTS = 10  # groups that the layers are taken out in
LEAST = 0.2  # agreement below which nothing more is taken out
TIMINGS = 5
CHOICE = 4  # groups that are tried in a step after the first: those that cost least before


@dataclass(frozen=True, slots=True)
class LayerChoice:
    """Layers that stay, and what drafting with them promises."""

    layers: tuple[int, ...]
    agreement: float  # share of tokens at which its likeliest one is the target's
    cost: float  # of a token, in those of the target: by its weights
    depth: int = 0  # at which it pays most
    speedup: float = 0.0  # by the textbook, at that depth


@dataclass(frozen=True, slots=True)
class Text:
    """A text, the target's likeliest token after each of its tokens, and its forwards' times."""

    tokens: Tokens
    likeliest: Tokens
    seconds: Mapping[int, float]  # by tokens in a forward, 1 to one more than the deepest draft

    def judge(self, layers: Sequence[int], draft: Model, cost: float) -> LayerChoice:
        agreement = float((likeliest_tokens(draft, self.tokens) == self.likeliest).mean())
        candidate = LayerChoice(tuple(layers), agreement, cost)
        forwards = {width: taken / self.seconds[1] for width, taken in self.seconds.items()}
        return promised(candidate, forwards)


def promised(candidate: LayerChoice, forwards: Mapping[int, float]) -> LayerChoice:
    """Choose the draft length that pays most; forwards take so many plain rounds, by width."""

    def speedup(depth: int) -> float:
        return tokens_a_round(candidate.agreement, depth) / (
            forwards[depth + 1] + depth * candidate.cost
        )

    depth = max(range(1, DEEPEST + 1), key=speedup)
    return LayerChoice(candidate.layers, candidate.agreement, candidate.cost, depth, speedup(depth))


def likeliest_tokens(model: Model, tokens: Tokens) -> Tokens:
    """Return the likeliest token after each token."""
    model.truncate(0, 0)
    width = min(model.tentative + 1, model.batch)
    pieces = [tokens[at : at + width] for at in range(0, len(tokens), width)]
    likeliest: list[int] = []
    for piece in pieces:
        [logits] = model.forward([Row(0, piece, len(piece))])
        likeliest += map(best_of_rows(logits), range(len(piece)))
    return tokens_of(likeliest)


def forward_seconds(model: Model, tokens: Tokens, width: int) -> float:
    """Time a forward of so many tokens after a text; the least, for interference only adds."""
    held = model.truncate(0, min(len(tokens), model.context) - width - 1)
    times = []
    for _ in range(TIMINGS):
        begun = time.perf_counter()
        model.forward([Row(0, tokens[held : held + width], 1)])
        times.append(time.perf_counter() - begun)
        model.truncate(0, held)
    return min(times)


def search(
    total: int, judge: Callable[[Sequence[int]], LayerChoice], enough: Callable[[], bool]
) -> Iterator[LayerChoice]:
    """Take out group after group, each time the one whose absence promises most; yield each step.

    The first step tries all groups; later ones those that did best alone. Ends when it is enough.
    """
    size = -(-total // PARTS)
    groups = [frozenset(range(at, min(at + size, total))) for at in range(0, total, size)]
    left, merits = frozenset(range(total)), dict.fromkeys(groups, 0.0)
    while len(groups) > 1:
        order = sorted(groups, key=lambda group: -merits[group])
        tried: dict[frozenset[int], LayerChoice] = {}
        for group in order[: CHOICE if any(merits.values()) else len(order)]:
            if enough():
                break
            tried[group] = judge(sorted(left - group))
            merits[group] = tried[group].speedup
        if not tried:
            return
        best = max(tried, key=lambda group: tried[group].speedup)
        yield tried[best]
        if tried[best].agreement < LEAST:
            return
        left, groups = left - best, [group for group in groups if group != best]
