"""Plans rounds: which texts run together, and how much is read and drafted beside others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from localspec.core.decoding.adapter_turns import AdapterTurns
from localspec.core.decoding.generation import Generation
from localspec.core.decoding.prompt_pace import Pace
from localspec.core.decoding.scheduler import Scheduler, left_to_read
from localspec.core.decoding.turn import Outcome, Turn
from localspec.core.prefix_cache.slots import Slots
from localspec.core.requests.shared_prompts import SharedPrompts
from localspec.interfaces.abilities import adapters_of
from localspec.interfaces.backend import Model
from localspec.interfaces.proposer import RoundCost

SHORT_DRAFT = 16  # tokens of a draft that other replies wait for in any case


class RoundPlan(NamedTuple):
    """The turns of a round, with figures that have to be taken before the round is run."""

    turns: list[Turn]
    read: int  # tokens of prompts
    before: float  # tokens before each of those, on average
    is_odd: bool  # pictures or sounds are read or encoded, or a prompt is scored
    begins: bool  # a draft begins a reply


class RoundPlanner:
    """Plans each round by what earlier ones took.

    `is_priced`: drafts are as long as they pay, rather than of a fixed length.
    """

    def __init__(
        self, target: Model, slots: Slots, pace: Pace, *, is_priced: bool, first_drafts: bool
    ) -> None:
        self._scheduler = Scheduler(target.batch, target.tentative, first_drafts)
        self._slots, self._pace, self._is_priced = slots, pace, is_priced
        self._shared_prompts = SharedPrompts(target, slots)
        self._batch = target.batch
        self._adapter_turns = AdapterTurns() if adapters_of(target) else None

    def plan(self, active: Sequence[Generation]) -> RoundPlan | None:
        """Plan a round; None while each text waits for a picture to be encoded."""
        readable = [g for g in active if not (g.media and g.encoding())]
        if not readable:
            return None
        generations = self._adapter_turns.choose(readable) if self._adapter_turns else readable
        alone = len(generations) == len(readable) and not generations[0].ahead
        if reading := [g for g in generations if g.reads]:
            reading = self._shared_prompts.to_read(reading, active)
            generations = [g for g in generations if not g.awaits]
        allowance = self._allowance(reading)
        longest = self._longest_draft(active, generations, allowance) if self._is_priced else None
        turns = self._scheduler.plan(generations, allowance, longest, alone=alone)
        if len(active) > 1:
            note_waiting(active, turns)
        read, before = prompts_read(turns) if reading else (0, 0.0)
        encodes = len(readable) < len(active)
        sees = encodes or any(turn.sees for turn in turns if turn.generation.media)
        is_odd = sees or any(g.scores for g in reading)
        return RoundPlan(turns, read, before, is_odd, any(turn.begins for turn in turns))

    def plan_plainly(self, generations: Sequence[Generation]) -> list[Turn]:
        """Plan a round of these texts without regard to what it takes."""
        return self._scheduler.plan(generations)

    def note(self, plan: RoundPlan, outcomes: Sequence[Outcome], seconds: float) -> RoundCost:
        """Learn how long a planned round took, or several without drafts; return its cost."""
        if self._adapter_turns:
            self._adapter_turns.note(seconds)
        rounds = outcomes[0].rounds
        tokens = sum(outcome.turn.feed + len(outcome.draft.tokens) for outcome in outcomes)
        if not plan.is_odd:  # such a round shows nothing of the time of tokens
            self._pace.note(tokens if plan.begins else plan.read, seconds / rounds, plan.before)
        return RoundCost(
            rows=len(outcomes),
            tokens=tokens,
            emitted=sum(outcome.emitted for outcome in outcomes) // rounds,
            seconds=seconds / rounds,
            reads=plan.read > 0 or plan.is_odd,
            held=sum(outcome.turn.generation.cached for outcome in outcomes),
            rounds=rounds,
        )

    def _allowance(self, reading: Sequence[Generation]) -> int | None:
        """Return how many tokens of prompts a round may read beside replies."""
        if not reading:
            return None
        return self._pace.allowance(min(reading, key=left_to_read).cached)

    def _longest_draft(
        self, active: Sequence[Generation], generations: Sequence[Generation], reading: int | None
    ) -> int:
        """Return how many tokens each reply may draft, where depths are open.

        All drafts together take no room that other texts have in a pool, and hold the round up no
        longer than a piece of a prompt may. They fit into one batch, beside the tokens of prompts
        that it may read or three quarters of it, so that no reply waits for the draft of another.
        """
        free_cells = self._slots.spare_tokens(sum(g.history.size for g in active))
        if len(active) == 1:
            return max(SHORT_DRAFT, free_cells)
        replies = [g for g in generations if not g.reads]
        held = max((g.cached for g in replies), default=0)
        most, rows = min(free_cells, self._pace.allowance(held)), max(len(replies), 1)
        fits = max(self._batch - (reading or 0), self._batch // 4) // rows - 1
        return max(min(max(SHORT_DRAFT, most // rows), fits), 0)


def note_waiting(generations: Sequence[Generation], turns: Sequence[Turn]) -> None:
    """Count the rounds of each sequence without a turn."""
    for g in generations:
        g.waited += 1
        g.age += 1
    for turn in turns:
        turn.generation.waited = 0


def prompts_read(turns: Sequence[Turn]) -> tuple[int, float]:
    """Count the prompt tokens that turns read, and the tokens before each, on average."""
    parts = [(turn.feed, turn.generation.cached) for turn in turns if turn.generation.reads]
    read = sum(feed for feed, _ in parts)
    return read, sum(feed * cached for feed, cached in parts) / max(read, 1)
