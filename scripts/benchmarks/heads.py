"""LocalSpec beside llama-server with the same drafting head, depth, threads and prompts.

`scripts/bench heads` prints a table for small heads that were trained and for larger ones with
random weights (`drafting`). All servers run; they are asked in turns, group by group.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np

from benchmarks.comparison import llama_server
from benchmarks.comparison.plan import rotated
from benchmarks.comparison.sides import Side, Starter
from benchmarks.drafting.asking import HeadVolley, volley
from benchmarks.drafting.cases import CASES, HeadCase
from benchmarks.machine import heading
from localspec_llamacpp.loading import physical_cores

THEIRS, THEIRS_PLAIN = "llama-server", "its plain"
SAME, OWN, PLAIN = "same depth", "own depth", "plain"
CONTEXT = 1024
GROUPS = {1: 8, 4: 3}  # in a round, by streams
HEADING = (
    f"{'head':22}{'depth':>5}{'streams':>8}  {'side':14}{'tokens/s':>9}{'ratio':>7}  "
    f"{'of rounds':14}{'drafted':>8}{'accepted':>9}{'same':>6}"
)


def main() -> bool:
    """Measure and print; the goal is the reader's to judge."""
    given = arguments(sys.argv[2:])
    binary = llama_server.find(given.llama_server)
    print(heading())
    print(f"peer       {llama_server.told_version(binary)}")
    print(f"load       {os.getloadavg()[0]:.1f} when it began\n\n{HEADING}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in given.heads:
            target, head = CASES[name].write(Path(folder))
            starter = Starter(target, binary, given.threads, Path(folder))
            for streams in given.streams:
                found = measured(CASES[name], head, starter, streams, given)
                print(*lines(name, CASES[name].depth, streams, found), sep="\n", flush=True)
    return True


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench heads", description=__doc__)
    add = parser.add_argument
    add("heads", nargs="*", default=list(CASES), metavar="HEAD", help=", ".join(CASES))
    add("--streams", type=int, nargs="+", default=list(GROUPS), choices=list(GROUPS))
    add("--rounds", type=int, default=3, help="each with prompts of its own")
    add("--threads", type=int, default=physical_cores(), help="of each server")
    add("--max-tokens", type=int, default=64, help="of a reply")
    add("--llama-server", type=Path, help="a binary that is there already")
    given = parser.parse_args(words)
    if strange := set(given.heads) - CASES.keys():
        parser.error(f"there is no head {strange.pop()!r}; known: {', '.join(CASES)}")
    return given


def sides(case: HeadCase, head: Path, target: Path) -> list[Side]:
    """List llama-server and LocalSpec, with the head to a depth and without; ours by its own."""
    depth = str(case.depth)
    drafts = ("--spec-type", f"draft-{case.proposer}", "--spec-draft-n-max", depth)
    exact = ("--spec-draft-p-min", "0", *beside("--model-draft", head, target))
    ours = (*beside("--draft", head, target), "--proposer", case.proposer)
    return [
        Side(THEIRS, "llama-server", (*drafts, *exact)),
        Side(SAME, "localspec", (*ours, "--depth", depth)),
        Side(OWN, "localspec", ours),
        Side(THEIRS_PLAIN, "llama-server"),
        Side(PLAIN, "localspec", ("--proposer", "none")),
    ]


def beside(option: str, head: Path, target: Path) -> tuple[str, ...]:
    """Name a head by an option, unless it is inside its target."""
    return () if head == target else (option, str(head))


def measured(
    case: HeadCase, head: Path, starter: Starter, streams: int, given: argparse.Namespace
) -> dict[str, list[list[HeadVolley]]]:
    """Ask all sides the same in turns; return the volleys of each by rounds."""
    known = sides(case, head, starter.model)
    found: dict[str, list[list[HeadVolley]]] = {side.name: [] for side in known}
    with ExitStack() as stack:
        servers = {
            side.name: stack.enter_context(starter.start(side, streams, CONTEXT)) for side in known
        }
        for number in range(given.rounds + 1):  # the first one warms all up
            prompts = case.prompts(number)
            for side in known:
                found[side.name].append([])
            for at in range(GROUPS[streams]):
                group = [next(prompts) for _ in range(streams)]
                for side in rotated(known, number + at):
                    address = servers[side.name].address
                    found[side.name][-1].append(volley(address, group, given.max_tokens))
    return {name: rounds[1:] for name, rounds in found.items()}


def lines(
    name: str, depth: int, streams: int, found: dict[str, list[list[HeadVolley]]]
) -> list[str]:
    first = next(iter(found.values()))
    usual = [speed(group) for group in first]
    told = []
    for side, rounds in found.items():
        speeds = [speed(group) for group in rounds]
        ratios = [mine / theirs for mine, theirs in zip(speeds, usual, strict=True)]
        volleys = [each for group in rounds for each in group]
        texts = [text for each in volleys for text in each.texts]
        theirs = [text for group in first for each in group for text in each.texts]
        same = sum(a == b for a, b in zip(texts, theirs, strict=True)) / len(texts)
        of_rounds = " ".join(f"{ratio:.2f}" for ratio in ratios)
        told.append(
            f"{name:22}{depth:>5}{streams:>8}  {side:14}{np.median(speeds):9.1f}"
            f"{np.median(ratios):7.2f}  {of_rounds:14}{sum(v.drafted for v in volleys):8,}"
            f"{sum(v.accepted for v in volleys):9,}{same:6.0%}"
        )
    return told


def speed(volleys: Sequence[HeadVolley]) -> float:
    return sum(each.tokens for each in volleys) / sum(each.seconds for each in volleys)
