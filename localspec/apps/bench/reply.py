"""One reply of one mode, round by round; and its form in a file."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass
from typing import Any

from localspec.apps.bench.prompts import Prompt

# Of the end of a reply, which is a loop if it repeats itself so often, over so many tokens or
# characters.
REPEATS, TOKENS, CHARACTERS = 3, 20, 60
NUMBERING = re.compile(r"^\s*\d+[.)]", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Round:
    drafted: int
    accepted: int
    emitted: int
    seconds: float  # since the round before it; of the first, since the request
    checking: float  # of these, in the target's forward

    @property
    def rejects(self) -> bool:
        """Return whether the target's token after the accepted ones differs from the draft.

        A reply that ends within a draft leaves the rest unjudged.
        """
        return self.accepted < self.drafted and self.accepted < self.emitted

    @classmethod
    def checked(
        cls, drafted: int, accepted: int, emitted: int, seconds: float, checking: float
    ) -> Round:
        """Make a round of numbers from a file; raise a ValueError if no round has such."""
        round_ = cls(int(drafted), int(accepted), int(emitted), float(seconds), float(checking))
        counts = 0 <= round_.accepted <= round_.drafted and round_.emitted >= 1
        if not (counts and 0 < round_.seconds < math.inf):
            raise ValueError(f"there is no such round as {astuple(round_)}")
        return round_


@dataclass(frozen=True, slots=True)
class MeasuredReply:
    mode: str
    prompt: Prompt
    repeat: int
    prompt_tokens: int
    tokens: tuple[int, ...]
    text: str
    finish: str
    rounds: tuple[Round, ...]
    cached_tokens: int = 0  # of the prompt, read before by another mode
    joules: float | None = None  # of all rounds after the first; None where nothing counts them

    @property
    def first_token(self) -> float:
        """Seconds until the first token, reading what was not cached of the prompt included."""
        return self.rounds[0].seconds

    @property
    def decoding(self) -> tuple[Round, ...]:
        """The rounds after the first, which reads the prompt and drafts nothing."""
        return self.rounds[1:]

    @property
    def tokens_per_second(self) -> float | None:
        """The rate after the first round; None if there was no other."""
        return speed(self.decoding)

    @property
    def looping(self) -> bool:
        return loops(self.text, self.tokens[:-1])  # the last may be the end's own

    def as_record(self) -> dict[str, object]:
        return {
            "prompt": self.prompt.name,
            "category": self.prompt.category,
            "mode": self.mode,
            "repeat": self.repeat,
            "prompt_tokens": self.prompt_tokens,
            "cached_tokens": self.cached_tokens,
            "tokens": self.tokens,
            "text": self.text,
            "finish": self.finish,
            "looping": self.looping,
            "first_token": self.first_token,
            "tokens_per_second": self.tokens_per_second,
            "joules": self.joules,
            "rounds": [astuple(round_) for round_ in self.rounds],
        }

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> MeasuredReply:
        """Read a reply, but for the text of its prompt.

        Raise a KeyError, a TypeError or a ValueError if the record is no reply.
        """
        category, name = str(record["category"]), str(record["prompt"])
        rounds = tuple(Round.checked(*numbers) for numbers in record["rounds"])
        if not rounds:
            raise ValueError(f"the reply to {name} has no rounds")
        return cls(
            mode=str(record["mode"]),
            prompt=Prompt(category, (), number=int(name.removeprefix(category))),
            repeat=int(record["repeat"]),
            prompt_tokens=int(record["prompt_tokens"]),
            tokens=tuple(map(int, record["tokens"])),
            text=str(record["text"]),
            finish=str(record["finish"]),
            rounds=rounds,
            cached_tokens=int(record["cached_tokens"]),
        )


def speed(rounds: tuple[Round, ...]) -> float | None:
    """The tokens a second of some rounds."""
    seconds = sum(round_.seconds for round_ in rounds)
    return sum(round_.emitted for round_ in rounds) / seconds if seconds else None


def loops(text: str, tokens: Sequence[int]) -> bool:
    """Return whether the end repeats itself at least three times, in 20 tokens or 60 characters.

    The numbers of a numbered list do not count as a difference.
    """
    return _repeats(tokens, TOKENS) or _repeats(NUMBERING.sub("0.", text).rstrip(), CHARACTERS)


def _repeats(text: Sequence[object], least: int) -> bool:
    return any(
        _repeating(text, period) >= max(REPEATS * period, least)
        for period in range(1, len(text) // REPEATS + 1)
    )


def _repeating(text: Sequence[object], period: int) -> int:
    """Measure the stretch at the end that equals what is one period before it, and that period."""
    at = len(text) - 1
    while at >= period and text[at] == text[at - period]:
        at -= 1
    return len(text) - 1 - at + period
