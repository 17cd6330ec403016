"""The choice of how long replies are, by the time that there is for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

SHORTEST, LONGEST = 32, 128  # tokens of a reply: fewer show little, more seldom change the result
FEWEST = 3  # prompts that are asked however slow a model is


@dataclass(frozen=True, slots=True)
class Pace:
    """Seconds that plain decoding takes."""

    reading: float  # for a token of a prompt
    decoding: float  # for a token of a reply


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a run per prompt."""

    pace: Pace
    readings: int  # of the prompt
    replies: int

    def seconds(self, prompt: int, tokens: int) -> float:
        """Estimate the time of one prompt; drafts are taken to bring nothing."""
        return (
            self.readings * prompt * self.pace.reading + self.replies * tokens * self.pace.decoding
        )


def reply_tokens(work: Work, prompts: Sequence[int], seconds: float) -> int:
    """Choose the length of replies, so that prompts of these lengths are done in time."""
    reading = sum(work.seconds(prompt, 0) for prompt in prompts)
    a_token = len(prompts) * work.seconds(0, 1)
    return max(SHORTEST, min(int((seconds - reading) / a_token), LONGEST))
