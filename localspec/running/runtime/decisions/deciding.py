"""Asks a loaded model about the places where answers begin, a few at once, and adds up."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, InvalidStateError
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import groupby
from types import MappingProxyType

import numpy as np

from localspec.base.errors import PromptTooLong, UsageError
from localspec.base.interruption import check_patience
from localspec.base.tokens import Tokens, tokens_of
from localspec.core.requests.job import Event, Job, Listener, Result
from localspec.core.requests.settings import Settings
from localspec.running.runtime.decisions.answer import Answer, Decision, average, weigh
from localspec.running.runtime.decisions.prompts import Frame, State, frame
from localspec.running.runtime.decisions.question import Kind, Question
from localspec.running.runtime.decisions.spelling import (
    Labels,
    Spelling,
    labels_for,
    logprob,
    nodes_of,
    spellings_of,
)
from localspec.running.runtime.decisions.temperature import tempered
from localspec.running.runtime.decisions.wording import words_of
from localspec.running.runtime.model_text import ModelText

Submit = Callable[[Tokens, Settings, Listener], Job]
MOST_ORDERS = 16  # in which the options of a question are shown
MOST_TRIALS = 1_000  # of a state: each keeps its prompt until it is read
DECIDES = Settings(max_tokens=1, logprobs=0, proposers=())


@dataclass(slots=True, eq=False)
class Trial:
    """A question with its options in one order, and what the model says of them."""

    number: int  # of the question
    question: Question
    tokens: Tokens  # of its prompt behind the state
    spellings: list[list[Spelling]]  # of each option
    judged: dict[Spelling, dict[int, float]] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, eq=False)
class Ask:
    """A place in a reply, and the tokens that may stand there."""

    trial: Trial
    node: Spelling
    judged: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Asking:
    """How places are asked about."""

    submit: Submit
    at_once: int
    temperatures: Mapping[Kind, float]  # by which answers are calibrated


class Decider:
    """Decides questions by a loaded model; any thread may call it.

    temperatures: by which answers to kinds of questions are calibrated
    """

    temperatures: Mapping[Kind, float] = MappingProxyType({})

    def __init__(self, model: ModelText, submit: Submit, slots: int) -> None:
        self._model, self._submit = model, submit
        self._labels = Labels(model.tokenizer)
        self._at_once = max(1, slots // 2)  # so that others find a slot, too

    def prepare(
        self,
        state: State,
        questions: Sequence[Question],
        permutations: int = 1,
        *,
        calibrated: bool = True,
    ) -> Deciding:
        """Prepare all prompts, which may take long."""
        if not 1 <= permutations <= MOST_ORDERS:
            raise UsageError(f"permutations is {permutations}; it may be 1 to {MOST_ORDERS}")
        if not questions:
            raise UsageError("there is no question: give at least one")
        if len(questions) * permutations > MOST_TRIALS:
            raise UsageError(
                f"{len(questions)} questions in {permutations} orders are more than "
                f"{MOST_TRIALS:,} prompts: ask for fewer"
            )
        prompt = frame(self._model, state)
        trials = [
            self._trial(prompt, number, question, order)
            for number, question in enumerate(questions)
            for order in question.orders(permutations)
        ]
        temperatures = self.temperatures if calibrated else {}
        return Deciding(prompt, trials, Asking(self._submit, self._at_once, temperatures))

    def _trial(self, prompt: Frame, number: int, question: Question, order: Sequence[int]) -> Trial:
        check_patience()
        option_labels = labels_for(question, order, self._labels)
        spellings = spellings_of(question, option_labels, self._labels)
        tokens = tokens_of(prompt.after(self._model, words_of(question, order, option_labels)))
        longest = max(len(way) for ways in spellings for way in ways)
        length = len(prompt.state) + len(tokens) + longest
        if length > self._model.context:
            raise PromptTooLong(
                f"question {number + 1} and its state are {length:,} tokens; this model was loaded "
                f"for {self._model.context:,}: load it with a larger context"
            )
        return Trial(number, question, tokens, spellings)


class Deciding:
    """Questions that are being decided.

    The first place is asked about alone, so that the state is read once; then a few at once are.
    """

    def __init__(self, prompt: Frame, trials: Sequence[Trial], asking: Asking) -> None:
        self._future: Future[Decision] = Future()
        self._runs, self._trials, self._asking = prompt.runs, trials, asking
        self._state = tokens_of(prompt.state)
        self._pending: Iterator[Ask] = (
            Ask(trial, node, judged)
            for trial in trials
            for node, judged in nodes_of(trial.spellings).items()
        )
        self._jobs: dict[Ask, Job | None] = {}  # under way
        self._read = self._cached = 0  # tokens
        self._lock = threading.Lock()
        self._future.add_done_callback(lambda _: self._stop())

    def begin(self) -> Future[Decision]:
        """Begin to ask; the future gets the answers, or an error. Cancelled, it asks no more."""
        self._next(1)
        return self._future

    def _stop(self) -> None:
        """Cancel what is asked, from whichever thread has no use for it."""
        with self._lock:
            for job in self._jobs.values():
                if job:
                    job.cancelled = True

    def _next(self, at_once: int) -> None:
        while ask := self._take(at_once):
            tokens = np.concatenate((self._state, ask.trial.tokens, tokens_of(ask.node)))
            settings = replace(DECIDES, judged=ask.judged, media=self._runs)
            job = self._asking.submit(tokens, settings, partial(self._hear, ask))
            with self._lock:
                if ask in self._jobs:
                    self._jobs[ask] = job

    def _take(self, at_once: int) -> Ask | None:
        with self._lock:
            ask = next(self._pending, None) if len(self._jobs) < at_once else None
            if ask:
                self._jobs[ask] = None
            return ask

    def _hear(self, ask: Ask, event: Event) -> None:
        """Take in what the model says of a place, on its thread; ask about the next."""
        if not isinstance(event, Result | Exception):
            return
        with self._lock:
            self._jobs.pop(ask, None)
        if self._future.done():
            return
        try:
            if isinstance(event, Exception):
                raise event
            self._note(ask, event)
            self._next(self._asking.at_once)
            if not self._jobs:
                with suppress(InvalidStateError):  # it was cancelled just now
                    self._future.set_result(self._decision())
        except Exception as error:  # of the model, or that it was closed
            with suppress(InvalidStateError):
                self._future.set_exception(error)

    def _note(self, ask: Ask, result: Result) -> None:
        [emitted] = result.logprobs or ()
        ask.trial.judged[ask.node] = dict(zip(ask.judged, emitted.judged, strict=True))
        self._read += result.usage.prompt_tokens
        self._cached += result.usage.cached_tokens

    def _decision(self) -> Decision:
        answers = [
            average([weighed(trial) for trial in trials])
            for _, trials in groupby(self._trials, lambda trial: trial.number)
        ]
        temperatures = self._asking.temperatures
        calibrated = [tempered(answer, temperatures.get(answer.kind, 1.0)) for answer in answers]
        return Decision(tuple(calibrated), self._read, self._cached)


def weighed(trial: Trial) -> Answer:
    """Turn what a model says of a question's options into an answer."""
    return weigh(trial.question, [logprob(ways, trial.judged) for ways in trial.spellings])
