"""The questions that can be decided: each has a few options, of which the model weighs all."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from localspec.base.errors import UsageError

Kind = Literal["predicate", "choice", "score"]
MOST_OPTIONS: Mapping[Kind, int] = {"predicate": 2, "choice": 255, "score": 10}


@dataclass(frozen=True, slots=True)
class Option:
    """A possible answer, with what it means."""

    value: str
    description: str = ""

    @property
    def text(self) -> str:
        return f"{self.value}: {self.description}" if self.description else self.value


Options = Sequence[str] | Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Question:
    """A question about a state; made by `predicate`, `choice` or `score`.

    kind: which of these
    instructions: the question or statement
    options: the possible answers, of which the model weighs all
    """

    kind: Kind
    instructions: str
    options: tuple[Option, ...]

    def __post_init__(self) -> None:
        count, most = len(self.options), MOST_OPTIONS[self.kind]
        if not 1 <= count <= most:
            raise UsageError(f"a {self.kind} has {count:,} options; it may have 1 to {most}")
        values = [option.value for option in self.options]
        if twice := next((value for value, count in Counter(values).items() if count > 1), None):
            raise UsageError(f"a {self.kind} has the option {twice[:60]!r} twice")
        if not all(value.strip() for value in values):
            raise UsageError(f"a {self.kind} has an option without a name")

    @classmethod
    def predicate(cls, instructions: str, yes: str = "", no: str = "") -> Question:
        """Ask whether something is true; `yes` and `no` say what counts as that."""
        return cls("predicate", instructions, (Option("yes", yes), Option("no", no)))

    @classmethod
    def choice(cls, instructions: str, options: Options) -> Question:
        """Ask for one of up to 255 options, which may have descriptions."""
        return cls("choice", instructions, _options(options))

    @classmethod
    def score(cls, instructions: str, levels: Options) -> Question:
        """Ask for one of up to 10 levels, the lowest first; the answer may lie between them."""
        return cls("score", instructions, _options(levels))

    def orders(self, count: int) -> list[list[int]]:
        """Return up to so many orders in which to show the options; the first is their own.

        Choices begin at other places; levels, and yes and no, have two orders.
        """
        size = len(self.options)
        listed = list(range(size))
        if self.kind != "choice":
            return [listed, listed[::-1]][:count]
        count = min(count, size)
        starts = [size * at // count for at in range(count)]
        return [listed[start:] + listed[:start] for start in starts]


def _options(options: Options) -> tuple[Option, ...]:
    if isinstance(options, Mapping):
        return tuple(Option(value, description) for value, description in options.items())
    return tuple(map(Option, options))


CRITERIA = {  # by the type of a question
    "noul": "an object or none",
    "predicate": "an object or none",
    "choice": "an object: options and what they mean",
    "score": "a list of levels",
}
FIELDS = ("type", "instructions", "criteria")


def question_of(name: str, value: object) -> Question:
    """Read a question as JSON has it: in the form of TypeSafe, by the kinds' own names as well."""
    if not isinstance(value, Mapping):
        raise UsageError(f"question {name!r} is no object; it must have a type and instructions")
    kind, criteria = value.get("type"), value.get("criteria")
    words = _words(value.get("instructions"))
    try:
        if kind in ("noul", "predicate") and (criteria is None or isinstance(criteria, Mapping)):
            means = {str(key): _words(text) for key, text in (criteria or {}).items()}
            return Question.predicate(words, means.get("true", ""), means.get("false", ""))
        if kind == "choice" and isinstance(criteria, Mapping):
            options = {str(key): _words(text) for key, text in criteria.items()}
            return Question.choice(words, options)
        if kind == "score" and isinstance(criteria, list):
            return Question.score(words, list(map(_words, criteria)))
    except UsageError as error:
        raise UsageError(f"question {name!r}: {error}") from error
    if kind in CRITERIA:
        raise UsageError(
            f"the criteria of question {name!r} are {str(criteria)[:40]!r}; of {kind} they must be "
            f"{CRITERIA[kind]} (what is asked stands in instructions)"
        )
    raise UsageError(
        f"question {name!r} has the type {kind!r:.40}; it must be "
        f"{', or '.join(f'{type_name} (criteria: {form})' for type_name, form in CRITERIA.items())}"
    )


def _words(value: object) -> str:
    if value is None or isinstance(value, str):
        return value or ""
    return json.dumps(value, ensure_ascii=False)
