"""The figures as drawings in SVG; colours come from the page around them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape

from localspec.bench.modes import PLAIN
from localspec.bench.summary import Section, Summary

WIDTH = 680
LABELS = 110  # pixels for names on the left
COLOURS = 8
ROW = 17


@dataclass(frozen=True, slots=True)
class Scale:
    """A scale from values to pixels."""

    low: float
    high: float
    start: float
    end: float

    def __call__(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self) -> Iterator[float]:
        """Choose round numbers within, at least four."""
        most = (self.high - self.low) / 4
        power = 10.0 ** math.floor(math.log10(most))
        step = max(n * power for n in (0.5, 1, 2, 5) if n * power <= most)
        for at in range(math.ceil(self.low / step), math.floor(self.high / step) + 1):
            yield round(at * step, 9)


def colour(modes: Sequence[str], mode: str) -> str:
    """The class of a mode's marks; plain decoding is grey."""
    if mode == PLAIN:
        return "c0"
    return f"c{[name for name in modes if name != PLAIN].index(mode) % COLOURS + 1}"


def ratios(sections: Sequence[Section], modes: Sequence[str]) -> str:
    """Draw each prompt's speed against plain as a dot, and the median of each mode as a bar."""
    found = [ratio for section in sections for s in section.summaries for ratio in s.ratios]
    least, most = min(found, default=1), max(found, default=1)
    scale = Scale(min(least - 0.05, 0.8), max(most + 0.05, 1.2), LABELS, WIDTH - 50)
    body, y = [], 10
    for section in sections:
        body.append(_text(0, y + 13, section.title, "strong"))
        y += ROW + 4
        for summary in section.summaries:
            if summary.mode != PLAIN:
                body += _strip(summary, scale, y, colour(modes, summary.mode))
                y += ROW
        y += 6
    line = f'<line class="one" x1="{scale(1)}" x2="{scale(1)}" y1="4" y2="{y}"/>'
    return _drawing(y + 24, [*_vertical(scale, y), line, *body])


def _strip(summary: Summary, scale: Scale, y: int, shade: str) -> Iterator[str]:
    middle = y + ROW // 2
    yield _text(10, middle + 4, summary.mode)
    for ratio in summary.ratios:
        yield f'<circle class="dot {shade}" cx="{scale(ratio)}" cy="{middle}" r="3.5"/>'
    if summary.ratio is not None:
        x = scale(summary.ratio)
        yield f'<rect class="{shade}" x="{x - 1.5}" y="{y + 1}" width="3" height="15"/>'
        yield _text(WIDTH - 30, middle + 4, f"{summary.ratio:.2f}")


def gaps(section: Section, modes: Sequence[str]) -> str:
    """Draw the gaps between tokens: from the median over the 95th to the 99th percentile."""
    found = [(s.mode, s.between_tokens) for s in section.summaries if s.between_tokens]
    most = max((between[2] for _, between in found), default=1e-3) * 1e3
    scale = Scale(0, most * 1.05, LABELS, WIDTH - 10)
    height = 10 + len(found) * (ROW + 4)
    body = []
    for row, (mode, between) in enumerate(found):
        y = 18 + row * (ROW + 4)
        p50, p95, p99 = (scale(seconds * 1e3) for seconds in between)
        shade = colour(modes, mode)
        shown = ", ".join(f"{seconds * 1e3:.1f}" for seconds in between)
        body += [
            _text(10, y + 4, mode),
            f'<line class="{shade}" x1="{p50}" x2="{p99}" y1="{y}" y2="{y}"/>',
            f'<circle class="{shade}" cx="{p50}" cy="{y}" r="5">'
            f"<title>{escape(mode)}: {shown} ms</title></circle>",
            *(
                f'<rect class="{shade}" x="{x - 1}" y="{y - 5}" width="2" height="10"/>'
                for x in (p95, p99)
            ),
        ]
    return _drawing(height + 24, [*_vertical(scale, height, " ms"), *body])


def positions(section: Section, modes: Sequence[str]) -> str:
    """Draw the acceptance rate by position in the draft."""
    longest = max((len(s.acceptance_by_position) for s in section.summaries), default=0)
    across, up = Scale(1, max(longest, 2), 60, WIDTH - 20), Scale(0, 1, 210, 10)
    body = [
        *_horizontal(up, across, [(0, "0%"), (0.25, ""), (0.5, "50%"), (0.75, ""), (1, "100%")])
    ]
    body += [_text(across(at), 230, str(at), "tick") for at in range(1, longest + 1)]
    for summary in section.summaries:
        shade = colour(modes, summary.mode)
        shares = list(enumerate(summary.acceptance_by_position, 1))
        points = " ".join(f"{across(at)},{up(share)}" for at, share in shares)
        body.append(f'<polyline class="{shade}" points="{points}"/>')
        body += [
            f'<circle class="{shade}" cx="{across(at)}" cy="{up(share)}" r="4">'
            f"<title>{escape(summary.mode)}, token {at}: {share:.0%}</title></circle>"
            for at, share in shares
        ]
    return _drawing(238, body)


def forecasts(sections: Sequence[Section], modes: Sequence[str]) -> str:
    """Draw measured speed-up over the textbook's; on the line the textbook is right."""
    found = [
        (section.title, s.mode, s.forecast.speedup, s.speedup)
        for section in sections
        for s in section.summaries
        if s.mode != PLAIN and s.forecast and s.speedup
    ]
    most = max((max(point[2:]) for point in found), default=1) * 1.05
    least = min((min(point[2:]) for point in found), default=1) * 0.95
    across, up = Scale(least, most, 60, 460), Scale(least, most, 320, 10)
    ticks = [(tick, f"{tick:g}") for tick in up.ticks()]
    body = [*_horizontal(up, across, ticks)]
    body += [_text(across(tick), 338, label, "tick") for tick, label in ticks]
    body.append('<line class="one" x1="60" y1="320" x2="460" y2="10"/>')
    body += [_text(470, 324, "predicted"), _text(66, 20, "measured")]
    body += [
        f'<circle class="{colour(modes, mode)}" cx="{across(x)}" cy="{up(y)}" r="4.5">'
        f"<title>{escape(f'{title}, {mode}')}: predicted {x:.2f}, measured {y:.2f}</title></circle>"
        for title, mode, x, y in found
    ]
    return _drawing(348, body)


def costs(forwards: Mapping[int, float]) -> str:
    """Draw the time of a forward by draft tokens verified; dashed: as much for each."""
    most = max([1.0, *forwards.values()]) * 1.1
    across, up = Scale(0, max([2, *forwards]), 60, WIDTH - 20), Scale(0, most, 210, 10)
    body = [*_horizontal(up, across, [(tick, f"{tick:g}") for tick in up.ticks()])]
    body += [_text(across(drafted), 230, str(drafted), "tick") for drafted in forwards]
    reach = min(most - 1, across.high)
    line = f'x1="{across(0)}" y1="{up(1)}" x2="{across(reach)}" y2="{up(reach + 1)}"'
    points = " ".join(f"{across(drafted)},{up(cost)}" for drafted, cost in forwards.items())
    body += [f'<line class="one" {line}/>', f'<polyline class="c1" points="{points}"/>']
    body += [
        f'<circle class="c1" cx="{across(drafted)}" cy="{up(cost)}" r="4">'
        f"<title>{drafted} draft tokens: {cost:.2f}</title></circle>"
        for drafted, cost in forwards.items()
    ]
    return _drawing(238, body)


def _vertical(scale: Scale, bottom: float, unit: str = "") -> Iterator[str]:
    for tick in scale.ticks():
        x = scale(tick)
        yield f'<line class="grid" x1="{x}" x2="{x}" y1="4" y2="{bottom}"/>'
        yield _text(x, bottom + 16, f"{tick:g}{unit}", "tick")


def _horizontal(up: Scale, across: Scale, ticks: Sequence[tuple[float, str]]) -> Iterator[str]:
    for tick, label in ticks:
        y = up(tick)
        yield f'<line class="grid" x1="{across.start}" x2="{across.end}" y1="{y}" y2="{y}"/>'
        yield _text(across.start - 8, y + 4, label, "left")


def _text(x: float, y: float, words: str, kind: str = "") -> str:
    shown = f' class="{kind}"' if kind else ""
    return f'<text{shown} x="{x}" y="{y}">{escape(words)}</text>'


def _drawing(height: float, body: Sequence[str]) -> str:
    return f'<svg viewBox="0 0 {WIDTH} {height}" role="img">{"".join(body)}</svg>'
