"""The cost of a round besides the model: its logits are ready, so only our Python is timed."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from localspec.base.tokenizer import Tokenizer
from localspec.base.tokens import Logits, tokens_of
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Head, Roll, Row, Saved
from localspec.interfaces.costs import Costs
from localspec.interfaces.draft import Draft
from localspec.interfaces.forward_loop import RolledRow, roll_by_forward
from localspec.interfaces.media import Sight
from localspec.interfaces.proposer import Ask, Proposer, RoundCost
from localspec.interfaces.testing import Alphabet

VOCABULARY = 151_936
PERIOD = 5  # the model says these many tokens over and over
ROUNDS = 400
WARM_UP_ROUNDS = 20

SAMPLINGS = (  # with the goal in microseconds
    ("greedy", GREEDY, 150),
    ("temperature 0.8, top-p 0.95, top-k 40", Sampling(0.8, top_k=40, top_p=0.95), 1000),
    ("temperature 0.8, top-p 0.95", Sampling(0.8, top_p=0.95), 2000),
    ("temperature 0.8", Sampling(0.8), None),
    ("greedy, repetition 1.1", Sampling(repetition=1.1), None),
)
DRAFT_GOAL = 100
CONTROLLERS = ((1, 30), (16, 150))  # texts at once, and the goal

Timing = tuple[str, Sequence[float], int | None]  # name, seconds of each round, goal


class ReadyModel:
    """A model that returns views of logits prepared beforehand; every text is a cycle."""

    slots, context, pool, batch, tentative = 1, 1 << 20, 1 << 20, 512, 4
    head: Head | None = None
    sight: Sight | None = None

    def __init__(self) -> None:
        self.tokenizer: Tokenizer = Alphabet([b"word "] * VOCABULARY)
        self.vocabulary = VOCABULARY
        self._held = 0
        rng = np.random.default_rng(0)
        circle = PERIOD + self.tentative + 1
        self.logits = rng.normal(0, 2, (circle, VOCABULARY)).astype(np.float32)
        for at in range(circle):
            near = rng.integers(0, VOCABULARY, 30)
            self.logits[at, near] = np.linspace(8, 14, 30)
            self.logits[at, (at + 1) % PERIOD] = 24

    def forward(self, rows: Sequence[Row]) -> list[Logits]:
        [row] = rows
        self._held += len(row.tokens)
        first = (self._held - row.outputs) % PERIOD
        return [self.logits[first : first + row.outputs]]

    def truncate(self, slot: int, length: int) -> int:
        self._held = min(self._held, length)
        return self._held

    def copy(self, source: int, target: int, length: int) -> int:
        return 0

    def save(self, slot: int, most: int) -> Saved | None:
        return None

    def restore(self, slot: int, data: NDArray[np.uint8], length: int) -> int:
        return self.truncate(slot, 0)

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        return roll_by_forward(self, rolls)

    def free_head(self) -> None:
        pass

    def close(self) -> None:
        pass


def timings() -> Iterator[Timing]:
    """Time rounds with n-gram drafts of four, plain rounds, and the controller alone."""
    for name, sampling, goal in SAMPLINGS:
        yield name, round_seconds(sampling, NgramProposer()), goal
    yield "greedy, plain", round_seconds(GREEDY, Silent()), None
    yield "the argmax of five rows alone", argmax_seconds(), None
    for name, sampling, _ in SAMPLINGS:
        yield f"a drafted token, {name}", drafting_seconds(sampling), DRAFT_GOAL
    for texts, goal in CONTROLLERS:
        yield f"controller, {texts} at once", controller_seconds(texts), goal


def round_seconds(sampling: Sampling, proposer: Proposer) -> list[float]:
    engine = Engine(ReadyModel(), proposer, depth=4)
    prompt = tokens_of([at % PERIOD for at in range(3 * PERIOD)])
    settings = Settings(sampling=sampling, seed=1)
    engine.add(engine.prepare(prompt, settings, lambda _: None))
    return [seconds_of(engine) for _ in range(WARM_UP_ROUNDS + ROUNDS)][WARM_UP_ROUNDS:]


def seconds_of(engine: Engine) -> float:
    begun = time.perf_counter()
    engine.step()
    return time.perf_counter() - begun


def drafting_seconds(sampling: Sampling) -> list[float]:
    """Time a token of a draft model's."""
    model, prompt = ReadyModel(), tokens_of([0])
    roll = Roll(Row(0, prompt), ROUNDS, Sampler(sampling, 1, prompt), 1)
    path, seconds = RolledRow(roll), list[float]()
    for _ in range(WARM_UP_ROUNDS + ROUNDS):
        [[logits]] = model.forward([path.row()])
        begun = time.perf_counter()
        path.draw(logits)
        seconds.append(time.perf_counter() - begun)
    return seconds[WARM_UP_ROUNDS:]


def argmax_seconds() -> list[float]:
    """Time what a greedy round at depth 4 cannot do without: reading 3 MB of logits once."""
    logits, seconds = ReadyModel().logits[:5], []
    for _ in range(ROUNDS):
        begun = time.perf_counter()
        for row in logits:
            row.argmax()
        seconds.append(time.perf_counter() - begun)
    return seconds


class ReadyDraft:
    """Proposes the same draft to all texts, in no time."""

    draft = Draft(tokens_of([]), "")

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [self.draft] * len(asks)

    def release(self, slot: int) -> None:
        pass


def controller_seconds(texts: int) -> list[float]:
    """Time the choice of proposer and depth on texts that count upwards.

    Of each draft two tokens are right and two are wrong.
    """
    ready = ReadyDraft()
    drafting = {name: {1: 1e-5, 8: 2e-5} for name in ("forced", "prediction", "suffix")}
    proposers = {name: ready if name == "suffix" else Silent() for name in drafting}
    best = Best(proposers, Depth(Costs({1: 0.02, 2: 0.022, 5: 0.024, 17: 0.03}, drafting)))
    history = np.arange(1, 3 * ROUNDS + 100, dtype=np.int32)
    sampler = Sampler(GREEDY, 0, history[:1])
    seconds = []
    for at in range(100, 3 * ROUNDS + 100, 3):
        asks = [Ask(slot, history[:at], 16, sampler, 1) for slot in range(texts)]
        guess = tokens_of([at + 1, at + 2, 0, 0])
        ready.draft = Draft(guess, "half right", confidences=(0.9, 0.8, 0.7, 0.6))
        begun = time.perf_counter()
        drafts = best.propose(asks)
        drafted = sum(map(len, drafts))
        best.note(RoundCost(texts, texts + drafted, 3 * texts, 0.025, reads=False))
        seconds.append(time.perf_counter() - begun)
    return seconds[WARM_UP_ROUNDS:]
