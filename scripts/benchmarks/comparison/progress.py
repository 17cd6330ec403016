"""A line on the terminal that says how far a run is."""

from __future__ import annotations

import sys
from collections.abc import Sequence

from benchmarks.comparison.measure import PeersRun, Volley
from benchmarks.comparison.plan import Setting


def show_progress(run: PeersRun, setting: Setting, volleys: Sequence[Volley]) -> None:
    whole = run.rounds * len(setting.sections) * len(run.sides)
    line = f"{setting.name}: {len(volleys)} of {whole} turns, {volleys[-1].side}"
    print(f"\r{line:<78}", end="\n" if len(volleys) == whole else "", file=sys.stderr, flush=True)
