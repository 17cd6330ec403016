"""Samplers that steer by the tokens drawn, mirostat and adaptive-p: a state goes with the text."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from localspec.core.sampling.cuts import Candidates, Floats
from localspec.core.sampling.highest import top
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.distribution import Distribution

ZIPF_TOKENS = 100  # by which mirostat 1 estimates how fast probabilities fall
PEAK, SHARPNESS, WIDTH = 5.0, 10.0, 0.3  # of adaptive-p's curve over probabilities
MIN_SLOPE = 1e-9  # of equal probabilities
MAX_SURPRISE = 1000.0  # bits


class Steering(Protocol):
    """A rule by which one number follows the text."""

    @property
    def start(self) -> float: ...

    def choose(self, candidates: Candidates, state: float) -> tuple[Distribution, Distribution]:
        """Return the distribution to draw from, and that whose probabilities `after` wants."""

    def after(self, state: float, probability: float) -> float:
        """Return the state after a token."""


@dataclass(frozen=True, slots=True)
class Mirostat:
    """Keeps the surprise of tokens near `tau` bits (Basu et al., 2021); the state is its limit."""

    version: int
    tau: float
    eta: float

    @property
    def start(self) -> float:
        return 2 * self.tau

    def choose(self, candidates: Candidates, state: float) -> tuple[Distribution, Distribution]:
        probs = candidates.probs
        if self.version == 1:
            ranked = probs[top(candidates.logits, ZIPF_TOKENS)]
            count = tokens_within(ranked, len(probs), state)
            narrowed = candidates.keep(np.sort(top(candidates.logits, count)))
        else:
            places = probs >= math.exp2(-min(max(state, 0.0), MAX_SURPRISE))
            places[probs.argmax()] = True
            narrowed = candidates.keep(places)
        drawn = narrowed.distribution
        return drawn, drawn

    def after(self, state: float, probability: float) -> float:
        return state - self.eta * (-math.log2(probability) - self.tau)


def tokens_within(ranked: Floats, size: int, limit: float) -> int:
    """Return how many tokens are within a limit, if probabilities fall as by Zipf's law.

    How fast they fall is estimated by the most likely ones.
    """
    ranked = ranked[ranked > 0].astype(np.float64)
    if len(ranked) < 2:
        return 1
    ranks = np.arange(1, len(ranked))
    ratios = np.log((ranks + 1) / ranks)
    slope = max(float(ratios @ -np.diff(np.log(ranked))) / float(ratios @ ratios), MIN_SLOPE)
    excess = slope - 1
    share = excess / -math.expm1(-excess * math.log(size)) if excess else 1 / math.log(size)
    exponent = (limit * math.log(2) + math.log(share)) / slope
    return size if exponent >= math.log(size) else max(int(math.exp(exponent)), 1)


@dataclass(frozen=True, slots=True)
class AdaptiveP:
    """Prefers tokens near a probability; the state is the mean probability of those drawn."""

    target: float
    decay: float

    @property
    def start(self) -> float:
        return self.target

    def choose(self, candidates: Candidates, state: float) -> tuple[Distribution, Distribution]:
        probs = candidates.probs.astype(np.float64)
        goal = min(max(2 * self.target - state, 0.0), 1.0)
        distance = np.abs(probs - goal) / WIDTH
        logits = PEAK - SHARPNESS * distance**2 / (1 + distance)
        logits[candidates.logits == -np.inf] = -np.inf
        return candidates._replace(logits=logits).distribution, Distribution(candidates.ids, probs)

    def after(self, state: float, probability: float) -> float:
        return (1 - self.decay) * probability + self.decay * state


def steering_of(sampling: Sampling) -> Steering | None:
    if "mirostat" in sampling.steps.cuts:
        return Mirostat(sampling.mirostat, sampling.mirostat_tau, sampling.mirostat_eta)
    if "adaptive_p" in sampling.steps.cuts:
        return AdaptiveP(sampling.adaptive_target, sampling.adaptive_decay)
    return None


class Course:
    """The state of a steering along one text, and after each token of a draft that is verified."""

    def __init__(self, steering: Steering) -> None:
        self._steering = steering
        self._states = [steering.start]  # after 0, 1, 2 and so on draft tokens
        self._measured: Distribution | None = None  # by which the newest of them goes on

    @property
    def state(self) -> float:
        """The state after the text, without any draft."""
        return self._states[0]

    def choose(self, candidates: Candidates, drafted: Sequence[int]) -> Distribution:
        """Return the target's distribution after `drafted`, of which each was asked for in turn."""
        count = len(drafted)
        if count == len(self._states):
            self._states.append(self._after(drafted[-1]))
        del self._states[count + 1 :]
        drawn, self._measured = self._steering.choose(candidates, self._states[count])
        return drawn

    def guess(self, candidates: Candidates) -> Distribution:
        """Return a distribution to draft from: the state is as it was before the draft."""
        return self._steering.choose(candidates, self.state)[0]

    def emit(self, tokens: Sequence[int]) -> None:
        """Note tokens of the text: drafted ones, the last of which may have been replaced."""
        count = len(tokens)
        if count == len(self._states):
            self._states.append(self._after(tokens[-1]))
        self._states, self._measured = [self._states[min(count, len(self._states) - 1)]], None

    def _after(self, token: int) -> float:
        """Return the state after one more token."""
        state = self._states[-1]
        probability = self._measured.prob(token) if self._measured else 0.0
        return self._steering.after(state, probability) if probability else state
