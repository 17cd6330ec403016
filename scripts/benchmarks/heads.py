"""LocalSpec beside llama-server with the same drafting head, depth, threads and prompts.

`scripts/bench heads` prints a table for small heads that were trained and for larger ones with
random weights (`drafting`). All servers run; they are asked in turns, group by group.
"""

from __future__ import annotations

import argparse
import os
import signal
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
GROUPS = {1: 24, 4: 10}  # of prompts that are asked at once, by streams
WARM_UP = 2  # groups
HEADING = (
    f"{'head':22}{'depth':>5}{'streams':>8}  {'side':14}{'tokens/s':>9}{'ratio':>7}  "
    f"{'quartiles':12}{'drafted':>8}{'accepted':>9}{'same':>6}"
)


def main() -> bool:
    """Measure and print; the goal is the reader's to judge."""
    options = arguments(sys.argv[2:])
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the servers end as well
    binary = llama_server.find(options.llama_server)
    print(heading())
    print(f"peer       {llama_server.told_version(binary)}")
    print(f"load       {os.getloadavg()[0]:.1f} when it began\n\n{HEADING}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        for name in options.heads:
            target, head = CASES[name].write(Path(folder))
            starter = Starter(target, binary, options.threads, Path(folder))
            for streams in options.streams:
                volleys_by_side = measured(CASES[name], head, starter, streams, options)
                print(
                    *lines(name, CASES[name].depth, streams, volleys_by_side), sep="\n", flush=True
                )
    return True


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench heads", description=__doc__)
    add = parser.add_argument
    add("heads", nargs="*", default=list(CASES), metavar="HEAD", help=", ".join(CASES))
    add("--streams", type=int, nargs="+", default=list(GROUPS), choices=list(GROUPS))
    add("--groups", type=int, help=f"of prompts; {GROUPS} by streams if not given")
    add("--threads", type=int, default=physical_cores(), help="of each server")
    add("--max-tokens", type=int, default=64, help="of a reply")
    add("--llama-server", type=Path, help="a binary that is there already")
    options = parser.parse_args(words)
    if strange := set(options.heads) - CASES.keys():
        parser.error(f"there is no head {strange.pop()!r}; known: {', '.join(CASES)}")
    return options


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
    case: HeadCase, head: Path, starter: Starter, streams: int, options: argparse.Namespace
) -> dict[str, list[HeadVolley]]:
    """Ask all sides the same in turns; return the volleys of each."""
    all_sides = sides(case, head, starter.model)
    volleys_by_side: dict[str, list[HeadVolley]] = {side.name: [] for side in all_sides}
    prompts = case.prompts(streams)
    with ExitStack() as stack:
        servers = {
            side.name: stack.enter_context(starter.start(side, streams, CONTEXT))
            for side in all_sides
        }
        for number in range(WARM_UP + (options.groups or GROUPS[streams])):
            group = [next(prompts) for _ in range(streams)]
            for side in rotated(all_sides, number):
                address = servers[side.name].address
                volleys_by_side[side.name].append(volley(address, group, options.max_tokens))
    return {name: volleys[WARM_UP:] for name, volleys in volleys_by_side.items()}


def lines(
    name: str, depth: int, streams: int, volleys_by_side: dict[str, list[HeadVolley]]
) -> list[str]:
    """Format each side beside the first: medians and quartiles of the groups."""
    first = next(iter(volleys_by_side.values()))
    rows = []
    for side, volleys in volleys_by_side.items():
        pairs = list(zip(volleys, first, strict=True))
        low, ratio, high = np.percentile([a.speed / b.speed for a, b in pairs], [25, 50, 75])
        same = sum(x == y for a, b in pairs for x, y in zip(a.texts, b.texts, strict=True))
        rows.append(
            f"{name:22}{depth:>5}{streams:>8}  {side:14}"
            f"{np.median([volley.speed for volley in volleys]):9.1f}{ratio:7.2f}  "
            f"{f'{low:.2f} {high:.2f}':12}{sum(volley.drafted for volley in volleys):8,}"
            f"{sum(volley.accepted for volley in volleys):9,}{same / (len(pairs) * streams):6.0%}"
        )
    return rows
