"""The heads that are compared: small ones that were trained, larger ones with random weights."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.drafting import files, trained
from benchmarks.drafting.asking import Prompt
from benchmarks.drafting.writer import VOCABULARY

DEPTH, BLOCK_DEPTH = 3, 5


@dataclass(frozen=True, slots=True)
class HeadCase:
    """A head, the depth that both sides draft to, and prompts by a seed."""

    proposer: str
    write: Callable[[Path], tuple[Path, Path]]
    prompts: Callable[[int], Iterator[Prompt]]
    depth: int = DEPTH


def tokens(seed: int) -> Iterator[Prompt]:
    """Yield prompts of 16 to 64 random tokens."""
    rng = np.random.default_rng(seed)
    while True:
        yield rng.integers(2, VOCABULARY, rng.integers(16, 65)).tolist()


def trained_case(kind: str, depth: int = DEPTH) -> HeadCase:
    return HeadCase(kind.split()[0], partial(trained.write, kind), trained.stories, depth)


def random_case(kind: str, proposer: str) -> HeadCase:
    return HeadCase(proposer, partial(files.write, kind), tokens)


CASES = {
    "mtp, trained": trained_case("mtp"),
    "mtp chain, trained": trained_case("mtp chain"),
    "eagle3, trained": trained_case("eagle3"),
    "dflash, trained": trained_case("dflash", BLOCK_DEPTH),
    "mtp, random": random_case("mtp", "mtp"),
    "assistant, random": random_case("assistant", "mtp"),
    "eagle3, random": random_case("eagle3", "eagle3"),
}
