"""The comparison with an earlier run: our ratios to llama-server that fell by more than noise."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from benchmarks.comparison.summary import ALL

MARGIN = 1.5  # times the noise that holds 19 times of 20: none of several ratios may fail by it
LEAST_NOISE = 0.03  # of a ratio between two runs, beside what the rounds show
NOTHING = "Nothing to compare: no setting of both runs has two rounds."
SAME = ("machine", "llama_server", "model", "draft", "threads", "max_tokens")

Run = Mapping[str, Any]  # as `report.save` writes it
Ratio = tuple[float, float]  # and its noise, as a share of it


def read(file: Path) -> Run:
    """Read an earlier run; end the program where that cannot be compared with."""
    try:
        run: Run = json.loads(file.read_text(encoding="utf-8"))
        list(ratios(run))
        [run[fact] for fact in SAME]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise SystemExit(f"{file} is no run of `scripts/bench peers --json`: {error!r}") from error
    return run


def ratios(run: Run) -> Iterator[tuple[tuple[str, str], Ratio]]:
    """Yield the ratios of our sides to llama-server, by setting and side, where noise is known."""
    for setting in run["settings"]:
        for figures in setting["figures"]:
            is_ours = run["sides"][figures["side"]][0] == "localspec"
            if is_ours and figures["category"] == ALL and figures["noise"] is not None:
                place = str(setting["setting"]), str(figures["side"])
                yield place, (float(figures["speed_ratio"]), float(figures["noise"]))


def compare(earlier: Run, now: Run) -> tuple[list[str], bool]:
    """Return lines about what can be compared, and whether anything fell."""
    others = [fact for fact in SAME if earlier[fact] != now[fact]]
    if others:
        facts = (f"{fact} is {now[fact]!r}, it was {earlier[fact]!r}" for fact in others)
        return [f"Not compared with the earlier run: {'; '.join(facts)}."], False
    before, lines, any_fell = dict(ratios(earlier)), [], False
    for place, (ratio, noise) in ratios(now):
        if place not in before:
            continue
        old, old_noise = before[place]
        bound = MARGIN * math.hypot(noise, old_noise, LEAST_NOISE)
        fell = math.log(ratio / old) < -bound
        any_fell |= fell
        words = f"{ratio:.3f}, before {old:.3f}, noise ±{bound:.0%}{'  FELL' * fell}"
        lines.append(f"* {place[1]} beside llama-server, {place[0]}: {words}")
    return lines or [NOTHING], any_fell
