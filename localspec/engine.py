"""Every request's way through one target: a slot, rounds, an end. One thread calls it."""

from __future__ import annotations

import secrets
import time
from collections import deque
from collections.abc import Callable, Sequence

from localspec import prefix
from localspec.backend import Model
from localspec.errors import BackendError, PromptTooLong, UsageError
from localspec.figures import Clockwork
from localspec.generation import Ending, Generation
from localspec.job import Chunk, Event, Job
from localspec.logprobs import logprobs
from localspec.proposer import Proposer
from localspec.round import Outcome, Turn, run_round
from localspec.sampler import Sampler
from localspec.scheduler import Scheduler
from localspec.settings import Settings
from localspec.tokens import NONE, History, Tokens

DEPTH = 4


class Engine:
    """`submit` checks a request and may be called by any thread; `add` and `step` by one."""

    def __init__(
        self,
        target: Model,
        proposer: Proposer,
        depth: int = DEPTH,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.target = target
        self._proposer = proposer
        self._depth = depth
        self._clock = clock
        self._scheduler = Scheduler(target.batch, target.tentative)
        self._waiting: deque[Job] = deque()
        self._active: dict[int, Job] = {}  # by slot
        self._held: list[Tokens] = [NONE] * target.slots
        self._free = list(range(target.slots))  # the longest unused first

    def prepare(self, prompt: Tokens, settings: Settings, listener: Callable[[Event], None]) -> Job:
        """Check a request against the model; the job it becomes is for `add`."""
        if not len(prompt):
            raise UsageError("the prompt is empty; give at least one token")
        if prompt.min() < 0 or prompt.max() >= self.target.vocabulary:
            raise UsageError(f"the prompt has tokens outside 0 to {self.target.vocabulary - 1}")
        if len(prompt) >= self.target.context:
            raise PromptTooLong(
                f"the prompt is {len(prompt):,} tokens; this model was loaded for "
                f"{self.target.context:,}, the reply included: load it with a larger context"
            )
        unknown = [token for token in settings.sampling.bias if token >= self.target.vocabulary]
        if unknown or any(token < 0 for token in settings.sampling.bias):
            raise UsageError(f"bias names tokens outside 0 to {self.target.vocabulary - 1}")
        depth = settings.depth
        if depth is not None and depth > self.target.tentative:
            raise UsageError(f"depth is {depth}; the model was loaded for {self.target.tentative}")
        seed = secrets.randbits(63) if settings.seed is None else settings.seed
        return Job(prompt, settings, seed, listener, Clockwork(self._clock()))

    def add(self, job: Job) -> None:
        self._waiting.append(job)

    @property
    def jobs(self) -> list[Job]:
        """The requests that have a slot."""
        return list(self._active.values())

    @property
    def busy(self) -> bool:
        return bool(self._waiting or self._active)

    def step(self) -> None:
        """Admit who waits, run one round, publish what it brought."""
        self._drop_cancelled()
        self._admit()
        if not self._active:
            return
        generations = [self._generation(job) for job in self._active.values()]
        turns = self._scheduler.plan(generations)
        for g in generations:
            g.waited += 1
        for turn in turns:
            turn.generation.waited = 0
        for outcome in self._run(turns):
            self._publish(outcome)

    def fail(self, error: Exception) -> None:
        """End every request with an error."""
        for job in self._waiting:
            job.listener(error)
        self._waiting.clear()
        self._fail(list(self._active), error)

    def _run(self, turns: Sequence[Turn]) -> list[Outcome]:
        """One round; if the engine cannot, once more with the idle slots emptied."""
        try:
            return run_round(self.target, self._proposer, turns)
        except BackendError as error:
            self._reconcile(turns)
            if not self._make_room():
                self._fail([turn.slot for turn in turns], error)
                return []
        try:
            return run_round(self.target, self._proposer, turns)
        except BackendError as error:
            self._fail([turn.slot for turn in turns], error)
            return []

    def _reconcile(self, turns: Sequence[Turn]) -> None:
        for turn in turns:
            g = turn.generation
            g.cached = self.target.truncate(g.slot, g.cached)

    def _make_room(self) -> bool:
        """Empty the free slots; return whether that freed anything."""
        full = [slot for slot in self._free if len(self._held[slot])]
        for slot in full:
            self.target.truncate(slot, 0)
            self._held[slot] = NONE
        return bool(full)

    def _fail(self, slots: Sequence[int], error: Exception) -> None:
        for slot in slots:
            job = self._release(slot)
            self.target.truncate(slot, 0)
            self._held[slot] = NONE
            job.listener(error)

    def _drop_cancelled(self) -> None:
        now = self._clock()
        for job in [job for job in self._waiting if job.cancelled]:
            self._waiting.remove(job)
            job.finish("cancelled", now)
        for slot in [slot for slot, job in self._active.items() if job.cancelled]:
            self._release(slot).finish("cancelled", now)

    def _admit(self) -> None:
        while self._waiting and self._free:
            job = self._waiting.popleft()
            place = prefix.choose(self._everything_held(), self._free, job.prompt[:-1])
            self._free.remove(place.slot)
            job.generation = g = self._generate(job)
            g.slot = place.slot
            g.cached = job.reused = prefix.settle(self.target, place)
            job.clock.started = self._clock()
            self._active[place.slot] = job

    def _generate(self, job: Job) -> Generation:
        settings = job.settings
        size, context = len(job.prompt), self.target.context
        limit = context if settings.max_tokens is None else size + settings.max_tokens
        ends = frozenset[int]() if settings.ignore_end else self.target.tokenizer.ends
        depth = self._depth if settings.depth is None else settings.depth
        return Generation(
            History(job.prompt),
            Sampler(settings.sampling, job.seed, job.prompt),
            Ending(min(limit, context), ends, settings.stop),
            self.target.tokenizer.token_bytes,
            depth=depth,
        )

    def _everything_held(self) -> list[Tokens]:
        held = list(self._held)
        for slot, job in self._active.items():
            g = self._generation(job)
            held[slot] = g.tokens[: g.cached]
        return held

    def _generation(self, job: Job) -> Generation:
        assert job.generation is not None
        return job.generation

    def _publish(self, outcome: Outcome) -> None:
        if not outcome.emitted:
            return
        g = outcome.turn.generation
        job = self._active[g.slot]
        tokens = tuple(g.tokens[-outcome.emitted :].tolist())
        job.clock.note(self._clock(), outcome.emitted)
        job.ledger.note(outcome)
        wanted = job.settings.logprobs
        found = () if wanted is None else tuple(logprobs(outcome.logits, tokens, wanted))
        job.publish(Chunk(g.text.take(), tokens, outcome.accepted, outcome.draft.by, found))
        if g.finish:
            self._release(g.slot).finish(g.finish, self._clock())

    def _release(self, slot: int) -> Job:
        """Take a request off its slot, which keeps what it holds for another to go on from."""
        job = self._active.pop(slot)
        g = self._generation(job)
        self._held[slot] = g.tokens[: g.cached]
        self._free.append(slot)
        self._proposer.release(slot)
        return job
