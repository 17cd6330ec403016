"""What was measured: one reply of one mode, round by round."""

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
        """Whether the target said something else than the guess after the accepted ones.

        A reply that ends within its guesses leaves the rest unjudged.
        """
        return self.accepted < self.drafted and self.accepted < self.emitted


@dataclass(frozen=True, slots=True)
class Reply:
    mode: str
    prompt: Prompt
    repeat: int
    prompt_tokens: int
    tokens: tuple[int, ...]
    text: str
    finish: str
    rounds: tuple[Round, ...]

    @property
    def first_token(self) -> float:
        """Seconds until the first token, reading the whole prompt included."""
        return self.rounds[0].seconds

    @property
    def decoding(self) -> tuple[Round, ...]:
        """The rounds after the first, which reads the prompt and guesses nothing."""
        return self.rounds[1:]

    @property
    def tokens_per_second(self) -> float | None:
        """After the first round; None if there was no other."""
        return speed(self.decoding)

    @property
    def looping(self) -> bool:
        return loops(self.text, self.tokens[:-1])  # the last may be the end's own


def speed(rounds: tuple[Round, ...]) -> float | None:
    """Tokens a second over some rounds."""
    seconds = sum(each.seconds for each in rounds)
    return sum(each.emitted for each in rounds) / seconds if seconds else None
