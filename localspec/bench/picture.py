"""A report as a PNG, for a document or a message; drawn by matplotlib, which is an extra."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from importlib.machinery import ModuleSpec
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.bench.modes import PLAIN
from localspec.bench.report import Report
from localspec.bench.summary import Section, total
from localspec.errors import UsageError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

PLAIN_COLOUR = "0.55"


def require(find: Callable[[str], ModuleSpec | None] = importlib.util.find_spec) -> None:
    """Refuse to draw where there is no matplotlib."""
    if find("matplotlib") is None:
        raise UsageError('a PNG needs matplotlib: pip install "localspec[plots]"')


def draw(report: Report, path: Path) -> None:
    """Write four drawings of the figures into one file."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(13, 9), dpi=120, layout="constrained")
    if report.sections:
        everything = total(report.sections)
        axes = figure.subplots(2, 2)
        _ratios(axes[0, 0], report)
        _gaps(axes[0, 1], everything)
        _positions(axes[1, 0], everything)
        _forecasts(axes[1, 1], report)
    lines = dict(report.heading)
    title = "\n".join(lines[name] for name in ("model", "machine", "asked") if name in lines)
    figure.suptitle(title, fontsize="medium")
    figure.savefig(path, format="png")


def _ratios(axes: Axes, report: Report) -> None:
    modes = [mode for mode in report.modes if mode != PLAIN]
    for at, mode in enumerate(modes):
        for row, section in enumerate(report.sections):
            [found] = [s for s in section.summaries if s.mode == mode]
            y = [-row - 0.8 * (at + 0.5) / len(modes)] * len(found.ratios)
            axes.scatter(found.ratios, y, s=12, alpha=0.4, color=f"C{at}")
            if found.ratio is not None:
                label = mode if row == 0 else None
                axes.scatter([found.ratio], y[:1], marker="|", s=90, color=f"C{at}", label=label)
    axes.axvline(1, color=PLAIN_COLOUR, linestyle="--", linewidth=1)
    axes.set_yticks([-row - 0.4 for row in range(len(report.sections))])
    axes.set_yticklabels([section.title for section in report.sections])
    axes.set_title("decoding speed against plain: prompts and their median")
    axes.legend(fontsize="small")


def _gaps(axes: Axes, section: Section) -> None:
    found = [(s.mode, s.between_tokens) for s in section.summaries if s.between_tokens]
    for name, at in (("p50", 0), ("p95", 1), ("p99", 2)):
        height = [-row - 0.25 * at for row in range(len(found))]
        axes.barh(height, [between[at] * 1e3 for _, between in found], height=0.22, label=name)
    axes.set_yticks([-row - 0.25 for row in range(len(found))])
    axes.set_yticklabels([mode for mode, _ in found])
    axes.set_title("between tokens, ms")
    axes.legend(fontsize="small")


def _positions(axes: Axes, section: Section) -> None:
    from matplotlib.ticker import MaxNLocator

    drafted = [summary for summary in section.summaries if summary.mode != PLAIN]
    for at, summary in enumerate(drafted):
        shares = summary.acceptance_by_position
        axes.plot(range(1, len(shares) + 1), shares, marker="o", color=f"C{at}", label=summary.mode)
    axes.set_ylim(0, 1.05)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_title("accepted by position in the draft")
    axes.legend(fontsize="small")


def _forecasts(axes: Axes, report: Report) -> None:
    ends: list[float] = []
    for at, mode in enumerate(mode for mode in report.modes if mode != PLAIN):
        found = [s for section in report.sections for s in section.summaries if s.mode == mode]
        points = [(s.forecast.speedup, s.speedup) for s in found if s.forecast and s.speedup]
        ends += [value for point in points for value in point]
        axes.scatter([x for x, _ in points], [y for _, y in points], color=f"C{at}", label=mode)
    line = [min(ends, default=0), max(ends, default=1)]
    axes.plot(line, line, color=PLAIN_COLOUR, linestyle="--", linewidth=1)
    axes.set_xlabel("predicted")
    axes.set_ylabel("measured")
    axes.set_title("speed-up: on the line the textbook is right")
