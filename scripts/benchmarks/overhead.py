"""The cost of a round besides the model: its logits are ready, so only our Python is timed."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from benchmarks.machine import heading, spread
from localspec.backend import Head, Roll, Row, Saved
from localspec.control.best import Best
from localspec.control.costs import Costs
from localspec.control.depth import Depth
from localspec.draft import Draft
from localspec.engine.engine import Engine
from localspec.engine.settings import Settings
from localspec.proposer import Ask, Proposer, RoundCost
from localspec.proposers.ngram import NgramProposer
from localspec.proposers.silent import Silent
from localspec.roll import roll_by_forward
from localspec.sampling.parameters import GREEDY, Sampling
from localspec.sampling.sampler import Sampler
from localspec.testing import Alphabet
from localspec.tokenizer import Tokenizer
from localspec.tokens import Logits, tokens_of

VOCABULARY = 151_936
PERIOD = 5  # the model says these many tokens over and over
ROUNDS = 400

CASES = (
    ("greedy", GREEDY, 150),
    ("temperature 0.8, top-p 0.95, top-k 40", Sampling(0.8, top_k=40, top_p=0.95), 1000),
    ("temperature 0.8, top-p 0.95", Sampling(0.8, top_p=0.95), 2000),
    ("temperature 0.8", Sampling(0.8), None),
    ("greedy, repetition 1.1", Sampling(repetition=1.1), None),
)
CHOOSING = ((1, 30), (16, 150))  # texts at once, and the goal


class ReadyModel:
    """A model that returns views of logits prepared beforehand; every text is a cycle."""

    slots, context, pool, batch, tentative = 1, 1 << 20, 1 << 20, 512, 4
    head: Head | None = None

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


def rounds(sampling: Sampling, proposer: Proposer) -> tuple[list[float], float]:
    """Measure the seconds of each round, and the mean tokens of a round."""
    engine = Engine(ReadyModel(), proposer, depth=4)
    prompt = tokens_of([at % PERIOD for at in range(3 * PERIOD)])
    settings = Settings(sampling=sampling, seed=1)
    chunks: list[object] = []
    engine.add(engine.prepare(prompt, settings, chunks.append))
    for _ in range(20):
        engine.step()
    chunks.clear()
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        engine.step()
        seconds.append(time.perf_counter() - start)
    [job] = engine.jobs
    return seconds, job.ledger.report().mean_accepted + 1


def main() -> bool:
    """Print the table; False if a case is over its goal."""
    print(heading())
    print(
        f"\nmicroseconds a round, vocabulary {VOCABULARY:,}, {ROUNDS} rounds, n-gram at depth 4\n"
    )
    met = True
    for name, sampling, goal in CASES:
        seconds, tokens = rounds(sampling, NgramProposer())
        within = goal is None or float(np.median(seconds)) <= goal * 1e-6
        met = met and within
        aim = "" if goal is None else f"   goal {goal:5}{'' if within else '   MISSED'}"
        print(f"{name:40} {spread(seconds)}   {tokens:.2f} tokens{aim}")
    seconds, _ = rounds(GREEDY, Silent())
    print(f"{'greedy, plain':40} {spread(seconds)}   1.00 tokens")
    print(f"{'the argmax of five rows alone':40} {spread(argmax_alone())}")
    print("\nmicroseconds a round to choose proposer and depth, drafts of four\n")
    for rows, goal in CHOOSING:
        seconds = choosing(rows)
        within = float(np.median(seconds)) <= goal * 1e-6
        met = met and within
        name = f"{rows} at once"
        print(f"{name:40} {spread(seconds)}   goal {goal:5}{'' if within else '   MISSED'}")
    return met


class HalfRight:
    """Drafts that a text counts upwards: two tokens right, two wrong."""

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [self._guess(ask.history[-1]) for ask in asks]

    def release(self, slot: int) -> None:
        pass

    def _guess(self, newest: int) -> Draft:
        tokens = tokens_of([newest + 1, newest + 2, 0, 0])
        return Draft(tokens, "half right", confidences=(0.9, 0.8, 0.7, 0.6))


def choosing(rows: int) -> list[float]:
    """Measure the seconds that `Best` takes of each round beside its proposers."""
    asking = Stopwatch(HalfRight())
    drafting = {name: {1: 1e-5, 8: 2e-5} for name in ("forced", "prediction", "suffix")}
    proposers = {name: asking if name == "suffix" else Silent() for name in drafting}
    best = Best(proposers, Depth(Costs({1: 0.02, 2: 0.022, 5: 0.024, 17: 0.03}, drafting)))
    text = np.arange(1, 3 * ROUNDS + 100, dtype=np.int32)
    sampler = Sampler(GREEDY, 0, text[:1])
    seconds = []
    for at in range(100, 3 * ROUNDS + 100, 3):
        asks = [Ask(slot, text[:at], 16, sampler, 1) for slot in range(rows)]
        asking.seconds = 0.0
        start = time.perf_counter()
        drafts = best.propose(asks)
        best.note(RoundCost(rows, rows + sum(map(len, drafts)), 3 * rows, 0.025, reads=False))
        seconds.append(time.perf_counter() - start - asking.seconds)
    return seconds[50:]


class Stopwatch:
    """Measures the time of a proposer."""

    def __init__(self, proposer: Proposer) -> None:
        self.seconds = 0.0
        self._proposer = proposer

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        start = time.perf_counter()
        drafts = self._proposer.propose(asks)
        self.seconds += time.perf_counter() - start
        return drafts

    def release(self, slot: int) -> None:
        self._proposer.release(slot)


def argmax_alone() -> list[float]:
    """Measure the least time of a greedy round at depth 4: reading 3 MB of logits once."""
    logits = ReadyModel().logits[:5]
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for row in logits:
            row.argmax()
        seconds.append(time.perf_counter() - start)
    return seconds
