"""Measurement: every mode answers every prompt in turn, so that disturbances hit all alike."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from localspec.backend import Model
from localspec.bench.modes import Lineup, Mode
from localspec.bench.prompts import Prompt
from localspec.bench.reply import MeasuredReply, Round
from localspec.bench.watched import Watched
from localspec.engine import request
from localspec.engine.engine import Engine
from localspec.engine.job import Chunk, Event, Result
from localspec.engine.settings import Settings
from localspec.errors import BackendError, UsageError
from localspec.proposers.silent import Silent
from localspec.runtime.runtime import Runtime
from localspec.templates.message import text
from localspec.tokens import Tokens, tokens_of

WARM_UP = 16  # tokens that each mode says first, which are not counted


@dataclass(frozen=True, slots=True)
class Question:
    """A prompt in the target's tokens, and the settings of its reply."""

    prompt: Prompt
    tokens: Tokens
    settings: Settings


def questions(target: Model, prompts: Sequence[Prompt], settings: Settings) -> list[Question]:
    """Tokenise prompts for the target; raise a UsageError for one that does not fit."""
    with Runtime(Engine(target, Silent(), 0)) as reader:
        found = [
            Question(
                prompt,
                tokens_of(_encode(reader, prompt)),
                replace(settings, prediction=prompt.prediction),
            )
            for prompt in prompts
        ]
    for question in found:
        try:
            request.check(target, question.tokens, question.settings)
        except UsageError as error:
            raise UsageError(f"{question.prompt.name}: {error}") from error
    return found


def _encode(reader: Runtime, prompt: Prompt) -> list[int]:
    if reader.tokenizer.chat_template:
        return reader.conversation(prompt.messages)
    return reader.encode("\n\n".join(map(text, prompt.messages)))


def replies(lineup: Lineup, asked: Sequence[Question], repeat: int) -> Iterator[MeasuredReply]:
    """Yield replies as they come: modes in turn, and each prompt begins with another one.

    Before the first each mode says a few words that are not counted.
    """
    modes = lineup.modes
    for mode in modes:
        _answer(lineup, mode, _shortened(asked[0]), 0)
    for number in range(repeat * len(asked)):
        turn, at = divmod(number, len(asked))
        first = (turn + at) % len(modes)
        for mode in modes[first:] + modes[:first]:
            yield _answer(lineup, mode, asked[at], turn)


def _shortened(question: Question) -> Question:
    length = min(question.settings.max_tokens or WARM_UP, WARM_UP)
    return replace(question, settings=replace(question.settings, max_tokens=length))


def _answer(lineup: Lineup, mode: Mode, question: Question, turn: int) -> MeasuredReply:
    engine = lineup.engine(mode)
    settings = question.settings
    if settings.seed is not None:
        settings = replace(settings, seed=settings.seed + turn)
    result, rounds = ask(engine, lineup.target, replace(question, settings=settings))
    return MeasuredReply(
        mode=mode.name,
        prompt=question.prompt,
        repeat=turn,
        prompt_tokens=result.usage.prompt_tokens,
        tokens=result.tokens,
        text=result.text,
        finish=result.finish_reason,
        rounds=rounds,
    )


def ask(
    engine: Engine,
    target: Watched,
    question: Question,
    clock: Callable[[], float] = time.perf_counter,
) -> tuple[Result, tuple[Round, ...]]:
    """Run one reply to the end, alone in the engine, and record its rounds."""
    rounds: list[Round] = []
    ends: list[Result | Exception] = []
    last = clock()

    def hear(event: Event) -> None:
        nonlocal last
        if isinstance(event, Chunk):
            before, last = last, clock()
            drafted, checking = target.latest.drafted, target.latest.seconds
            emitted = len(event.tokens)
            rounds.append(Round(drafted, event.accepted, emitted, last - before, checking))
        else:
            ends.append(event)

    engine.add(engine.prepare(question.tokens, question.settings, hear))
    while engine.busy:
        engine.step()
    [end] = ends
    if isinstance(end, Result):
        return end, tuple(rounds)
    raise BackendError(f"{question.prompt.name} was not answered: {end}") from end
