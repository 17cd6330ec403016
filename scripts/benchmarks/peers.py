"""`localspec serve` against llama.cpp's own llama-server: the same file, threads and prompts.

`scripts/bench peers [NAME_OR_PATH]` prints a table for each setting; every server answers in turn,
and only one at a time. llama-server is built once from the sources of the installed
llama-cpp-python, unless --llama-server or $LLAMA_SERVER names one. --prompts names task sets:
everyday, coding, agent, or files in the form of Spec-Bench, HumanEval or `localspec bench`.
"""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import psutil

from benchmarks.comparison import against, llama_server
from benchmarks.comparison.drafting_sides import GRID, best_point, drafter_of, grid_of
from benchmarks.comparison.measure import PeersRun
from benchmarks.comparison.plan import ComparisonWish, settings
from benchmarks.comparison.results import Results
from benchmarks.comparison.sides import IK, IK_REPACKED, SIDES, USUAL, Side, Starter, sides_of
from benchmarks.comparison.task_sets import EVERYDAY, PeerPrompt, read
from benchmarks.comparison.weights import AS_IT_IS, KINDS, STARTER, weights
from benchmarks.machine import heading
from localspec.apps.bench.machine import facts
from localspec.base.errors import LocalSpecError
from localspec.running.models.engines import engine
from localspec_llamacpp.cores import physical_cores

ROOM = 2  # times its file that a server takes, at most as a rule
QUICK = {
    "streams": [1, 4],
    "rounds": 1,
    "max_tokens": 32,
    "per_category": 1,
    "stream_prompts": 1,
    "temperatures": [0.0],
}


def main() -> bool:
    """Measure and print; False if a ratio fell that --against has."""
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
    add("--prompts", type=names, default=[EVERYDAY], metavar="SET,...", help="see above")
    add("--streams", type=numbers, default=[1, 2, 4, 8, 16], metavar="N,...")
    add("--temperatures", type=temperatures, default=[0.0, 1.0], metavar="T,...")
    add("--rounds", type=positive, default=3, help="each with servers that were just started")
    add("--threads", type=positive, default=physical_cores(), help="of each server")
    add("--max-tokens", type=positive, default=128, help="of a reply")
    add("--per-category", type=positive, default=4, help="prompts that one stream asks")
    least = ComparisonWish().least_prompts
    add("--stream-prompts", type=positive, default=least, help="that several streams ask, about")
    modes = ", ".join(SIDES)
    add("--modes", type=names, default=USUAL, metavar="NAME,...", help=f"of {modes}")
    add("--ours", action="append", default=[], metavar="NAME=OPTIONS", help="one more of ours")
    add("--theirs", action="append", default=[], metavar="NAME=OPTIONS", help="one more of theirs")
    add("--draft", metavar="NAME_OR_PATH", help="a draft model or head, for both")
    add("--grid", type=grid_of, default=GRID, metavar="N:P,...", help="n-max:p-min to choose from")
    add("--long", choices=["yes", "no", "only"], default="yes", help="prompts by depth")
    add("--depths", type=numbers, default=[4000], metavar="N,...", help="tokens of long prompts")
    add("--json", type=Path, metavar="FILE", help="write all that was measured")
    add("--against", type=Path, metavar="FILE", help="fail where ratios of this --json fell")
    add("--llama-server", type=Path, help="a binary that is there already")
    add("--ik", type=Path, help="the llama-server of ik_llama.cpp, one more peer")
    add("--quick", action="store_true", help=f"a trial of some minutes: {QUICK}")
    parser.set_defaults(**(QUICK if "--quick" in words else {}))
    return parser.parse_args(words)


def compare(options: argparse.Namespace, folder: Path) -> bool:
    require_folder(options.json)
    earlier = against.read(options.against) if options.against else None
    prompts = read(options.prompts)
    plan = list(settings(prompts, wish(options)))
    starter = starter_of(options, folder)
    sides = sides_of(modes(options, starter), options.ours, options.theirs)
    print("```", heading_of(options, starter), "```", sep="\n", flush=True)
    sides += drafter_sides(options, starter, prompts)
    run = run_of(options, starter, sides)
    if not run.together:
        print("\nMemory is short: only one server is loaded at a time.", flush=True)
    results = Results(about_run(options, starter, sides), options.json)
    for setting in plan:
        results.measure(run, setting)
    results.end()
    if earlier is None:
        return True
    lines, fell = against.compare(earlier, results.run)
    print(f"\n## Against {options.against}\n", *lines, sep="\n", flush=True)
    return not fell


def require_folder(file: Path | None) -> None:
    """Refuse, before hours of measuring, a file that could not be written then."""
    if file and not file.parent.is_dir():
        raise SystemExit(f"there is no folder {file.parent} for {file.name}: make it first")


def starter_of(options: argparse.Namespace, folder: Path) -> Starter:
    kind = options.quantise or ("q8_0" if options.model == STARTER else AS_IT_IS)
    if options.ik and not options.ik.is_file():
        raise SystemExit(f"there is no llama-server of ik_llama.cpp at {options.ik}")
    return Starter(
        weights(options.model, kind, folder),
        llama_server.find(options.llama_server),
        options.threads,
        folder,
        ik=options.ik,
        draft=weights(options.draft, AS_IT_IS, folder) if options.draft else None,
        shares_cache=any(device.kind != "cpu" for device in engine("llamacpp").installed().devices),
    )


def modes(options: argparse.Namespace, starter: Starter) -> list[str]:
    """Return the modes that were named, and that of ik_llama.cpp if there is its server."""
    asked = list(options.modes)
    of_ik = [mode for mode in asked if mode in (IK, IK_REPACKED)]
    if of_ik and not starter.ik:
        raise SystemExit(f"mode {of_ik[0]} needs a server: --ik FILE")
    return [*asked, IK] if starter.ik and not of_ik else asked


def drafter_sides(
    options: argparse.Namespace, starter: Starter, prompts: Sequence[PeerPrompt]
) -> list[Side]:
    """Return the sides with a draft model or head, llama-server's also with its best options."""
    drafter = drafter_of(starter.model, starter.draft)
    if drafter is None:
        return []
    one_each = replace(wish(options), streams=[1], temperatures=[0.0], depths=(), per_category=1)
    [setting] = settings(prompts, one_each)
    points = [drafter.at(point, str(point)) for point in options.grid]
    best, speeds = best_point(options.grid, run_of(options, starter, points), setting)
    if speeds:
        tried = ", ".join(f"{point} {speed:.1f}" for point, speed in speeds.items())
        print(f"\n{drafter.kind} by n-max:p-min, tokens/s of one reply a kind: {tried}", flush=True)
    return list(drafter.sides(best))


def run_of(options: argparse.Namespace, starter: Starter, sides: Sequence[Side]) -> PeersRun:
    files = [file for file in (starter.model, starter.draft) if file]
    needed = ROOM * sum(file.stat().st_size for file in files) * len(sides)
    together = needed <= psutil.virtual_memory().available
    return PeersRun(sides, starter.start, options.rounds, options.max_tokens, together)


def wish(options: argparse.Namespace) -> ComparisonWish:
    return ComparisonWish(
        [] if options.long == "only" else options.streams,
        options.temperatures,
        [] if options.long == "no" else options.depths,
        options.per_category,
        options.max_tokens,
        options.stream_prompts,
    )


def heading_of(options: argparse.Namespace, starter: Starter) -> str:
    return heading(
        peer=llama_server.version_line(starter.llama_server),
        ik=llama_server.version_line(starter.ik) if starter.ik else "",
        model=f"{starter.model.name}, {options.threads} threads",
        draft=starter.draft.name if starter.draft else "",
        prompts=", ".join(options.prompts),
    )


def about_run(
    options: argparse.Namespace, starter: Starter, sides: Sequence[Side]
) -> dict[str, object]:
    return {
        **facts("scripts/bench"),
        "llama_server": llama_server.version_line(starter.llama_server),
        "ik": llama_server.version_line(starter.ik) if starter.ik else None,
        "model": starter.model.name,
        "draft": starter.draft.name if starter.draft else None,
        "sides": {side.name: [side.program, *side.options] for side in sides},
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
