"""A whole run: its setup, every reply, and the figures of all of them."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, astuple, dataclass, fields
from textwrap import fill

from localspec.bench.reply import MeasuredReply, Round
from localspec.bench.summary import Section, forwards, sections, trials
from localspec.bench.table import TABLES, printed


@dataclass(frozen=True, slots=True)
class Report:
    heading: tuple[tuple[str, str], ...]
    modes: tuple[str, ...]
    replies: tuple[MeasuredReply, ...]
    sections: tuple[Section, ...]
    forwards: Mapping[int, float]  # in plain rounds, by draft tokens verified


def report(
    heading: Sequence[tuple[str, str]], modes: Sequence[str], replies: Sequence[MeasuredReply]
) -> Report:
    found = trials(replies, modes)
    parts = tuple(sections(found, modes))
    return Report(tuple(heading), tuple(modes), tuple(replies), parts, forwards(found))


def text(report: Report) -> str:
    """Format the heading and the tables for a terminal."""
    lines = [f"{name:<10} {value}" for name, value in report.heading]
    if not report.sections:
        return "\n".join([*lines, "", "No prompt was answered by all modes."])
    tables = "\n\n".join(printed(report.sections, table) for table in TABLES)
    return "\n".join([*lines, "", tables, forward_line(report.forwards)])


def forward_line(forwards: Mapping[int, float]) -> str:
    shown = ", ".join(f"{drafted}:_{cost:.2f}" for drafted, cost in forwards.items())
    line = fill(f"Forwards by draft tokens verified, in plain rounds: {shown}", 100)
    return line.replace("_", " ")  # no line ends within a pair


def as_json(report: Report) -> str:
    """Serialise all measurements; rounds are lists in the order of `round_fields`."""
    return json.dumps(
        {
            "heading": dict(report.heading),
            "modes": report.modes,
            "forwards": report.forwards,
            "sections": [asdict(section) for section in report.sections],
            "round_fields": [field.name for field in fields(Round)],
            "replies": [_reply(reply) for reply in report.replies],
        },
        ensure_ascii=False,
    )


def _reply(reply: MeasuredReply) -> dict[str, object]:
    return {
        "prompt": reply.prompt.name,
        "category": reply.prompt.category,
        "mode": reply.mode,
        "repeat": reply.repeat,
        "prompt_tokens": reply.prompt_tokens,
        "tokens": reply.tokens,
        "text": reply.text,
        "finish": reply.finish,
        "looping": reply.looping,
        "first_token": reply.first_token,
        "tokens_per_second": reply.tokens_per_second,
        "rounds": [astuple(each) for each in reply.rounds],
    }
