"""What a round costs besides the model: its logits are ready, so only our Python is timed."""

from __future__ import annotations

import time
from collections.abc import Sequence

import numpy as np

from benchmarks.machine import heading, spread
from localspec.backend import Roll, Row
from localspec.draft import Draft
from localspec.engine import Engine
from localspec.proposer import Proposer
from localspec.proposers.ngram import NgramProposer
from localspec.proposers.silent import Silent
from localspec.roll import roll_by_forward
from localspec.sampling import GREEDY, Sampling
from localspec.settings import Settings
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


class ReadyModel:
    """Returns views of logits prepared beforehand, in which every text goes round in a circle."""

    slots, context, batch, tentative = 1, 1 << 20, 512, 4

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

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        return roll_by_forward(self, rolls)

    def close(self) -> None:
        pass


def rounds(sampling: Sampling, proposer: Proposer) -> tuple[list[float], float]:
    """Seconds of each round, and the tokens a round gave on average."""
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
    return met


def argmax_alone() -> list[float]:
    """What no greedy round at depth 4 can be quicker than: reading 3 MB of logits once."""
    logits = ReadyModel().logits[:5]
    seconds = []
    for _ in range(ROUNDS):
        start = time.perf_counter()
        for row in logits:
            row.argmax()
        seconds.append(time.perf_counter() - start)
    return seconds
