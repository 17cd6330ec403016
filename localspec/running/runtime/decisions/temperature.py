"""Temperatures by which answers are as sure as they are right: fitted to right answers.

Each kind of question has its own. By one for all, the 1.5B of docs/lab/decisions.md gains nothing:
it is too unsure of choices, and too sure of levels.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from localspec.base.errors import UsageError
from localspec.running.runtime.decisions.answer import Answer
from localspec.running.runtime.decisions.question import Kind

FEWEST_LABELS = 16  # of a kind of question
COLDEST, HOTTEST = 0.1, 10.0
LEAST_LOG = -100.0  # of a probability: what an option costs at most that a model rules out
HALVINGS = 20  # of the range in which a temperature is searched for
NO_OPTION = -1e6  # the logarithm in place of one that an answer does not have

FloatArray = NDArray[np.float64]
Labelled = tuple[Answer, str]  # an answer, and the option that is right


@dataclass(frozen=True, slots=True)
class Quality:
    """How good answers are, on average.

    brier: squares of what the probabilities lack, summed over options; 0: certain and right
    log_loss: minus the logarithm of the right option's probability
    """

    answers: int
    right: int
    brier: float
    log_loss: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """A temperature of one kind of question, and what it does.

    temperature: by which the logarithms of all probabilities are divided
    labels: right answers that it was fitted to
    plain: the quality of the answers without it
    held_out: of each half of them with the temperature that fits the other
    """

    kind: Kind
    temperature: float
    labels: int
    plain: Quality
    held_out: Quality

    @property
    def helps(self) -> bool:
        """Whether answers that a temperature was not fitted to are better with it."""
        plain, other = self.plain, self.held_out
        return other.log_loss < plain.log_loss and other.brier < plain.brier


def tempered(answer: Answer, temperature: float) -> Answer:
    """Make the probabilities of an answer evener, or below 1 less even."""
    if temperature == 1:
        return answer
    logs = np.array([log(share) for share in answer.probabilities])
    shares = tuple(shares_at(logs, temperature).tolist())
    return replace(answer, probabilities=shares, temperature=temperature)


def quality(labelled: Sequence[Labelled]) -> Quality:
    """Compare answers with the right ones."""
    pairs = [(answer, place_of(answer, right)) for answer, right in labelled]
    squares = [
        math.fsum((share - (at == right)) ** 2 for at, share in enumerate(answer.probabilities))
        for answer, right in pairs
    ]
    losses = [-log(answer.probabilities[right]) for answer, right in pairs]
    hits = sum(answer.place == right for answer, right in pairs)
    count = max(len(pairs), 1)
    return Quality(len(pairs), hits, math.fsum(squares) / count, math.fsum(losses) / count)


def calibrate(labelled: Sequence[Labelled]) -> list[Calibration]:
    """Fit a temperature to each kind of question that has enough right answers."""
    if any(answer.temperature != 1 for answer, _ in labelled):
        raise UsageError("these answers have a temperature already: ask with calibrated=False")
    by_kind: dict[Kind, list[Labelled]] = defaultdict(list)
    for answer, right in labelled:
        if len(answer.options) > 1:
            by_kind[answer.kind].append((answer, right))
    require_enough({kind: len(pairs) for kind, pairs in by_kind.items()})
    enough = [kind for kind, pairs in by_kind.items() if len(pairs) >= FEWEST_LABELS]
    return [calibrate_kind(kind, by_kind[kind]) for kind in enough]


def calibrate_kind(kind: Kind, labelled: Sequence[Labelled]) -> Calibration:
    in_turn = sorted(labelled, key=lambda pair: pair[1])  # files may have yes and no in turn
    halves = in_turn[::2], in_turn[1::2]
    held_out = [
        (tempered(answer, temperature), right)
        for half, temperature in zip(halves, map(fit, halves[::-1]), strict=True)
        for answer, right in half
    ]
    qualities = quality(labelled), quality(held_out)
    return Calibration(kind, fit(labelled), len(labelled), *qualities)


def require_enough(labels: Mapping[Kind, int]) -> None:
    """Refuse right answers that are too few for each kind of question."""
    if max(labels.values(), default=0) < FEWEST_LABELS:
        counts = ", ".join(f"{kind} has {count}" for kind, count in labels.items())
        raise UsageError(
            f"a temperature needs {FEWEST_LABELS} right answers to questions of one kind, which "
            f"have two options or more; {counts or 'there are none'}"
        )


def fit(labelled: Sequence[Labelled]) -> float:
    """Return the temperature of the least log loss, where one more label was wrong.

    Without that one, answers that are right each time would become certain.
    """
    wrong = 1 / (len(labelled) + 2)
    logs = np.full((len(labelled), max(len(answer.options) for answer, _ in labelled)), NO_OPTION)
    aim = 0.0
    for row, (answer, right) in zip(logs, labelled, strict=True):
        own = row[: len(answer.options)]
        own[:] = [log(share) for share in answer.probabilities]
        aim += (1 - wrong) * own[place_of(answer, right)] + wrong * own.mean()
    coldest, hottest = COLDEST, HOTTEST
    for _ in range(HALVINGS):
        middle = math.sqrt(coldest * hottest)
        # By the slope of the log loss, which has one lowest place.
        if (shares_at(logs, middle) * logs).sum() > aim:
            coldest = middle
        else:
            hottest = middle
    return math.sqrt(coldest * hottest)


def shares_at(logs: FloatArray, temperature: float) -> FloatArray:
    """Return the probabilities of options at a temperature, of one answer or of a row for each."""
    weights = np.exp((logs - logs.max(axis=-1, keepdims=True)) / temperature)
    shares: FloatArray = weights / weights.sum(axis=-1, keepdims=True)
    return shares


def log(share: float) -> float:
    return max(math.log(share), LEAST_LOG) if share else LEAST_LOG


def place_of(answer: Answer, right: str) -> int:
    """Return the place of the right option."""
    if right not in answer.options:
        options = ", ".join(answer.options)
        raise UsageError(f"{right[:60]!r} is none of the options, which are {options:.200}")
    return answer.options.index(right)
