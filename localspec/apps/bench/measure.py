"""Measurement: every mode answers every prompt in turn, so that disturbances hit all alike.

Plain decoding comes first and last.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from statistics import median

from localspec.apps.bench.budget import Pace
from localspec.apps.bench.modes import AGAIN, Lineup, Mode
from localspec.apps.bench.prompts import Prompt
from localspec.apps.bench.reply import MeasuredReply, Round
from localspec.apps.bench.watched import Watched
from localspec.base.errors import BackendError, UsageError
from localspec.base.system.energy import EnergyMeter, machine_meter
from localspec.base.tokens import NONE, Tokens, tokens_of
from localspec.core.proposers.silent import Silent
from localspec.core.requests import request
from localspec.core.requests.engine import Engine
from localspec.core.requests.job import Chunk, Event, Result
from localspec.core.requests.settings import Settings
from localspec.formats.templates.message import text_of
from localspec.interfaces.backend import Model
from localspec.running.runtime.runtime import Runtime

WARM_UP = 8  # tokens that each mode generates first, which are not counted
meter_of_run = cache(machine_meter)
NEWEST = 8  # tokens of a prompt that are read by each mode, also where the others are held already


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt in the target's tokens, and the settings of its reply."""

    prompt: Prompt
    tokens: Tokens
    settings: Settings

    def shortened(self, max_tokens: int) -> Question:
        """Return the same prompt with a reply that is no longer."""
        most = min(self.settings.max_tokens or max_tokens, max_tokens)
        return replace(self, settings=replace(self.settings, max_tokens=most))


def questions(target: Model, prompts: Sequence[Prompt], settings: Settings) -> list[Question]:
    """Tokenise prompts for the target; raise a UsageError for one that does not fit."""
    with Runtime(Engine(target, Silent())) as reader:
        questions = [
            Question(
                prompt,
                tokens_of(_encode(reader, prompt)),
                replace(settings, prediction=prompt.prediction),
            )
            for prompt in prompts
        ]
    for question in questions:
        try:
            request.check(target, question.tokens, question.settings)
        except UsageError as error:
            raise UsageError(f"{question.prompt.name}: {error}") from error
    return questions


def _encode(reader: Runtime, prompt: Prompt) -> list[int]:
    if reader.tokenizer.chat_template:
        return reader.conversation(prompt.messages)
    return reader.encode("\n\n".join(map(text_of, prompt.messages)))


def warmed_up(lineup: Lineup, question: Question) -> Pace:
    """Let each mode generate a few uncounted tokens; measure the model's speed."""
    first, *_ = [
        _answer(lineup, mode, question.shortened(WARM_UP), 0, warm=at > 0)
        for at, mode in enumerate(lineup.modes)
        if mode.name != AGAIN
    ]
    rounds = [round_.seconds for round_ in first.decoding] or [first.first_token]
    return Pace(first.first_token / first.prompt_tokens, median(rounds))


def replies(lineup: Lineup, asked: Sequence[Question], repeat: int) -> Iterator[MeasuredReply]:
    """Yield replies as they come: for each prompt plain, the other modes in turn, and plain again.

    A prompt is read by the first of them, and by those that draft with a model of their own.
    """
    plain, *others, again = lineup.modes
    for number in range(repeat * len(asked)):
        turn, at = divmod(number, len(asked))
        first = (turn + at) % max(len(others), 1)
        for mode in (plain, *others[first:], *others[:first], again):
            yield _answer(lineup, mode, asked[at], turn, warm=mode is not plain)


def _answer(
    lineup: Lineup, mode: Mode, question: Question, turn: int, *, warm: bool = False
) -> MeasuredReply:
    engine = lineup.engine(mode, question.tokens[:-NEWEST] if warm else NONE)
    settings = question.settings
    if settings.seed is not None:
        settings = replace(settings, seed=settings.seed + turn)
    meter = meter_of_run()
    result, rounds = ask(engine, lineup.target, replace(question, settings=settings), meter=meter)
    return MeasuredReply(
        mode=mode.name,
        prompt=question.prompt,
        repeat=turn,
        prompt_tokens=result.usage.prompt_tokens,
        cached_tokens=result.usage.cached_tokens,
        tokens=result.tokens,
        text=result.text,
        finish=result.finish_reason,
        rounds=rounds,
        joules=meter.joules(),
    )


def ask(
    engine: Engine,
    target: Watched,
    question: Question,
    clock: Callable[[], float] = time.perf_counter,
    meter: EnergyMeter | None = None,
) -> tuple[Result, tuple[Round, ...]]:
    """Run one reply to the end, alone in the engine, and record its rounds.

    The meter begins anew with the first token: who reads the prompt depends on the turn.
    """
    rounds: list[Round] = []
    ends: list[Result | Exception] = []
    last = clock()

    def hear(event: Event) -> None:
        nonlocal last
        if isinstance(event, Chunk):
            if meter and not rounds:
                meter.begin_anew()
            before, last = last, clock()
            forward, emitted = target.latest, len(event.tokens) // event.rounds
            seconds = (last - before) / event.rounds
            one = Round(forward.drafted, event.accepted, emitted, seconds, forward.seconds)
            rounds.extend([one] * event.rounds)
        else:
            ends.append(event)

    engine.add(engine.prepare(question.tokens, question.settings, hear))
    while engine.busy:
        engine.step(lambda: False)  # nothing else waits for it
    [end] = ends
    if isinstance(end, Result):
        return end, tuple(rounds)
    raise BackendError(f"{question.prompt.name} was not answered: {end}") from end
