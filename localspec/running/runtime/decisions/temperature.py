"""A temperature by which answers are as sure as they are right: fitted to right answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from localspec.base.errors import UsageError
from localspec.running.runtime.decisions.answer import Answer

FEWEST_LABELS = 20
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
    """A temperature, and what it does.

    temperature: by which the logarithms of all probabilities are divided
    labels: right answers that it was fitted to
    plain: the quality of the answers without it
    held_out: with temperatures that were fitted to the other half of the labels
    """

    temperature: float
    labels: int
    plain: Quality
    held_out: Quality


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


def calibrate(labelled: Sequence[Labelled]) -> Calibration:
    """Fit a temperature, and check on labels that it was not fitted to that it helps."""
    useful = [(answer, right) for answer, right in labelled if len(answer.options) > 1]
    require_enough(len(useful))
    if any(answer.temperature != 1 for answer, _ in useful):
        raise UsageError("these answers have a temperature already: ask with calibrated=False")
    halves = useful[::2], useful[1::2]
    held_out = [
        (tempered(answer, temperature), right)
        for half, temperature in zip(halves, map(fit, halves[::-1]), strict=True)
        for answer, right in half
    ]
    calibration = Calibration(fit(useful), len(useful), quality(useful), quality(held_out))
    plain, other = calibration.plain, calibration.held_out
    if not (other.log_loss < plain.log_loss and other.brier < plain.brier):
        raise UsageError(
            f"no temperature helps: one fitted to half of the {len(useful)} right answers makes "
            f"the Brier score of the others {other.brier:.3f} from {plain.brier:.3f}, and their "
            f"log loss {other.log_loss:.3f} from {plain.log_loss:.3f}"
        )
    return calibration


def require_enough(count: int) -> None:
    if count < FEWEST_LABELS:
        raise UsageError(f"a temperature needs {FEWEST_LABELS} right answers; there are {count}")


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
