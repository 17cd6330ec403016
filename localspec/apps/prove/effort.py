"""The choice of how many texts are tried, and how long ones, by how fast a model is."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from localspec.apps.prove.runs import ReplyRequest, run
from localspec.base.tokens import Tokens
from localspec.core.proposers.silent import Silent
from localspec.interfaces.backend import Model

GREEDY = 0.6  # of the time, for texts; the rest is for samples
LENGTHS = (64, 32, 16)  # of replies, in tokens: shorter ones where there is time for few prompts
MIN_PROMPTS = 3  # prompts, which are answered at once as well
PROBE = 8  # tokens of a reply by which the speed is measured
# The time of a proposer with a prompt, in that of its plain text: alone, and beside two others.
# Q4_K_M on a CPU, where a batch of eight tokens costs four to six times one, and one is kept.
PROPOSER_TIME = 3.8


@dataclass(frozen=True, slots=True)
class Effort:
    prompts: int
    tokens: int  # of a reply


@dataclass(frozen=True, slots=True)
class TextSpeed:
    """Seconds that a plain text takes."""

    reading: float  # its prompt, and the first token of its reply
    a_token: float  # of the rest of it

    @classmethod
    def measure(
        cls, model: Model, prompt: Tokens, clock: Callable[[], float] = time.perf_counter
    ) -> TextSpeed:
        """Measure by two short replies."""
        seconds = []
        for tokens in (1, 1 + PROBE):
            begun = clock()
            run(model, Silent(), [ReplyRequest(prompt, tokens)])
            seconds.append(clock() - begun)
        short, longer = seconds
        return cls(short, max(longer - short, 0.0) / PROBE)

    def effort(
        self, prompts: int, proposers: int, seconds: float, tokens: int | None = None
    ) -> Effort:
        """Choose how many of the prompts there is time for, and the length of their replies."""
        count = 0.0
        for length in (tokens,) if tokens else LENGTHS:
            text = self.reading + length * self.a_token
            count = seconds / (text * (1 + PROPOSER_TIME * proposers))
            if count >= MIN_PROMPTS:
                break
        return Effort(min(prompts, max(MIN_PROMPTS, int(min(count, prompts)))), length)
