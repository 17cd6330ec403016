"""A text decoded under the real controller, on a clock that moves by modelled costs."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from localspec.base.tokens import NONE, Tokens, tokens_of
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.proposers.draft_while_likely import draft_of
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import MAX_HEAD_LAG
from localspec.interfaces.costs import Costs
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import Ask, RoundCost
from simulation.hardware import DRAFTING, PLAIN, READING, seconds
from simulation.texts import PlaceDraft, SimulatedText

NOISE = 0.04  # how much forwards differ in time
HICCUP, LONG = 1 / 150, 4.0  # how often one takes much longer, and how much
# Sizes that the calibration measures.
MEASURED = (1, 2, 3, 5, 9)
WIDE = (17, 33, 65, 129, 257, 513)
WRONG = 1 << 20  # a token that no text has


@dataclass(slots=True)
class Clock:
    """A clock as the controller sees it, hiccups included; and the costs on average."""

    seen: float = 0.0
    true: float = 0.0

    def __call__(self) -> float:
        return self.seen

    def spend(self, seconds: float, noise: float = 1.0) -> None:
        self.seen += seconds * noise
        self.true += seconds


@dataclass(frozen=True, slots=True)
class SimulatedMachine:
    """The costs of forwards and drafts."""

    curve: Mapping[int, float]
    drafting: float  # of a plain forward, each token, or each block

    def forward(self, tokens: int) -> float:
        return seconds(self.curve, tokens)

    def draft(self, by: str, tokens: int) -> float:
        if by not in DRAFTING:
            return 2e-5
        return self.drafting * PLAIN * (tokens if by != "block" else min(tokens, 1))

    def read(self, by: str, tokens: int) -> float:
        """Price what a draft model or head reads beside its own drafts, as a wider batch."""
        extra = self.forward(1 + tokens) - self.forward(1)
        return READING.get(by, self.drafting) * extra if by in DRAFTING else 0.0

    def costs(self, rng: np.random.Generator, proposers: Sequence[str]) -> Costs:
        """Return what a calibration would measure."""
        sizes = MEASURED + WIDE if max(self.curve) > WIDE[0] else MEASURED
        target = {size: self.forward(size) * rng.normal(1, NOISE / 2) for size in sizes}
        drafting = {by: {d: max(self.draft(by, d), 1e-6) for d in (1, 4, 8)} for by in proposers}
        reading = {by: max(self.read(by, 32) / 32, 1e-6) for by in proposers}
        return Costs(target, drafting, reading)


class KnownDrafts:
    """A proposer whose drafts for each place of a text are known."""

    def __init__(
        self, by: str, drafts: Sequence[PlaceDraft], clock: Clock, machine: SimulatedMachine
    ) -> None:
        self._by, self._drafts, self._clock, self._machine = by, drafts, clock, machine
        self.read = 1

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [self._draft(ask) for ask in asks]

    def unread(self, ask: Ask) -> int:
        return max(len(ask.history) - self.read - 1, 0)

    def _draft(self, ask: Ask) -> Draft:
        place = len(ask.history) - ask.prompt
        drafts = self._drafts[place]
        sure = drafts.confidences[: ask.limit]
        tokens = [place + at if at < drafts.right else WRONG for at in range(len(sure))]
        if self._by not in DRAFTING:
            self._clock.spend(self._machine.draft(self._by, len(sure)))
            return draft_of(zip(tokens, sure, strict=True), ask, 0.0, self._by)
        length = next((at for at in range(1, len(sure)) if not ask.pays(sure[:at])), len(sure))
        self.catch_up(len(ask.history) - 1)
        if not ask.limit:
            return EMPTY
        self.read = len(ask.history) + min(length, drafts.right)
        self._clock.spend(self._machine.draft(self._by, length))
        drafted = tokens_of(tokens[:length]) if length else NONE
        return Draft(drafted, self._by, tuple(sure[:length]))

    def catch_up(self, length: int) -> None:
        """Read what is missed of the first so many tokens."""
        self._clock.spend(self._machine.read(self._by, max(length - self.read, 0)))
        self.read = max(length, self.read)

    def release(self, slot: int) -> None:
        pass


class KnownHead:
    """A head whose drafts are known; it follows the text, some tokens late, unless it is left."""

    def __init__(self, drafts: KnownDrafts) -> None:
        self._drafts = drafts
        self._length = 1
        self._left = False

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return self._drafts.propose(asks)

    def release(self, slot: int) -> None:
        self._left = False  # it follows the next text

    def follow(self, length: int) -> None:
        """Note the length of the text; read once much of it is missed."""
        self._length = length
        if not self._left and length - self._drafts.read > MAX_HEAD_LAG:
            self._drafts.catch_up(length)

    def behind(self, slot: int) -> int | None:
        return None if self._left else max(self._length - self._drafts.read, 0)

    def catch_up(self, slots: Sequence[int]) -> None:
        self._drafts.catch_up(self._length)

    def leave(self, slot: int) -> None:
        self._left = True


@dataclass(frozen=True, slots=True)
class Run:
    """The time of each token of a text, in seconds from the first."""

    times: Sequence[float]
    rounds: Sequence[int] = ()  # the place at which each began
    first_draft: int = -1  # the place at which the first draft was verified; -1: none was

    def seconds(self, first: int = 0, last: int | None = None) -> float:
        end = self.times[(len(self.times) if last is None else last) - 1]
        return end - (self.times[first - 1] if first else 0.0)

    def later(self, place: int, rounds: int) -> int:
        """Find the place of the text so many rounds after another."""
        at = bisect_left(self.rounds, place) + rounds
        return self.rounds[at] if at < len(self.rounds) else len(self.times)


def controlled(text: SimulatedText, machine: SimulatedMachine, seed: int = 0) -> Run:
    """Let the controller decode a text that is new to it, on a machine it has measured."""
    rng, clock = np.random.default_rng(seed), Clock()
    drafts = {by: KnownDrafts(by, g, clock, machine) for by, g in text.drafts.items()}
    heads = {by: KnownHead(drafter) for by, drafter in drafts.items() if by in READING}
    best = Best({**drafts, **heads}, Depth(machine.costs(rng, list(drafts))), clock)
    history: Tokens = np.arange(-text.prompt, text.length, dtype=np.int32)
    sampler = Sampler(GREEDY, 0, history[:1])
    times: list[float] = []
    rounds, first_draft = [], -1
    while (place := len(times)) < text.length:
        rounds.append(place)
        if place in text.begins:
            best.release(0)
            for drafter in drafts.values():
                drafter.read = place + text.prompt  # what is before it is no part of it
        begun = clock.seen
        end = next((begin for begin in text.begins if begin > place), text.length)
        limit = min(text.reach, end - place - 1)
        known = history[: text.prompt + place]
        ask = Ask(0, known, limit, sampler, prompt=text.prompt)
        draft = best.propose([ask])[0] if limit else EMPTY
        if len(draft) and first_draft < 0:
            first_draft = place
        clock.spend(machine.forward(1 + len(draft)), noise(rng))
        for head in heads.values():
            head.follow(len(known))
        emitted = 1 + right(draft, place)
        best.note(RoundCost(1, 1 + len(draft), emitted, clock.seen - begun, reads=False))
        times += [clock.true] * emitted
    return Run(times, rounds, first_draft)


def right(draft: Draft, place: int) -> int:
    hits = [token == place + at for at, token in enumerate(draft.tokens.tolist())]
    return hits.index(False) if False in hits else len(hits)


def noise(rng: np.random.Generator) -> float:
    return float(np.exp(rng.normal(0, NOISE)) * (LONG if rng.random() < HICCUP else 1.0))


def fixed(text: SimulatedText, machine: SimulatedMachine, by: str, depth: int) -> Run:
    """Decode the same text with a fixed depth."""
    times: list[float] = []
    now = 0.0
    forwards = [machine.forward(1 + length) for length in range(depth + 1)]
    while (place := len(times)) < text.length:
        drafts = text.drafts[by][place]
        length = min(depth, len(drafts.confidences), text.length - place - 1)
        now += (machine.draft(by, length) if depth else 0.0) + forwards[length]
        times += [now] * (1 + min(drafts.right, length))
    return Run(times)


def oracle(text: SimulatedText, machine: SimulatedMachine) -> float:
    """Compute the seconds of an oracle, which drafts only what is right."""
    lengths = range(text.reach + 1)
    forwards = np.array([machine.forward(1 + length) for length in lengths])
    costs = {
        by: forwards + [machine.draft(by, length) if length else 0.0 for length in lengths]
        for by in text.drafts
    }
    least = np.zeros(text.length + 1)
    for place in reversed(range(text.length)):
        most = min(text.length - place - 1, text.reach)
        least[place] = min(
            (cost[: n + 1] + least[place + 1 : place + n + 2]).min()
            for by, cost in costs.items()
            for n in [min(text.drafts[by][place].right, most)]
        )
    return float(least[0])
