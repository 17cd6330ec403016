"""The settings of one reply."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.errors import UsageError
from localspec.grammar.grammar import Grammar
from localspec.sampling.parameters import GREEDY, Sampling

LOGPROBS = 100  # most alternatives reported per token


@dataclass(frozen=True, slots=True)
class Settings:
    max_tokens: int | None = None  # None: until the context is full
    sampling: Sampling = GREEDY
    seed: int | None = None  # None: another one each time
    stop: tuple[str, ...] = ()  # texts that end the reply; not part of it
    ignore_end: bool = False  # go on where the model would stop
    ends: frozenset[int] = frozenset()  # tokens that end the reply besides
    logprobs: int | None = None  # None: none; N: of each token and the N most likely
    proposers: tuple[str, ...] | None = None  # that may draft; None: all
    depth: int | None = None  # most tokens to draft in a round; 0: plain decoding
    prediction: str = ""  # a text that the reply is likely to repeat, in whole or edited
    grammar: Grammar | None = None  # that the reply must follow
    marks: frozenset[int] = frozenset()  # control tokens that are to show in the text

    def __post_init__(self) -> None:
        if self.max_tokens is not None and self.max_tokens < 1:
            raise UsageError(f"max_tokens is {self.max_tokens}; it must be at least 1")
        if self.seed is not None and not 0 <= self.seed < 1 << 64:
            raise UsageError(f"seed is {self.seed}; it must be at least 0 and below 2^64")
        if any(not text for text in self.stop):
            raise UsageError("a stop text is empty; give at least one character")
        if self.logprobs is not None and not 0 <= self.logprobs <= LOGPROBS:
            raise UsageError(f"logprobs is {self.logprobs}; it must be from 0 to {LOGPROBS}")
        if self.depth is not None and self.depth < 0:
            raise UsageError(f"depth is {self.depth}; it must be at least 0")


DEFAULT = Settings()
