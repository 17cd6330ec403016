"""One reply of one mode, round by round."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.bench.looping import loops
from localspec.bench.prompts import Prompt


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


def speed(rounds: tuple[Round, ...]) -> float | None:
    """The tokens a second of some rounds."""
    seconds = sum(round_.seconds for round_ in rounds)
    return sum(round_.emitted for round_ in rounds) / seconds if seconds else None
