"""Replay files of this repository as replies that revise an earlier version of them."""

from __future__ import annotations

import random
import re
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from functools import cache

import llama_cpp
import numpy as np

from localspec.control.best import Best
from localspec.control.depth import Depth
from localspec.draft import EMPTY
from localspec.models.locate import locate
from localspec.proposer import Ask, Hints, Proposer, RoundCost
from localspec.proposers.prediction import PredictionProposer
from localspec.proposers.suffix import SuffixProposer
from localspec.sampling.parameters import GREEDY
from localspec.sampling.sampler import Sampler, SamplerParts
from localspec.tokens import NONE, History, Tokens, common_prefix, tokens_of
from simulation.hardware import CURVES, PLAIN, WIDE_CURVES
from simulation.world import Clock, SimulatedMachine

REACH = 512  # tokens of a draft
LONG = 16  # tokens of a draft that is right and long
FEWEST, MOST = 300, 4000  # tokens of a file
PROPOSERS: Mapping[str, Callable[[], Proposer]] = {
    "prediction": PredictionProposer,
    "suffix": SuffixProposer,
}
HEADING = (
    f"{'text':8}{'proposer':12}{'hardware':12}{'speed':>7}{'accepted a round':>18}"
    f"{'wrong of 1,000':>16}{'long again after':>18}"
)


@dataclass(frozen=True, slots=True)
class Revision:
    old: Tokens
    new: Tokens


@dataclass(slots=True)
class Figures:
    """Sums over replies."""

    tokens: int = 0
    rounds: int = 0
    drafted: int = 0
    accepted: int = 0
    seconds: float = 0.0
    waits: list[int] = field(default_factory=list)  # tokens after each edit until drafts are long


def main() -> None:
    """Print how drafts of revised files do, by proposer and hardware."""
    print(HEADING)
    for name, revisions in texts().items():
        for by in PROPOSERS:
            for hardware, curve in {**CURVES, **WIDE_CURVES}.items():
                figures = Figures()
                for at, revision in enumerate(revisions):
                    replay(revision, by, SimulatedMachine(curve, 0.0), at, figures)
                speed = figures.tokens * PLAIN / figures.seconds
                print(
                    f"{name:8}{by:12}{hardware:12}{speed:7.2f}"
                    f"{figures.accepted / figures.rounds:18.2f}"
                    f"{1000 * (figures.drafted - figures.accepted) / figures.tokens:16.0f}"
                    f"{np.mean(figures.waits):18.1f}",
                    flush=True,
                )


def replay(
    revision: Revision, by: str, machine: SimulatedMachine, seed: int, figures: Figures
) -> None:
    """Decode the new version under the controller; the old one is its prediction or its prompt."""
    hinted = by == "prediction"
    prompt = tokens_of([1]) if hinted else np.concatenate(([1], revision.old, [2])).astype(np.int32)
    hints = Hints(revision.old) if hinted else Hints()
    clock, new = Clock(), revision.new
    best = Best(
        {by: PROPOSERS[by]()}, Depth(machine.costs(np.random.default_rng(seed), [by])), clock
    )
    history, place = History(prompt), 0
    sampler = Sampler(GREEDY, 0, NONE, SamplerParts(shares_dice=True))
    long_drafts: list[tuple[int, int]] = []  # from where to where
    while place < len(new):
        limit, begun = min(REACH, len(new) - place - 1), clock.seen
        ask = Ask(0, history.view, limit, sampler, len(prompt), hints)
        draft = best.propose([ask])[0] if limit else EMPTY
        right = common_prefix(draft.tokens, new[place:])
        clock.spend(machine.forward(1 + len(draft)))
        best.note(RoundCost(1, 1 + len(draft), right + 1, clock.seen - begun, reads=False))
        if right >= LONG:
            long_drafts.append((place, place + right))
        history.extend(new[place : place + right + 1].tolist())
        place += right + 1
        figures.rounds += 1
        figures.drafted += len(draft)
        figures.accepted += right
    figures.tokens += len(new)
    figures.seconds += clock.true
    figures.waits += waits(revision, long_drafts)


def waits(revision: Revision, long_drafts: Sequence[tuple[int, int]]) -> Iterator[int]:
    """Yield the tokens behind each edit until a long draft, where as many are unchanged."""
    old, new = revision.old.tolist(), revision.new.tolist()
    for block in SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        begin, end = block.b, block.b + block.size
        if begin and block.size >= 3 * LONG:
            starts = (
                max(start - begin, 0) for start, stop in long_drafts if begin < stop <= end + 1
            )
            yield next(starts, block.size)


def texts() -> Mapping[str, Sequence[Revision]]:
    code, prose = files(".py", 60), files(".md", 22)
    renamed = [Revision(tokens(old), tokens(rename(old, at))) for at, (old, _) in enumerate(code)]
    return {
        "code": [Revision(tokens(old), tokens(new)) for old, new in code],
        "prose": [Revision(tokens(old), tokens(new)) for old, new in prose],
        "renames": renamed[:20],
    }


def files(suffix: str, count: int) -> list[tuple[str, str]]:
    """Choose files that were changed, each with its next version."""
    rng, seen = random.Random(1), set[str]()
    pairs: list[tuple[str, str]] = []
    commits = git("log", "--no-merges", "--format=%H", "--diff-filter=M").split()
    rng.shuffle(commits)
    for commit in commits:
        names = git("diff", "--name-only", "--diff-filter=M", f"{commit}~", commit).split()
        names = [name for name in names if name.endswith(suffix) and name not in seen]
        if not names or len(pairs) == count:
            continue
        name = rng.choice(names)
        old, new = (git("show", f"{version}:{name}") for version in (f"{commit}~", commit))
        if FEWEST <= len(tokens(new)) <= MOST and 0.5 < similarity(old, new) < 1:
            seen.add(name)
            pairs.append((old, new))
    return pairs


def similarity(old: str, new: str) -> float:
    return SequenceMatcher(None, old.split(), new.split(), autojunk=False).ratio()


def rename(text: str, seed: int) -> str:
    """Change a name wherever it stands."""
    words = re.findall(r"\b[A-Za-z_]{4,}\b", text)
    names = sorted({word for word in words if 6 <= words.count(word) <= 40})
    name = random.Random(seed).choice(names or ["import"])
    return re.sub(rf"\b{name}\b", f"renamed_{name}" if seed % 2 else "altered", text)


def git(*arguments: str) -> str:
    done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=True)
    return done.stdout


def tokens(text: str) -> Tokens:
    return tokens_of(vocabulary().tokenize(text.encode(), add_bos=False, special=False))


@cache
def vocabulary() -> llama_cpp.Llama:
    """Load the vocabulary of the starter model."""
    path = str(locate("smollm2-135m", "llamacpp").path)
    return llama_cpp.Llama(path, vocab_only=True, verbose=False)
