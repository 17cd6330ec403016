"""Continuation of texts by tokens that stay on the device, unseen by the host."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple, Protocol

import mlx.core as mx

from localspec.base.tokens import Logits
from localspec.interfaces.backend import Row
from localspec.interfaces.forward_loop import RolledRow
from localspec_mlx.host import Host
from localspec_mlx.predict import Choice, predict
from localspec_mlx.slots import CacheSlots

LOOK = 8  # tokens that are worked out before they are looked at
# Steps after which the device is set to work, while the host lays out the steps that follow.
STARTS = (1, 4)


class Stepping(Protocol):
    """A model, or a drafting head, that reads on from what its slots hold."""

    slots: CacheSlots

    def run(self, rows: Sequence[Row]) -> mx.array:
        """Append rows; return the logits of the last token of each."""

    def step(self, at: Sequence[int], tokens: mx.array) -> mx.array:
        """Append a token to each slot, known or not; return its logits [slots, vocabulary]."""


class Chain(NamedTuple):
    """Tokens one after another, and the logits that they were chosen by: a row for each step."""

    logits: mx.array  # [steps, texts, vocabulary]
    tokens: mx.array  # [steps, texts]


def extend(runner: Stepping, host: Host, paths: Sequence[RolledRow]) -> None:
    """Add some tokens to each path, as long as the core chooses the predicted tokens."""
    at = [path.roll.row.slot for path in paths]
    runner.slots.mark(at, more=any(path.tokens for path in paths))
    first = runner.run([path.row()._replace(tentative=0) for path in paths])
    starts = [runner.slots.length(slot) for slot in at]
    steps = min(LOOK, max(path.roll.depth - len(path.tokens) for path in paths))
    chain = chained(runner, host, at, first, steps, partial(_choices, paths))
    host.finish([chain.logits, chain.tokens], runner.slots.arrays(at))
    rows, predicted = host.read(chain.logits), host.read(chain.tokens)
    for index, path in enumerate(paths):
        drawn = follow(path, rows[:, index], predicted[:, index].tolist())
        runner.slots.truncate(at[index], starts[index] + drawn - 1)


def chained(
    runner: Stepping,
    host: Host,
    at: Sequence[int],
    first: mx.array,
    steps: int,
    choices: Callable[[int], Sequence[Choice]],
) -> Chain:
    """Predict tokens by the logits of the first; nothing waits for them."""
    logits, tokens = [first], [predict(first, choices(0))]
    for step in range(1, steps):
        if step in STARTS:
            host.start([tokens[-1]])
        runner.slots.mark(at, more=True)
        logits.append(runner.step(at, tokens[-1]))
        tokens.append(predict(logits[-1], choices(step)))
    return Chain(mx.stack(logits), mx.stack(tokens))


def _choices(paths: Sequence[RolledRow], step: int) -> list[Choice]:
    return [
        Choice(sampler, path.roll.start + len(path.tokens) + step)
        for path in paths
        for sampler in (path.roll.sampler,)
    ]


def follow(path: RolledRow, rows: Logits, predicted: Sequence[int]) -> int:
    """Draw as the core does; return how many tokens were drawn."""
    for drawn, (row, token) in enumerate(zip(rows, predicted, strict=True), start=1):
        path.draw(row)
        if path.tokens[-1] != token or not path.wants:
            return drawn
    return len(predicted)
