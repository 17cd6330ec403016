"""Continuation of texts by tokens that stay on the device, unseen by the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import mlx.core as mx

from localspec.backend import Row
from localspec.roll import RolledRow, lane
from localspec.tokens import Logits
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


def extend(runner: Stepping, host: Host, paths: Sequence[RolledRow]) -> None:
    """Add some tokens to each path, as long as the core chooses the predicted tokens."""
    at = [path.roll.row.slot for path in paths]
    starts, logits, tokens = _predicted(runner, host, paths)
    host.finish([logits, tokens], runner.slots.arrays(at))
    rows, predicted = host.read(logits), host.read(tokens)
    for index, path in enumerate(paths):
        drawn = _follow(path, rows[:, index], predicted[:, index].tolist())
        runner.slots.truncate(at[index], starts[index] + drawn - 1)


def _predicted(
    runner: Stepping, host: Host, paths: Sequence[RolledRow]
) -> tuple[list[int], mx.array, mx.array]:
    """Predict tokens; return slot lengths before them, logits and tokens, a row for each step."""
    at = [path.roll.row.slot for path in paths]
    begun = any(path.tokens for path in paths)
    runner.slots.mark(at, more=begun)
    logits = [runner.run([path.row()._replace(tentative=0) for path in paths])]
    starts = [runner.slots.length(slot) for slot in at]
    steps = min(LOOK, max(path.roll.depth - len(path.tokens) for path in paths))
    tokens = [predict(logits[0], _choices(paths, 0))]
    for step in range(1, steps):
        if step in STARTS:
            host.start([tokens[-1]])
        runner.slots.mark(at, more=True)
        logits.append(runner.step(at, tokens[-1]))
        tokens.append(predict(logits[-1], _choices(paths, step)))
    return starts, mx.stack(logits), mx.stack(tokens)


def _choices(paths: Sequence[RolledRow], step: int) -> list[Choice]:
    return [
        Choice(sampler, path.roll.start + len(path.tokens) + step, lane(sampler))
        for path in paths
        for sampler in (path.roll.sampler,)
    ]


def _follow(path: RolledRow, rows: Logits, predicted: Sequence[int]) -> int:
    """Draw as the core does; return how many tokens were drawn."""
    for drawn, (row, token) in enumerate(zip(rows, predicted, strict=True), start=1):
        path.draw(row)
        if path.tokens[-1] != token or not path.wants:
            return drawn
    return len(predicted)
