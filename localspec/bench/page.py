"""A report as one HTML file that needs nothing else."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from itertools import groupby
from pathlib import Path

from localspec.bench import charts
from localspec.bench.modes import PLAIN
from localspec.bench.report import Report
from localspec.bench.summary import Section, Trial, total, trials
from localspec.bench.table import TABLES, Table, heading, rows

STYLE = Path(__file__).parent / "page.css"


def page(report: Report) -> str:
    """Write the whole file: setup, drawings, tables, replies."""
    return "\n".join(
        [
            '<!doctype html><html lang="en"><head><meta charset="utf-8">',
            '<meta name="viewport" content="width=device-width, initial-scale=1">',
            "<title>localspec bench</title>",
            f"<style>{STYLE.read_text(encoding='utf-8')}{_colours()}</style></head><body>",
            "<h1>localspec bench</h1>",
            _definitions(report.heading),
            *(_figures(report) if report.sections else ["<p>No prompt was answered by all.</p>"]),
            "</body></html>\n",
        ]
    )


def _colours() -> str:
    shades = range(charts.COLOURS + 1)
    return "".join(
        f".c{at}{{fill:var(--c{at});stroke:var(--c{at});background:var(--c{at})}}" for at in shades
    )


def _definitions(pairs: Sequence[tuple[str, str]]) -> str:
    shown = "".join(f"<dt>{escape(name)}</dt><dd>{escape(value)}</dd>" for name, value in pairs)
    return f"<dl>{shown}</dl>"


def _figures(report: Report) -> Iterator[str]:
    sections, modes, everything = report.sections, report.modes, total(report.sections)
    yield _legend(modes)
    yield "<h2>Decoding speed against plain</h2>"
    yield "<p>A dot is one prompt, the bar is the median. Right of 1 is faster than plain.</p>"
    yield charts.ratios(sections, modes)
    yield "<h2>Between tokens</h2><p>All replies: the median as a dot, p95 and p99 as ticks.</p>"
    yield charts.gaps(everything, modes)
    yield "<h2>Accepted by position</h2><p>Of the drafts with a token there, how many kept it.</p>"
    yield charts.positions(everything, modes)
    yield "<h2>What checking costs</h2>"
    yield "<p>A forward by how many draft tokens it verifies, in plain rounds. Dashed: no gain.</p>"
    yield charts.costs(report.forwards)
    yield "<h2>Speed-up: measured and predicted</h2>"
    yield "<p>A dot is a mode in a category; below the line the textbook promised too much.</p>"
    yield charts.forecasts(sections, modes)
    yield from (_table(table, sections) for table in TABLES)
    yield "<h2>Replies</h2><p>As plain decoding says them.</p>"
    yield from (_reply(trial) for trial in trials(report.replies, modes))


def _legend(modes: Sequence[str]) -> str:
    marks = (f'<span><i class="{charts.colour(modes, m)}"></i>{escape(m)}</span>' for m in modes)
    return f'<p class="legend">{"".join(marks)}</p>'


def _table(table: Table, sections: Sequence[Section]) -> str:
    groups = "".join(
        f'<th colspan="{len(list(members))}">{escape(group)}</th>'
        for group, members in groupby(column.group for column in table.columns)
    )
    names = "".join(f"<th>{escape(column.name)}</th>" for column in table.columns)
    bodies = "".join(_body(table, section) for section in sections)
    return (
        f"<h2>{escape(table.title)}</h2><p>{escape(table.note)}</p><div class=scroll><table>"
        f"<thead><tr><th></th>{groups}</tr><tr><th></th>{names}</tr></thead>{bodies}</table></div>"
    )


def _body(table: Table, section: Section) -> str:
    title = f'<tr><th colspan="{len(table.columns) + 1}">{escape(heading(section))}</th></tr>'
    lines = (
        "<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in (mode, *cells)) + "</tr>"
        for mode, cells in rows(table, section)
    )
    return f"<tbody>{title}{''.join(lines)}</tbody>"


def _reply(trial: Trial) -> str:
    plain = trial[PLAIN]
    other = [mode for mode, reply in trial.items() if reply.tokens != plain.tokens]
    parts = [
        plain.prompt.name + (f", repeat {plain.repeat + 1}" if plain.repeat else ""),
        f"{len(plain.tokens)} tokens",
        *(["looping"] if any(reply.looping for reply in trial.values()) else []),
        *([f"said otherwise by {', '.join(other)}"] if other else []),
    ]
    return (
        f"<details><summary>{escape('; '.join(parts))}</summary>"
        f"<pre>{escape(plain.text)}</pre></details>"
    )
