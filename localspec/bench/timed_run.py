"""A run within its time: how much is asked is chosen by how fast the model is."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import islice

import click

from localspec.bench.budget import FEWEST, Work, prompts_in_time, reply_tokens
from localspec.bench.load import LoadWatch, MachineLoad
from localspec.bench.measure import Question, replies, warmed_up
from localspec.bench.modes import Lineup
from localspec.bench.reply import MeasuredReply
from localspec.commands.time_left import TimeLeft


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
    """Measure all modes by these questions, or by those that are answered until the deadline."""
    watch, found = LoadWatch(), list[MeasuredReply]()
    try:
        plan = planned(lineup, asked, repeat, deadline - clock())
        size, begun = len(lineup.modes), clock()
        total = plan.prompts * size
        bar = TimeLeft("measuring", total, max(deadline - begun, plan.seconds))
        for reply in bar(islice(replies(lineup, plan.asked, repeat), total)):
            found.append(reply)
            done, rest = divmod(len(found), size)
            now = clock()
            if not rest and done >= FEWEST and now + (now - begun) / done > deadline:
                break
    except KeyboardInterrupt:
        click.echo("interrupted: the figures are of what was answered", err=True)
        return Outcome(tuple(found), watch.load(), interrupted=True)
    return Outcome(tuple(found), watch.load())


@dataclass(frozen=True, slots=True)
class RunPlan:
    asked: tuple[Question, ...]
    prompts: int  # that there is time for, repeats included
    seconds: float  # that they are expected to take


def planned(lineup: Lineup, asked: Sequence[Question], repeat: int, seconds: float) -> RunPlan:
    """Choose the length of replies where it is left open, and how many questions there is time for.

    The length is such that one prompt of each category is answered.
    """
    pace = warmed_up(lineup, asked[0])
    modes = lineup.modes
    work = Work(pace, 1 + sum(mode.reads for mode in modes), len(modes))
    firsts = [len(each.tokens) for each in asked if each.prompt.number == 1]
    tokens = asked[0].settings.max_tokens or reply_tokens(work, firsts, seconds)
    sizes = [len(each.tokens) for each in asked] * repeat
    count = prompts_in_time(work, sizes, tokens, seconds)
    expected = sum(work.seconds(size, tokens) for size in sizes[:count])
    return RunPlan(tuple(each.shortened(tokens) for each in asked), count, expected)
