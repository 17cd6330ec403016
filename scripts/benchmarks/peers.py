"""`localspec serve` against llama.cpp's own llama-server: the same file, threads and prompts.

`scripts/bench peers [NAME_OR_PATH]` prints a table for each setting; every server answers in turn,
and only one at a time. llama-server is built once from the sources of the installed
llama-cpp-python, unless --llama-server or $LLAMA_SERVER names one.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import psutil

from benchmarks.comparison import llama_server
from benchmarks.comparison.goals import Goal, goals
from benchmarks.comparison.measure import PeersRun
from benchmarks.comparison.plan import ComparisonWish, Setting, settings
from benchmarks.comparison.questions import read
from benchmarks.comparison.report import record, save, shown
from benchmarks.comparison.sides import KNOWN, USUAL, Starter, chosen
from benchmarks.comparison.summary import summarise
from benchmarks.comparison.weights import AS_IT_IS, KINDS, STARTER, weights
from benchmarks.machine import heading
from localspec.bench.machine import command, machine, revision, versions
from localspec.errors import LocalSpecError
from localspec_llamacpp.loading import physical_cores

ROOM = 2  # times its file that a server takes, at most as a rule
QUICK = {"streams": [1, 4], "rounds": 1, "max_tokens": 32, "per_category": 1, "temperatures": [0.0]}


def main() -> bool:
    """Measure and print; False if a goal was missed."""
    options = arguments(sys.argv[2:])
    signal.signal(signal.SIGTERM, signal.default_int_handler)  # so that the servers end as well
    try:
        with tempfile.TemporaryDirectory() as folder:
            return compare(options, Path(folder))
    except LocalSpecError as error:
        raise SystemExit(str(error)) from error
    except KeyboardInterrupt:
        raise SystemExit("stopped; the servers have ended") from None


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench peers", description=__doc__)
    add = parser.add_argument
    add("model", nargs="?", default=STARTER, metavar="NAME_OR_PATH")
    add("--quantise", choices=KINDS, help="first; the starter to q8_0 if not given")
    add("--streams", type=numbers, default=[1, 2, 4, 8, 16], metavar="N,...")
    add("--temperatures", type=temperatures, default=[0.0, 1.0], metavar="T,...")
    add("--rounds", type=positive, default=3, help="each with servers that were just started")
    add("--threads", type=positive, default=physical_cores(), help="of each server")
    add("--max-tokens", type=positive, default=128, help="of a reply")
    add("--per-category", type=positive, default=4, help="prompts that one stream asks")
    add("--prompts", type=Path, help="JSON lines with category, and turns or prompt")
    modes = ", ".join(KNOWN)
    add("--modes", type=names, default=USUAL, metavar="NAME,...", help=f"of {modes}")
    add("--ours", action="append", default=[], metavar="NAME=OPTIONS", help="one more of ours")
    add("--long", choices=["yes", "no", "only"], default="yes", help="prompts of 4,000 tokens")
    add("--json", type=Path, help="write all that was measured")
    add("--llama-server", type=Path, help="a binary that is there already")
    add("--quick", action="store_true", help=f"a trial of some minutes: {QUICK}")
    parser.set_defaults(**(QUICK if "--quick" in words else {}))
    return parser.parse_args(words)


def compare(options: argparse.Namespace, folder: Path) -> bool:
    kind = options.quantise or ("q8_0" if options.model == STARTER else AS_IT_IS)
    model = weights(options.model, kind, folder)
    starter = Starter(model, llama_server.find(options.llama_server), options.threads, folder)
    comparison = comparison_of(options, starter)
    head = [heading(), f"peer       {llama_server.told_version(starter.llama_server)}"]
    head += [f"model      {model.name}, {options.threads} threads"]
    print("```", *head, "```", sep="\n", flush=True)
    if not comparison.together:
        print("\nMemory is short: only one server is loaded at a time.", flush=True)
    about = about_run(options, starter)
    records, missed = list[object](), list[Goal]()
    for setting in settings(read(options.prompts), wish(options)):
        figures, judged = measured(comparison, setting)
        records.append(figures)
        missed += [goal for goal in judged if not goal.met]
        if options.json:
            save(options.json, about, records)
    return not missed


def measured(comparison: PeersRun, setting: Setting) -> tuple[dict[str, object], list[Goal]]:
    """Measure and print a setting."""
    volleys = list(comparison.measure(setting))
    figures = summarise(volleys, setting.streams)
    judged = list(goals(setting, figures))
    print(f"\n{shown(setting, figures, judged)}", flush=True)
    return record(setting, figures, judged, volleys), judged


def comparison_of(options: argparse.Namespace, starter: Starter) -> PeersRun:
    sides = chosen(options.modes, options.ours)
    needed = ROOM * starter.model.stat().st_size * len(sides)
    together = needed <= psutil.virtual_memory().available
    return PeersRun(sides, starter.start, options.rounds, options.max_tokens, together)


def wish(options: argparse.Namespace) -> ComparisonWish:
    return ComparisonWish(
        [] if options.long == "only" else options.streams,
        options.temperatures,
        options.per_category,
        long=options.long != "no",
        least_prompts=1 if options.quick else ComparisonWish().least_prompts,
    )


def about_run(options: argparse.Namespace, starter: Starter) -> dict[str, object]:
    return {
        "command": command("scripts/bench"),
        "revision": revision(),
        "versions": versions(),
        "machine": machine(),
        "llama_server": llama_server.told_version(starter.llama_server),
        "model": starter.model.name,
        "threads": options.threads,
        "rounds": options.rounds,
        "max_tokens": options.max_tokens,
    }


def positive(text: str) -> int:
    number = int(text)
    if number < 1:
        raise ValueError(text)
    return number


def numbers(text: str) -> list[int]:
    return [positive(part) for part in text.split(",")]


def temperatures(text: str) -> list[float]:
    return [float(part) for part in text.split(",")]


def names(text: str) -> list[str]:
    return text.split(",")
