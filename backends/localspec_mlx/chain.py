"""Continuation of texts by tokens that stay on the device, seen by the host a step late."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import NamedTuple, Protocol

import mlx.core as mx

from localspec.base.tokens import Logits
from localspec.interfaces.backend import Row
from localspec.interfaces.forward_loop import RolledRow
from localspec_mlx.host import Host
from localspec_mlx.predict import Choice, predict
from localspec_mlx.slots import CacheSlots

LOOK = 8  # tokens of a draft that are begun before it is asked for, at most


class Stepping(Protocol):
    """A model, or a drafting head, that reads on from what its slots hold."""

    slots: CacheSlots

    def run(self, rows: Sequence[Row]) -> mx.array:
        """Append rows; return the logits of the last token of each."""

    def step(self, at: Sequence[int], tokens: mx.array) -> mx.array:
        """Append a token to each slot, known or not; return its logits [slots, vocabulary]."""


class Step(NamedTuple):
    """The next token of some texts, and the logits that it was chosen by."""

    logits: mx.array  # [texts, vocabulary]
    tokens: mx.array  # [texts]


def extend(runner: Stepping, host: Host, paths: Sequence[RolledRow]) -> None:
    """Add some tokens to each path, as long as the core chooses the predicted tokens."""
    at = [path.roll.row.slot for path in paths]
    places = [path.roll.start + len(path.tokens) for path in paths]
    runner.slots.mark(at, more=any(path.tokens for path in paths))
    first = runner.run([path.row()._replace(tentative=0) for path in paths])
    starts = [runner.slots.length(slot) for slot in at]
    most = max(path.roll.depth - len(path.tokens) for path in paths)

    drawn_before = [tuple(path.tokens) for path in paths]

    def choices(newer: Sequence[mx.array]) -> list[Choice]:
        texts = enumerate(zip(paths, places, drawn_before, strict=True))
        return [
            Choice(path.roll.sampler, place + len(newer), drawn, newer, column)
            for column, (path, place, drawn) in texts
        ]

    follow(host, islice(chained(runner, host, at, first, choices), most), dict(enumerate(paths)))
    steps = runner.slots.length(at[0]) - starts[0] + 1
    for slot, path, start, place in zip(at, paths, starts, places, strict=True):
        path.steps += steps
        drawn = path.roll.start + len(path.tokens) - place
        runner.slots.truncate(slot, start + drawn - 1)


def chained(
    runner: Stepping,
    host: Host,
    at: Sequence[int],
    first: mx.array,
    choices: Callable[[Sequence[mx.array]], Sequence[Choice]],
) -> Iterator[Step]:
    """Begin one step after another, from the logits of the first; nothing waits for them.

    How tokens are chosen may depend on those of the steps before.
    """
    logits, newer = first, list[mx.array]()
    while True:
        step = Step(logits, predict(logits, choices(tuple(newer))))
        newer.append(step.tokens)
        host.start(step, runner.slots.arrays(at))
        yield step
        runner.slots.mark(at, more=True)
        logits = runner.step(at, step.tokens)


def follow(host: Host, chain: Iterable[Step], paths: Mapping[int, RolledRow]) -> None:
    """Draw as the core does for each path, by its column, while it chooses what was predicted.

    The next step is begun before one is looked at, so the device need not wait, and no more than
    one is computed in vain.
    """
    steps, live = iter(chain), dict(paths)
    step = next(steps, None)
    while step and live:
        following = next(steps, None)
        rows, tokens = host.read(step.logits), host.read(step.tokens).tolist()
        live = {at: path for at, path in live.items() if goes_on(path, rows[at], tokens[at])}
        step = following


def goes_on(path: RolledRow, logits: Logits, predicted: int) -> bool:
    """Draw a token; return whether it is the predicted one, and another is to be drawn."""
    path.draw(logits)
    return path.tokens[-1] == predicted and path.wants
