"""Runs requests through one target: a slot, rounds, an end. One thread calls it."""

from __future__ import annotations

import logging
import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence
from concurrent.futures import FIRST_COMPLETED, wait
from dataclasses import dataclass, replace
from typing import Protocol

from localspec.base.errors import BackendError, ContextFull, OutOfMemory, reported
from localspec.base.tokens import LogitRows, Tokens
from localspec.core.decoding.generation import Generation
from localspec.core.decoding.plain_rounds import Hurried, PlainRounds, are_plain
from localspec.core.decoding.prompt_pace import MAX_GAP, Pace
from localspec.core.decoding.round import conclude, propose, run
from localspec.core.decoding.turn import Outcome, Turn
from localspec.core.prefix_cache.slot_files import SlotFiles
from localspec.core.prefix_cache.slots import Slots
from localspec.core.prefix_cache.tiers import CacheTiers
from localspec.core.requests import request
from localspec.core.requests.figures import Clockwork
from localspec.core.requests.job import Event, FinishReason, Job
from localspec.core.requests.round_planner import RoundPlanner
from localspec.core.requests.settings import Settings
from localspec.core.requests.speedup import gain, with_waste
from localspec.core.sampling.banned import Bans
from localspec.core.sampling.sampler import Sampler, SamplerParts
from localspec.formats.grammar.compiler import Lexicon
from localspec.interfaces.abilities import AdaptedModel, NotingModel, RestingModel, adapters_of
from localspec.interfaces.backend import Model
from localspec.interfaces.costs import Costs
from localspec.interfaces.draft import Draft
from localspec.interfaces.proposer import Proposer, notes_of

DEFAULT_DEPTH = 4  # tokens to draft, by default
AWAIT_SECONDS = 0.01  # between two looks for new requests, while all others wait for pictures
MIN_REPLY_ROOM = 64  # a request is admitted if its prompt and so many tokens of a reply fit

LOG = logging.getLogger("localspec")


def one_round() -> bool:
    """Be in a hurry after each round."""
    return True


class MemoryRelief(Protocol):
    """Frees memory for the target when it runs short, and takes it back later."""

    @property
    def away(self) -> bool:
        """Whether something was given up that may come back."""

    def give_up(self, why: str) -> bool:
        """Free memory; False if there is nothing to give up."""

    def take_notices(self) -> list[str]:
        """Return notices for clients, each once."""

    def idle(self) -> None:
        """Load again what was given up, if there was room for it for a while."""

    def close(self) -> None: ...


@dataclass(frozen=True, slots=True)
class EngineParts:
    """Optional parts of an engine besides the model and the proposer."""

    costs: Costs | None = None  # by which drafts are chosen and cut; None: they are not
    relief: MemoryRelief | None = None  # frees memory when it runs short
    tiers: CacheTiers | None = None  # the prefix cache behind the slots
    files: SlotFiles | None = None  # to which clients save slots
    max_gap: float = MAX_GAP  # seconds that a piece of a prompt may hold replies up
    first_drafts: bool = False  # the last piece of a prompt may carry a draft
    rounds_by_width: bool = False  # so that near-ties may turn in another batch


NO_PARTS = EngineParts()


class Engine:
    """`prepare` may be called by any thread, the rest by the one that owns the models."""

    def __init__(
        self,
        target: Model,
        proposer: Proposer,
        depth: int = DEFAULT_DEPTH,
        clock: Callable[[], float] = time.perf_counter,
        parts: EngineParts = NO_PARTS,
    ) -> None:
        self.target = target
        self._adapters = adapters_of(target)
        self._adapted = target if isinstance(target, AdaptedModel) and self._adapters else None
        self._noting = target if isinstance(target, NotingModel) else None
        self._proposer = proposer
        self._depth = depth
        self._clock = clock
        self._notes = notes_of([proposer])
        self._costs = parts.costs
        self._rounds_by_width = parts.rounds_by_width
        self._relief = parts.relief
        self.tiers = parts.tiers or CacheTiers()
        self._lexicon = Lexicon(target.tokenizer)
        self._bans = Bans(target.tokenizer)
        self._plain_rounds = PlainRounds(target, proposer)
        self._pace = Pace(parts.max_gap)
        self._waiting: deque[Job] = deque()
        self._active: dict[int, Job] = {}  # by slot
        self.slots = Slots(target, self.tiers, parts.files)
        self._planner = RoundPlanner(
            target,
            self.slots,
            self._pace,
            is_priced=parts.costs is not None,
            first_drafts=parts.first_drafts,
        )

    def prepare(self, prompt: Tokens, settings: Settings, listener: Callable[[Event], None]) -> Job:
        """Check a request against the model; return the job to `add`."""
        request.check(self.target, prompt, settings)
        scales = request.scales(self._adapters, settings)
        seed = secrets.randbits(63) if settings.seed is None else settings.seed
        text, parts = request.text_of(prompt, settings), self._sampler_parts(settings)
        sampler = Sampler(settings.sampling, seed, text, parts)
        generation = request.generation(self.target, prompt, settings, sampler, self._depth)
        generation.adapters = scales
        job = Job(generation, settings, seed, listener, Clockwork(self._clock()))
        job.reports_ties = self._rounds_by_width
        return job

    def _sampler_parts(self, settings: Settings) -> SamplerParts:
        constraint, ends = None, request.ends(self.target, settings)
        if settings.grammar:
            constraint = self._lexicon.constraint(settings.grammar, ends)
        return SamplerParts(
            constraint,
            self._bans.ban(settings.banned_strings),
            request.thought_budget(self.target, settings),
            ends,
            settings.min_tokens,
            request.spell_everything(self.target.tokenizer),
        )

    def add(self, job: Job) -> None:
        self._waiting.append(job)

    @property
    def jobs(self) -> list[Job]:
        """The requests that have a slot."""
        return list(self._active.values())

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._active)

    def step(self, hurried: Hurried = one_round) -> None:
        """Admit waiting requests, run one round, publish its tokens.

        While no draft is expected several rounds are run, until `hurried` returns True.
        """
        self._drop_cancelled()
        if self._waiting:
            self._admit()
        if self._active:
            self._round([job.generation for job in self._active.values()], hurried)

    def _round(self, active: Sequence[Generation], hurried: Hurried) -> None:
        plan = self._planner.plan(active)
        if plan is None:
            self._await_picture(active)
            return
        start = self._clock()
        outcomes = self._run(plan.turns, hurried)
        if self._costs:
            outcomes = with_waste(self._costs, outcomes)
        self._notify()
        for outcome in outcomes:
            self._publish(outcome)
        if not outcomes:
            return
        cost = self._planner.note(plan, outcomes, self._clock() - start)
        self.slots.tidy(cost.tokens * cost.rounds)
        self.tiers.reading_seconds = self._pace.per_token
        for note in self._notes:
            note(cost)

    def _await_picture(self, active: Sequence[Generation]) -> None:
        """Wait for a picture to be encoded, but briefly: another request may come."""
        self.rest()
        encodings = [encoding for g in active if (encoding := g.encoding())]
        wait(encodings, AWAIT_SECONDS, FIRST_COMPLETED)

    @property
    def waits(self) -> bool:
        """Whether to call `idle` now and then while there are no requests."""
        is_away = self._relief is not None and self._relief.away
        return is_away or self.slots.waits

    def idle(self) -> None:
        if self._relief:
            self._relief.idle()
        self.slots.idle()

    def rest(self) -> None:
        """Note that there are no requests for now."""
        if isinstance(self.target, RestingModel):
            self.target.rest()

    def close(self) -> None:
        """Free models that the engine loaded by itself; the prefix cache may be saved to disk."""
        self.slots.close()
        if self._relief:
            self._relief.close()

    def fail(self, error: Exception) -> None:
        """End every request with an error."""
        while self._waiting:
            self._waiting.popleft().listener(error)
        self._fail(list(self._active), error)

    def _run(self, turns: Sequence[Turn], hurried: Hurried | None) -> list[Outcome]:
        """Propose, and run a round, or plain rounds until `hurried`; if that fails, one round."""
        try:
            if self._adapted:
                self._adapted.adapt(turns[0].generation.adapters)
            drafts = propose(self._proposer, turns)
            if hurried and are_plain(turns, drafts):
                outcomes = self._plain_rounds.run(turns, self._rounds_at_once(turns), hurried)
                return outcomes or self._run_again(turns)
            logits = run(self.target, turns, drafts)
        except BackendError as error:
            for turn in turns:
                g = turn.generation
                g.cached = self.target.truncate(g.slot, g.cached)
            if self._make_room(error):
                return self._run_again(turns)
            self._fail([turn.slot for turn in turns], error)
            return []
        rows = zip(turns, drafts, logits, strict=True)
        return [outcome for row in rows if (outcome := self._conclude(*row))]

    def _run_again(self, turns: Sequence[Turn]) -> list[Outcome]:
        """Run a single round of those that still have their slots."""
        left = [turn.generation for turn in turns if turn.slot in self._active]
        return self._run(self._planner.plan_plainly(left), None) if left else []

    def _rounds_at_once(self, turns: Sequence[Turn]) -> int:
        """Return how many rounds without drafts may be run before their tokens are published."""
        adapters = turns[0].generation.adapters
        jobs = [job for job in self._active.values() if job.generation.adapters == adapters]
        if len(turns) < len(jobs) or any(job.settings.logprobs is not None for job in jobs):
            return 1
        return self._pace.at_once(len(turns))

    def _make_room(self, error: BackendError) -> bool:
        """Free cells or memory, whichever the engine lacks; return whether there was any."""
        if isinstance(error, ContextFull):
            return self.slots.give_up() or self._postpone()
        if self.slots.make_room():
            return True
        lacks_memory = isinstance(error, OutOfMemory)
        return lacks_memory and self._relief is not None and self._relief.give_up(str(error))

    def _postpone(self) -> bool:
        """Let the newest request wait until others are done; return whether there are others."""
        if len(self._active) < 2:
            return False
        slot = next(reversed(self._active))
        job = self._release(slot)
        self.slots.put_aside(slot)
        job.generation.slot, job.generation.cached = -1, 0
        self._waiting.appendleft(job)
        return True

    def _notify(self) -> None:
        notices = self._relief.take_notices() if self._relief else []
        notices += self.tiers.take_notices()
        if self._noting:
            for notice in self._noting.take_notices():
                LOG.warning(notice)
                notices.append(notice)
        for notice in notices:
            for job in self._active.values():
                job.notices.append(notice)

    def _conclude(self, turn: Turn, draft: Draft, logits: LogitRows) -> Outcome | None:
        """Emit the tokens of a round for one sequence; None if that failed."""
        try:
            return conclude(self.target, turn, draft, logits)
        except Exception as error:  # whatever is wrong with one sequence, the others go on
            self._fail([turn.slot], reported(error))
            return None

    def _publish(self, outcome: Outcome) -> None:
        g, slot, finish = outcome.turn.generation, outcome.turn.slot, outcome.turn.generation.finish
        if g.cached == g.parting > 0:
            self.tiers.keep(self.target, slot, g.held, g.adapters, stays=True)
        if outcome.scored:
            self._active[slot].score(outcome)
        if outcome.emitted:
            self._active[slot].publish(outcome, self._clock())
        if finish:
            self._finish(self._release(slot), finish)

    def _fail(self, slots: Sequence[int], error: Exception) -> None:
        for job in [self._release(slot) for slot in slots]:
            job.listener(error)
        for slot in slots:
            self.slots.empty(slot)

    def _drop_cancelled(self) -> None:
        jobs = (*self._waiting, *self._active.values())
        is_awaited = any(not job.settings.ahead for job in jobs)
        for job in [job for job in jobs if job.cancelled or (job.settings.ahead and is_awaited)]:
            if job in self._waiting:
                self._waiting.remove(job)
            else:
                self._release(job.generation.slot)
            self._finish(job, "cancelled")

    def _finish(self, job: Job, reason: FinishReason) -> None:
        speculation = job.ledger.report()
        if self._costs:
            won, lost = gain(self._costs, speculation), job.ledger.wasted_seconds
            speculation = replace(speculation, speedup=won, wasted_seconds=lost)
        job.finish(reason, speculation, self._clock())

    def _admit(self) -> None:
        while self._waiting and self.slots.free and self._has_room(self._waiting[0]):
            job = self._waiting.popleft()
            g = job.generation
            others = self._active.items()
            held = {slot: other.generation.shared_with(g) for slot, other in others}
            choice = self.slots.choose(job.readable, held, g.adapters)
            g.slot = choice.slot
            self._active[choice.slot] = job
            g.cached = self.slots.settle(choice, job.readable, g.adapters)
            if g.reads:
                g.parting = self.slots.parting(choice, g.cached, job.readable, g.adapters)
                job.clock.started, g.reused = self._clock(), g.cached

    def _has_room(self, job: Job) -> bool:
        """Whether the pool holds another text beside the active ones, and some of its reply."""
        taken = sum(len(other.generation.history) for other in self._active.values())
        needed = len(job.generation.history) + MIN_REPLY_ROOM
        return not self._active or taken + needed <= self.target.pool

    def _release(self, slot: int) -> Job:
        """Take a request off its slot, which keeps its KV cache for the next one."""
        job = self._active.pop(slot)
        self.slots.leave(slot, job.generation.held, job.generation.adapters)
        self._proposer.release(slot)
        return job
