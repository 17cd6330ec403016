"""A request for a draft, and the knowledge that a request has of its reply."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import NamedTuple

from localspec.base.tokens import NONE, Tokens
from localspec.interfaces.draft_stopping import Pays, always, likely
from localspec.interfaces.media_positions import without_media
from localspec.interfaces.token_source import TokenSource


@dataclass(frozen=True, slots=True)
class Hints:
    """A request's knowledge of its own reply."""

    # A text that the reply is likely to repeat, in whole or edited.
    prediction: Tokens = field(default_factory=lambda: NONE)
    forced: Callable[[Tokens], Tokens] | None = None  # tokens that must follow a reply
    by: tuple[str, ...] | None = None  # the proposers that may draft; None: all
    media: int = 0  # positions of pictures and sounds in its prompt


NO_HINTS = Hints()


class Ask(NamedTuple):
    """Request for a draft for one sequence. History grows between asks, until `release`.

    A limit of 0 asks for no draft: it lets a proposer keep up while a prompt is being read.
    """

    slot: int
    history: Tokens  # prompt and reply; numbers below 0 are positions of pictures
    limit: int
    sampler: TokenSource
    prompt: int = 0  # tokens of the prompt, of which the history may be only the beginning
    hints: Hints = NO_HINTS
    pays: Pays = always  # whether to draft on, by the confidences of the tokens so far
    beside: int = 0  # tokens of prompts that are read in the same batch

    @property
    def begins(self) -> bool:
        """Whether the reply begins with this draft, read beside the last piece of its prompt."""
        return self.limit > 0 and self.beside > 0 and len(self.history) == self.prompt

    @property
    def is_forced(self) -> bool:
        """Whether there are tokens that must follow."""
        forced = self.hints.forced
        return forced is not None and len(forced(self.history[self.prompt :])) > 0

    def wants(self, by: str) -> bool:
        """Whether the proposer of that name may draft."""
        return self.hints.by is None or by in self.hints.by

    def until(self, limit: int, pays: Pays) -> Ask:
        """Return the same ask with another end."""
        slot, history, _, sampler, prompt, hints, _, beside = self
        return Ask(slot, history, limit, sampler, prompt, hints, pays, beside)

    def blind(self) -> Ask:
        """Return the same ask for a proposer that reads tokens only."""
        if not self.hints.media:
            return self
        history = without_media(self.history)
        prompt = self.prompt - len(self.history) + len(history)
        return self._replace(history=history, prompt=prompt)

    def pays_above(self, floor: float) -> Pays:
        """Return its own rule for stopping, or else one by the chance that all are right."""
        return likely(floor) if self.pays is always else self.pays
