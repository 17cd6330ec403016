"""Draft models that are new to a controller: one that cannot pay, and ones that pay."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from simulation.hardware import WIDE_CURVES
from simulation.texts import SimulatedText, invented
from simulation.world import SimulatedMachine, controlled, fixed

PROMPT, REPLY = 200, 512  # tokens
SOON = 64  # tokens after which one that pays is to be known
NEAR = 0.97  # of the best fixed depth from there on


@dataclass(frozen=True, slots=True)
class NewcomerTrial:
    """A draft model of which nothing is known, on one text with a prompt."""

    drafting: float  # a token of it, in rounds
    rate: float  # the part of its tokens that are right
    pays: bool  # whether it is to be used
    lost: float  # of plain decoding, in all
    first: int  # the token at which its first draft came; -1: there was none
    near: float  # of the best fixed depth, once it is to be known

    @property
    def met(self) -> bool:
        if not self.pays:
            return self.lost == 0.0
        return 0 <= self.first <= SOON and self.near >= NEAR

    @property
    def line(self) -> str:
        return (
            f"draft token {self.drafting:.0%} of a round, right {self.rate:.0%}: lost "
            f"{self.lost:.2%}, first draft at {self.first:2}, {self.near:6.1%} of the best depth"
            f"{'' if self.met else '  missed'}"
        )


def trials() -> Iterator[NewcomerTrial]:
    for rate in (0.6, 0.95):
        yield trial(0.46, rate, pays=False)
    for drafting, rate in ((0.1, 0.85), (0.1, 0.9), (0.05, 0.85), (0.05, 0.9)):
        yield trial(drafting, rate, pays=True)


def trial(drafting: float, rate: float, *, pays: bool) -> NewcomerTrial:
    machine = SimulatedMachine(WIDE_CURVES["cpu wide"], drafting)
    texts = [behind_prompt(text) for text in invented("new", [(REPLY, rate)])]
    own = [controlled(text, machine, seed) for seed, text in enumerate(texts)]
    runs = [[fixed(text, machine, "draft-model", depth) for text in texts] for depth in range(9)]
    seconds = sum(run.seconds(SOON) for run in own)
    best = min(sum(run.seconds(SOON) for run in fixed_runs) for fixed_runs in runs)
    lost = sum(run.seconds() for run in own) / sum(run.seconds() for run in runs[0]) - 1
    first = max(run.first_draft for run in own)
    return NewcomerTrial(drafting, rate, pays, max(lost, 0.0), first, best / seconds)


def behind_prompt(text: SimulatedText) -> SimulatedText:
    return SimulatedText(text.name, text.drafts, text.switches, prompt=PROMPT)


def main() -> None:
    for one in trials():
        print(one.line)
