"""The state of one generation, independent of any engine."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import Literal

from localspec.base.tokens import NONE, History, Tokens
from localspec.core.decoding.growing_text import GrowingText
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.adapter import Scales
from localspec.interfaces.draft_request import NO_HINTS, Hints
from localspec.interfaces.media_positions import Stretch

Finish = Literal["stop", "length"]


@dataclass(frozen=True, slots=True)
class Ending:
    """The end of a generation: a token that ends it, a text that does, or its length."""

    limit: int  # of prompt and reply together
    tokens: frozenset[int] = frozenset()
    texts: tuple[str, ...] = ()


@dataclass(slots=True, eq=False)
class Generation:
    """One sequence: its tokens, its settings, and how much of it the target holds."""

    history: History  # prompt and everything emitted
    sampler: Sampler
    ending: Ending
    spell: Callable[[int], bytes]  # the bytes that a token adds to the text
    depth: int = 0  # most tokens to draft; 0: plain decoding
    hints: Hints = NO_HINTS
    reports: bool = False  # whether outcomes have the distributions of its tokens
    scores: int = 0  # tokens of the prompt in a round, if their log-probabilities are reported
    adapters: Scales = ()  # that the target computes this text with
    ahead: bool = False  # whether its prompt is read in advance, for a request that may come
    media: tuple[Stretch, ...] = ()  # where pictures and sounds stand in the prompt
    parting: int = 0  # tokens after which what the target holds is saved; 0: nowhere
    shares: bool = True  # whether it may go on from what another slot holds
    awaits: bool = False  # whether a prompt that begins alike is read in its place
    edge: int = 0  # tokens after which its turn ends, as one that awaits it goes on there; 0: none
    reused: int = 0  # tokens of the prompt that it did not read itself
    slot: int = -1
    cached: int = 0  # how many tokens of the history the target holds
    waited: int = 0  # rounds since its last turn
    age: int = 0  # rounds beside others since it was admitted
    finish: Finish | None = None
    prompt_tokens: int = field(init=False)
    text: GrowingText = field(init=False)

    def __post_init__(self) -> None:
        self.prompt_tokens = len(self.history)
        self.text = GrowingText(self.ending.texts)

    @property
    def tokens(self) -> Tokens:
        return self.history.view

    @property
    def held(self) -> Tokens:
        """The tokens that the target holds."""
        return self.tokens[: self.cached]

    def shared_with(self, other: Generation) -> Tokens:
        """The tokens held whose KV cache another text may use: that of the same adapters."""
        return self.held if self.adapters == other.adapters else NONE

    @property
    def reads(self) -> bool:
        """Whether nothing was emitted yet."""
        return self.history.size == self.prompt_tokens

    def encoding(self) -> Future[object] | None:
        """Return the encoding, still under way, of the picture to be read next; None: read on."""
        for stretch in self.media:
            if stretch.start <= self.cached < stretch.end:
                return stretch.run.encoding()
        return None

    @property
    def remaining(self) -> int:
        """Count the tokens that may still be emitted."""
        return self.ending.limit - self.history.size

    def extend(self, tokens: list[int]) -> int:
        """Append tokens up to the first that ends the text; return how many were kept."""
        remaining = self.remaining
        count = self._count_to_end(tokens[:remaining])
        if self.finish is None and count == remaining:
            self.finish = "length"
        self.sampler.emit(tokens[:count])
        self.history.extend(tokens[:count])
        if self.finish:
            self.text.close()
        return count

    def append(self, token: int, piece: bytes) -> None:
        """Append a token, and the bytes that it adds to the text.

        It does what `extend` does for one token, in a third of the time.
        """
        over = False
        if self.sampler.adjusts:
            over = self.sampler.over((token,))
            self.sampler.emit((token,))
        self.history.append(token)
        if token in self.ending.tokens or self.text.add(piece) or over:
            self.finish = "stop"
        elif self.history.size >= self.ending.limit:
            self.finish = "length"
        if self.finish:
            self.text.close()

    def _count_to_end(self, tokens: list[int]) -> int:
        """Count the tokens up to and with the one that ends the text."""
        ends, spell, text = self.ending.tokens, self.spell, self.text
        constraint = self.sampler.constraint
        for at, token in enumerate(tokens, start=1):
            over = token in ends or text.add(spell(token))
            if over or (constraint is not None and constraint.over(tokens[:at])):
                self.finish = "stop"
                return at
        return len(tokens)
