"""A run within its time: how much is asked is chosen by how fast the model is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import click

from localspec.apps.bench.budget import FEWEST, Work, reply_tokens
from localspec.apps.bench.measure import Question, replies, warmed_up
from localspec.apps.bench.modes import Lineup
from localspec.apps.bench.reply import MeasuredReply
from localspec.base.system.machine_load import LoadWatch, MachineLoad
from localspec.console.progress.time_left import TimeLeft

LATE = 30.0  # seconds behind the deadline, at which a run ends in the middle of a prompt


@dataclass(frozen=True, slots=True)
class Outcome:
    """The replies of a run, and what else took the processors meanwhile."""

    replies: tuple[MeasuredReply, ...]
    load: MachineLoad
    interrupted: bool = False


def run(
    lineup: Lineup,
    asked: Sequence[Question],
    repeat: int,
    deadline: float,
    clock: Callable[[], float] = time.monotonic,
) -> Outcome:
    """Measure all modes by these questions, or by those that are answered until the deadline.

    The first is answered by all modes in any case: without that there is nothing to compare.
    """
    watch, measured = LoadWatch(), list[MeasuredReply]()
    try:
        asked, least = planned(lineup, asked, deadline - clock())
        size, begun = len(lineup.modes), clock()
        answers = len(asked) * repeat * size
        bar = TimeLeft("answers", answers, max(deadline - begun, least))
        for reply in bar(replies(lineup, asked, repeat)):
            measured.append(reply)
            done, partial = divmod(len(measured), size)
            now = clock()
            whole = not partial and done >= FEWEST
            late = done and now > deadline + LATE
            if late or (whole and now + (now - begun) / done > deadline):
                break
    except KeyboardInterrupt:
        click.echo("interrupted: the figures are of what was answered", err=True)
        return Outcome(tuple(measured), watch.load(), interrupted=True)
    return Outcome(tuple(measured), watch.load())


def planned(
    lineup: Lineup, asked: Sequence[Question], seconds: float
) -> tuple[list[Question], float]:
    """Choose the length of replies where it is left open: one prompt of each category is answered.

    The time for the fewest prompts is estimated, too.
    """
    pace = warmed_up(lineup, asked[0])
    work = Work(pace, 1 + sum(mode.reads for mode in lineup.modes), len(lineup.modes))
    firsts = [len(question.tokens) for question in asked if question.prompt.number == 1]
    tokens = asked[0].settings.max_tokens or reply_tokens(work, firsts, seconds)
    least = sum(work.seconds(len(question.tokens), tokens) for question in asked[:FEWEST])
    return [question.shortened(tokens) for question in asked], least
