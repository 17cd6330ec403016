"""The answer to a question: a probability for each of its options."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from localspec.running.runtime.decisions.question import Kind, Question


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to a question.

    options: the values of the question's options; of a predicate, "yes" and "no"
    probabilities: one for each, together one
    label_mass: the probability, of all that the model could write, of any option
    kind: of the question
    temperature: by which the model was calibrated for that kind; 1: it was not
    """

    options: tuple[str, ...]
    probabilities: tuple[float, ...]
    label_mass: float
    kind: Kind = "choice"
    temperature: float = 1.0

    @property
    def best(self) -> str:
        """The likeliest option, the first of several."""
        return self.options[self.place]

    @property
    def place(self) -> int:
        """The place of the likeliest option."""
        return self.probabilities.index(max(self.probabilities))

    @property
    def probability(self) -> float:
        """The probability of the first option: that a predicate is true."""
        return self.probabilities[0]

    @property
    def score(self) -> float:
        """The expected level, counted from 0."""
        return math.fsum(at * share for at, share in enumerate(self.probabilities))

    @property
    def confidence(self) -> float:
        """How far the options are told apart: 0 where all are as likely, 1 where one is certain."""
        if len(self.options) < 2:
            return 1.0
        entropy = -math.fsum(share * math.log(share) for share in self.probabilities if share)
        return min(max(1 - entropy / math.log(len(self.options)), 0.0), 1.0)


@dataclass(frozen=True, slots=True)
class Decision:
    """The answers to the questions about one state, and the tokens that these were.

    answers: in the order of the questions
    prompt_tokens: of all prompts, one for each question at least
    cached_tokens: how many of them were not read again
    """

    answers: tuple[Answer, ...]
    prompt_tokens: int
    cached_tokens: int


def weigh(question: Question, logprobs: Sequence[float]) -> Answer:
    """Turn the log-probabilities of all options into an answer."""
    total = log_of_sum(logprobs)
    highest = max(logprobs)
    weights = [math.exp(logprob - highest) if highest > -math.inf else 1.0 for logprob in logprobs]
    whole = math.fsum(weights)
    values = tuple(option.value for option in question.options)
    shares = tuple(weight / whole for weight in weights)
    return Answer(values, shares, min(math.exp(total), 1.0), question.kind)


def average(answers: Sequence[Answer]) -> Answer:
    """Average answers to one question, whose options were shown in several orders."""
    first, *others = answers
    if not others:
        return first
    columns = zip(*(answer.probabilities for answer in answers), strict=True)
    mass = math.fsum(answer.label_mass for answer in answers) / len(answers)
    shares = tuple(math.fsum(column) / len(answers) for column in columns)
    return replace(first, probabilities=shares, label_mass=mass)


def log_of_sum(logs: Iterable[float]) -> float:
    """Return the logarithm of a sum of which the logarithms are given."""
    listed = list(logs)
    highest = max(listed)
    if highest == -math.inf:
        return highest
    return highest + math.log(math.fsum(math.exp(log - highest) for log in listed))
