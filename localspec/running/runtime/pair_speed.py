"""Measures how fast a pair is, and how often its drafts are right, in about a second or two.

Costs are measured for choosing depths, in whatever form that needs. This is for comparing versions
of the software, so its form stays: the same text, the same widths, beside the speed of memory.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np

from localspec.base.system.machine_load import LoadWatch, MachineLoad
from localspec.base.tokens import Tokens
from localspec.core.pairing.pair import Pair
from localspec.core.sampling.filters import best_of_rows
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Head, Model, Roll, Row

FORM = 1  # of what is measured: another one is not compared
POSITIONS, PIECE = 96, 16  # in the text, whose next token is guessed; and so many at once
LEAST_PIECES = 3
SAMPLES, LEAST_SAMPLES = 5, 3
IN_A_ROW = 3  # plain forwards, of which the fastest counts: a GPU may replay the third
DRAFTED = 4  # tokens that are checked with one more
SECONDS, MAX_SECONDS = 1.0, 4.0  # for each half, and where the least takes longer
MIN_CONTEXT = 2 * POSITIONS  # tokens

T = TypeVar("T")

TEXT = """The harbour lies on the north side of the island, where the wind is weaker. Boats that
come in the evening wait outside until the tide turns; their crews see the lamps of the market and
hear, when the sea is calm, the bell of the school.

def unload(boat, crates):
    for crate in sorted(crates, key=lambda crate: crate.weight, reverse=True):
        if crate.owner is None:
            raise ValueError(f"{crate} belongs to nobody")
        boat.move(crate, to=crate.owner.store)
    return len(crates)"""


@dataclass(frozen=True, slots=True)
class PairSpeed:
    """A measurement.

    agreed: by position of the text, whether the drafter guesses the target's choice, as "1101"
    plain: seconds of forwards of one token; none where the machine was busy
    checking: seconds of forwards that check drafts, as many
    load: of the machine meanwhile
    """

    agreed: str = ""
    plain: tuple[float, ...] = ()
    checking: tuple[float, ...] = ()
    load: MachineLoad = field(default_factory=MachineLoad)

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> PairSpeed:
        """Read what `asdict` made; raise a KeyError, TypeError or ValueError if it is none."""
        plain, checking = (tuple(map(float, record[name])) for name in ("plain", "checking"))
        agreed, load = str(record["agreed"]), MachineLoad.of_record(record["load"])
        enough = len(plain) == len(checking) and (not plain or len(plain) >= LEAST_SAMPLES)
        are_times = all(0 < seconds < math.inf for seconds in plain + checking)
        if not (enough and set(agreed) <= {"0", "1"} and are_times):
            raise ValueError("this is no measurement of a pair")
        return cls(agreed, plain, checking, load)


def measure(
    pair: Pair,
    clock: Callable[[], float] = time.perf_counter,
    watch_load: Callable[[], LoadWatch] = LoadWatch,
) -> PairSpeed:
    """Measure a pair in its first slots, which are empty afterwards."""
    text = np.resize(pair.target.tokenizer.encode(TEXT), 2 * POSITIONS).astype(np.int32)
    agreed = "".join(_in_time(guesses(pair, text), LEAST_PIECES, clock))
    for model in (pair.target, pair.draft):
        if model is not None:
            model.truncate(0, 0)
    watch = watch_load()
    times = list(_in_time(forwards(pair.target, text, clock), LEAST_SAMPLES, clock))
    load = watch.load()
    pair.target.truncate(0, 0)
    if load.crowded or len(times) < LEAST_SAMPLES:
        return PairSpeed(agreed, load=load)
    plain, checking = zip(*times, strict=True)
    return PairSpeed(agreed, plain, checking, load)


def _in_time(items: Iterable[T], least: int, clock: Callable[[], float]) -> Iterator[T]:
    """Pass on the least number of items, and more until the time is over."""
    start = clock()
    for count, item in enumerate(items, 1):
        yield item
        if clock() >= start + (SECONDS if count >= least else MAX_SECONDS):
            break


def guesses(pair: Pair, text: Tokens) -> Iterator[str]:
    """Read the text piece by piece; yield "1" where the drafter guesses the target's choice."""
    if pair.draft is not None:
        return _guesses_of_draft(pair.target, pair.draft, text)
    if pair.target.head is not None:
        return _guesses_of_head(pair.target, pair.target.head, text)
    return iter(())


def _guesses_of_draft(target: Model, draft: Model, text: Tokens) -> Iterator[str]:
    size = min(PIECE, *(min(model.tentative + 1, model.batch) for model in (target, draft)))
    for at in range(0, POSITIONS, size):
        row = Row(0, text[at : min(at + size, POSITIONS)])
        row = row._replace(outputs=len(row.tokens))
        choices, guesses = (_likeliest(model, row) for model in (target, draft))
        yield "".join("01"[pair[0] == pair[1]] for pair in zip(choices, guesses, strict=True))


def _likeliest(model: Model, row: Row) -> list[int]:
    [logits] = model.forward([row])
    return list(map(best_of_rows(logits), range(len(logits))))


def _guesses_of_head(target: Model, head: Head, text: Tokens) -> Iterator[str]:
    """Have the head guess the target's likeliest tokens; yield "1" for each right one, else "0".

    The first token is not guessed: the head needs a state to begin with.
    """
    sampler, guess = Sampler(GREEDY, 0, text[:1]), -1
    for start in range(0, POSITIONS, PIECE):
        piece = ""
        for at in range(start, min(start + PIECE, POSITIONS)):
            [logits] = target.forward([Row(0, text[at : at + 1])])
            piece += "01"[guess == int(logits[-1].argmax())]
            [draft] = head.roll([Roll(Row(0, text[at + 1 : at + 2]), 1, sampler, at + 2)])
            guess = int(draft.tokens[0]) if len(draft) else -1
        yield piece


def forwards(
    target: Model, text: Tokens, clock: Callable[[], float]
) -> Iterator[tuple[float, float]]:
    """Yield the seconds of a plain forward, and of one that checks drafts."""
    width = 1 + min(DRAFTED, target.tentative)
    held = min(PIECE, target.batch)
    target.forward([Row(0, text[:held], outputs=0)])

    def seconds(size: int) -> float:
        nonlocal held
        row = Row(0, text[held : held + size], outputs=size, tentative=size - 1)
        start = clock()
        target.forward([row])
        held += size
        return clock() - start

    for _ in range(SAMPLES):
        yield min(seconds(1) for _ in range(IN_A_ROW)), seconds(width)
