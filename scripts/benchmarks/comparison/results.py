"""Everything that a run has measured so far: printed, and written after each setting."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from benchmarks.comparison import ties
from benchmarks.comparison.measure import PeersRun, Volley, show_progress
from benchmarks.comparison.plan import Setting
from benchmarks.comparison.report import curve, record, save, shown
from benchmarks.comparison.summary import Leads, SideFigures, summarise


@dataclass(slots=True)
class Results:
    about: Mapping[str, object]
    json: Path | None
    measured: list[tuple[Setting, list[SideFigures]]] = field(default_factory=list)
    records: list[object] = field(default_factory=list)

    def measure(self, run: PeersRun, setting: Setting) -> None:
        """Measure a setting; of one that is interrupted, keep what all sides have answered."""
        volleys: list[Volley] = []
        try:
            for volley in run.measure(setting):
                volleys.append(volley)
                show_progress(run, setting, volleys)
            leads = ties.near_ties(setting, volleys, run.start)
        except KeyboardInterrupt:
            if whole := answered_by_all(volleys, len(run.sides)):
                self.conclude(setting, whole, {})
            raise
        self.conclude(setting, volleys, leads)

    def conclude(self, setting: Setting, volleys: Sequence[Volley], leads: Leads) -> None:
        figures = summarise(volleys, setting.streams, leads)
        print(f"\n{shown(setting, figures)}", flush=True)
        self.measured.append((setting, figures))
        self.records.append(record(setting, figures, volleys, leads))
        if self.json:
            save(self.json, self.about, self.records)

    @property
    def run(self) -> Mapping[str, object]:
        """Everything, as `report.save` writes it."""
        return {**self.about, "settings": self.records}

    def end(self) -> None:
        """Print what takes several settings."""
        by_depth = {setting.depth: figures for setting, figures in self.measured if setting.depth}
        if len(by_depth) > 1:
            print(f"\n{curve(by_depth)}", flush=True)


def answered_by_all(volleys: Sequence[Volley], sides: int) -> list[Volley]:
    """Choose the rounds that every side has answered; of the first round, at least the sections."""
    sections = Counter((volley.round, volley.section) for volley in volleys)
    whole = {place for place, count in sections.items() if count == sides}
    first = {section for number, section in whole if number == 0}
    rounds = {number for number, _ in whole if {(number, section) for section in first} <= whole}
    return [volley for volley in volleys if volley.round in rounds and volley.section in first]
