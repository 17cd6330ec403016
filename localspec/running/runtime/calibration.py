"""Measures the costs of a pair on this machine, when it is first loaded."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from localspec.core.decoding.scheduler import BLOCK
from localspec.core.sampling.filters import best_of_rows
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Head, Model, Roll, Row
from localspec.interfaces.costs import NO_ATTENTION, UNMEASURED, Attention, Batch, Costs

SECONDS = 1.0
SIZES = (1, 2, 3, 5, 8, 9, BLOCK, 17)  # tokens of a forward; the kernels of a GPU change after 8
WIDE_SIZES = (32, 64, 128, 256, 512)  # measured once or twice, as far as there is time
ALL_SIZES = (*SIZES, *WIDE_SIZES)
# What wide forwards, and the first of them, may take beside the time of the narrow ones.
WIDE_SHARE, FIRST_WIDE_SHARE = 0.4, 0.7
DEPTHS = (1, 4, 8)  # of a draft
READ_TOKENS = 32  # tokens read at once, to see what one takes
MAX_HELD, MIN_HELD = 512, 32  # tokens that a slot holds while it is measured
MIN_CONTEXT = MIN_HELD + READ_TOKENS + max(DEPTHS) + 1  # tokens that a slot needs to measure in
MIN_APART = 96  # tokens by which two contexts must differ to tell attention from the rest
FILLING_SHARE = 0.25  # the share of the time that may go into reading these
DRAFTING_SHARE = 0.5  # the time for drafts of a head or a draft model, by that for forwards
MIN_READING_SECONDS = 1e-6  # the least that a head takes for a token that it reads
MIN_SHARE = 0.25  # the least share of a forward that is not attention to so few tokens
MIN_TIMES = 2  # measurements of each size, if there is time
MAX_OVERTIME = 4  # measuring ends in any case after so many times the time there was for it
# Plain forwards of up to so many seconds are timed in a row as well: a GPU may replay what it has
# recorded of the third on, and take half as long as after a forward of another size.
QUICK_SECONDS, IN_A_ROW = 0.02, 6
# The machine was busy if a plain forward takes at most this share of its first time in the end,
# or more tokens take less than this share of the time of fewer.
CALMER, STEADY = 0.5, 0.9

TEXT = """The mill stands where the two streams meet. In spring the wheel turns day and night, and
def grind(sacks, hours): return [sack.weight / hours for sack in sacks if not sack.is_empty]"""

ONE = Batch(1)

Clock = Callable[[], float]
Points = Mapping[int, float]


@dataclass(frozen=True, slots=True)
class Calibration:
    """Seconds of the target's forwards by tokens; of drafts by depth, and of each token read.

    The target's were measured after `held` tokens; attention adds so much for each of them.
    `busy`: other programs used the processors meanwhile.
    """

    target: Points
    drafting: Mapping[str, Points] = field(default_factory=dict)
    reading: Mapping[str, float] = field(default_factory=dict)
    attention: Attention = NO_ATTENTION
    held: int = 0
    busy: bool = False

    @property
    def steady(self) -> bool:
        """Whether longer took longer throughout, one whole block apart, within some tolerance."""
        rows = (self.target, *self.drafting.values())
        return all(
            points[more] >= STEADY * points[less]
            for points in rows
            for less, more in pairwise(size for size in sorted(points) if size != BLOCK)
        )

    def in_plain_rounds(self) -> Calibration:
        """Keep only what drafting and reading take of a plain round; the rest is a guess.

        Rounds teach the rest. A draft model of which nothing is known would seem to cost nothing.
        """
        scale = UNMEASURED[1] / self.target[min(self.target)]
        drafting = {
            by: {depth: scale * seconds for depth, seconds in points.items()}
            for by, points in self.drafting.items()
        }
        reading = {by: scale * seconds for by, seconds in self.reading.items()}
        return Calibration(UNMEASURED, drafting, reading)

    def costs(self) -> Costs:
        """Return the costs to start from, attention apart."""
        row, token = self.attention
        behind_nothing = {
            size: max(seconds - self.held * (row + token * size), MIN_SHARE * seconds)
            for size, seconds in self.target.items()
        }
        return Costs(behind_nothing, self.drafting, self.reading, self.attention)


def calibrate(
    target: Model,
    draft_model: Model | None = None,
    seconds: float = SECONDS,
    clock: Clock = time.perf_counter,
) -> Calibration:
    """Measure a pair for about so many seconds; its first slots are empty afterwards.

    Where a plain forward takes much less in the end, forwards were measured while the machine was
    busy, drafts perhaps not: one would seem to cost nothing beside the other. All is measured anew.
    """
    calibration = _measure_costs(target, draft_model, seconds, clock)
    plain = CostProbe(target, clock).plain()
    target.truncate(0, 0)
    if plain < CALMER * calibration.costs().at(ONE, 1):  # after nothing, too
        return _measure_costs(target, draft_model, seconds, clock)
    return calibration


def _measure_costs(
    target: Model, draft_model: Model | None, seconds: float, clock: Clock
) -> Calibration:
    times = CostProbe(target, clock).forwards(narrow_sizes(target), seconds)
    target.truncate(0, 0)
    if target.head is not None:
        by = target.head.proposer
        drafting, reading = CostProbe(target, clock).head(target.head, seconds * DRAFTING_SHARE)
    elif draft_model is not None:
        by = "draft-model"
        drafting, reading = CostProbe(draft_model, clock).drafts(seconds * DRAFTING_SHARE)
        draft_model.truncate(0, 0)
    else:
        return Calibration(times.points, attention=times.attention, held=times.held)
    return Calibration(times.points, {by: drafting}, {by: reading}, *times[1:])


def narrow_sizes(target: Model) -> list[int]:
    """Choose the sizes of forwards that are always measured, of those that a model can verify."""
    return [size for size in SIZES if size <= min(target.tentative + 1, target.batch)]


class ForwardTimes(NamedTuple):
    """Seconds of forwards by size after `held` tokens, and what attention adds for each."""

    points: Points
    attention: Attention = NO_ATTENTION
    held: int = 0


def slopes(few: Points, many: Points, apart: int) -> Attention:
    """Compute what attention takes from two sizes, each after few tokens and after many."""
    small, large = few
    first, last = (max(many[size] - few[size], 0.0) / apart for size in (small, large))
    token = max(last - first, 0.0) / (large - small)
    return Attention(max(first - token * small, 0.0), token)


class CostProbe:
    """One model, made to work in its first slot."""

    def __init__(self, model: Model, clock: Clock) -> None:
        self._model, self._clock = model, clock
        self._held = MIN_HELD
        most = MAX_HELD + max(WIDE_SIZES)
        self._text = np.resize(model.tokenizer.encode(TEXT), most).astype(np.int32)
        self._depths = [depth for depth in DEPTHS if depth <= model.tentative]

    def forwards(self, sizes: Sequence[int], seconds: float) -> ForwardTimes:
        """Time forwards by size; what attention adds is seen from a much shorter text."""
        tasks = {size: partial(self._check, size) for size in sizes}
        self._fill(FILLING_SHARE * seconds)
        in_turns = self._measure(tasks, seconds)
        points = in_turns
        if in_turns[sizes[0]] < QUICK_SECONDS:
            points = {**in_turns, sizes[0]: min(in_turns[sizes[0]], self._plain_in_a_row())}
        points = {**points, **self._wide(points, seconds)}
        held, self._held = self._held, MIN_HELD
        if held - MIN_HELD < MIN_APART or len(sizes) < 2:
            return ForwardTimes(points)
        ends = {size: tasks[size] for size in (sizes[0], sizes[-1])}
        few = self._measure(ends, seconds * FILLING_SHARE)
        return ForwardTimes(points, slopes(few, in_turns, held - MIN_HELD), held)

    def _wide(self, narrow: Points, seconds: float) -> Points:
        """Time wide forwards twice or once, up to the first that would take too long.

        The curve goes on in a straight line from there, until it is learned from a round. Where all
        would take too long, the first is taken to be as quick for each token as the best of few.
        """
        most = min(self._model.tentative + 1, self._model.batch, self._model.context - self._held)
        start, per_token = self._clock(), min(narrow[size] / size for size in narrow)
        points: dict[int, float] = {}
        for size in WIDE_SIZES:
            share = WIDE_SHARE if points else FIRST_WIDE_SHARE
            left = start + share * seconds - self._clock()
            if size > most or per_token * size > left:
                break
            points[size] = self._time(size)
            if 2 * points[size] < left:
                points[size] = min(points[size], self._time(size))
            per_token = points[size] / size
        first = WIDE_SIZES[0]
        return points or ({first: per_token * first} if first <= most else {})

    def _time(self, size: int) -> float:
        self._go_back()
        start = self._clock()
        self._check(size)
        return self._clock() - start

    def head(self, head: Head, seconds: float) -> tuple[Points, float]:
        """Time drafts of the model's own head by depth; and of each token that it reads first."""
        tasks = {depth: partial(self._ask, head, depth) for depth in self._depths}
        self._read(0)
        times = self._measure(tasks, seconds)
        longer = min(
            READ_TOKENS, self._model.batch, self._model.context - MIN_HELD - max(DEPTHS) - 1
        )
        read = {0: partial(self._ask, head, 1, longer)}
        late = self._measure(read, seconds * FILLING_SHARE, partial(self._run_ahead, longer))[0]
        self._model.truncate(0, 0)
        return times, max((late - times[1]) / longer, MIN_READING_SECONDS)

    def _run_ahead(self, count: int) -> None:
        """Let the model read what its head has yet to read."""
        self._go_back()
        text = self._text[self._held : self._held + count]
        self._model.forward([Row(0, text, outputs=0)])

    def _ask(self, head: Head, depth: int, behind: int = 0) -> None:
        length = self._held + behind
        newest, text = Row(0, self._text[length : length + 1]), self._text[: length + 1]
        head.roll([Roll(newest, depth, Sampler(GREEDY, 0, text[:1]), length + 1, text=text)])

    def drafts(self, seconds: float) -> tuple[Points, float]:
        """Time drafts by depth; return also the seconds of each token that is read first."""
        tasks = {depth: partial(self._draft, depth, 1) for depth in self._depths}
        longer = min(READ_TOKENS, self._model.batch - 1)
        self._fill(FILLING_SHARE * seconds)
        times = self._measure({**tasks, 0: partial(self._draft, 1, 1 + longer)}, seconds)
        reading = max(times.pop(0) - times[1], 0.0) / longer
        return times, reading

    def _measure(
        self,
        tasks: Mapping[int, Callable[[], None]],
        seconds: float,
        prepare: Callable[[], None] | None = None,
    ) -> dict[int, float]:
        """Time the tasks round-robin until the budget is spent; keep the minimum of each.

        Interference only adds time.
        """
        prepare = prepare or self._go_back
        measured: dict[int, list[float]] = {size: [] for size in tasks}
        end, late = (self._clock() + seconds * times for times in (1, MAX_OVERTIME))
        while (now := self._clock()) < end or (
            len(measured[max(measured)]) < MIN_TIMES and now < late
        ):
            for size, task in tasks.items():
                prepare()
                start = self._clock()
                task()
                measured[size].append(self._clock() - start)
        return {size: min(times) for size, times in measured.items()}

    def plain(self) -> float:
        """Time plain forwards after nothing; quick ones several times."""
        self._held = 0
        first = self._time(1)
        return first if first > QUICK_SECONDS else min(first, self._plain_in_a_row())

    def _plain_in_a_row(self) -> float:
        """Time forwards of one token that follow one another, as in plain decoding."""
        return min(self._time(1) for _ in range(IN_A_ROW))

    def _fill(self, seconds: float) -> None:
        """Hold about as many tokens as a conversation: they make verifying dearer.

        Filling may take longer until attention can be told from the rest: without that, drafts
        after long prompts cost twice what they seem to.
        """
        most = min(MAX_HELD, self._model.context - 2 * READ_TOKENS)
        end, late = (self._clock() + seconds * times for times in (1, MAX_OVERTIME))
        self._read(0)
        while self._held + READ_TOKENS <= most:
            if self._clock() >= (end if self._held >= MIN_HELD + MIN_APART else late):
                break
            self._held += READ_TOKENS
            self._read(self._held - READ_TOKENS)

    def _go_back(self) -> None:
        held = self._model.truncate(0, self._held)
        if held < self._held:  # it cannot, and to read so much again takes long
            self._held = MIN_HELD
            self._read(self._model.truncate(0, MIN_HELD))

    def _read(self, held: int) -> None:
        if held < self._held:
            self._model.forward([Row(0, self._text[held : self._held], outputs=0)])

    def _check(self, size: int) -> None:
        tokens = self._text[self._held : self._held + size]
        [logits] = self._model.forward([Row(0, tokens, outputs=size, tentative=size - 1)])
        list(map(best_of_rows(logits), range(size)))

    def _draft(self, depth: int, width: int) -> None:
        end = self._held + width
        row, text = Row(0, self._text[self._held : end]), self._text[:end]
        self._model.roll([Roll(row, depth, Sampler(GREEDY, 0, text[:1]), end, text=text)])
