"""One sequence in one round: its turn, and the outcome."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from localspec.base.tokens import LogitRows, Logits
from localspec.core.decoding.generation import Generation
from localspec.interfaces.backend import Row
from localspec.interfaces.distribution import Distribution
from localspec.interfaces.draft import Draft
from localspec.interfaces.proposer import Ask


class Turn(NamedTuple):
    """The scheduler's grant to one sequence: tokens to feed, and to draft at most."""

    generation: Generation
    feed: int
    limit: int
    emits: bool  # whether it feeds all known tokens, so that a new one can follow

    @property
    def slot(self) -> int:
        return self.generation.slot

    @property
    def scored(self) -> int:
        """Count the tokens fed whose next one stands in the prompt, if that is to be scored."""
        g = self.generation
        return self.feed - self.emits if g.scores and g.reads else 0

    @property
    def begins(self) -> bool:
        """Whether its draft begins the reply."""
        return self.limit > 0 and self.generation.reads

    @property
    def asks(self) -> bool:
        """Whether the proposer is asked: for a draft, or to keep up with a prompt."""
        return self.limit > 0 or (self.generation.depth > 0 and not self.emits)

    @property
    def sees(self) -> bool:
        """Whether it reads positions of a picture or a sound."""
        start = self.generation.cached
        end = start + self.feed
        return any(s.start < end and start < s.end for s in self.generation.media)

    def at_edge(self, capacity: int, batch: int) -> Turn:
        """Cut the turn before a run that is still being encoded, and so that it parts no whole run.

        It ends where others go on differently, too, if what is held is to be saved or copied there.
        A whole run is read in one batch. If the turn begins with one for which the batch has too
        little room left, it waits for a batch with more room; one without any other text is enough.
        """
        g = self.generation
        end = g.cached + self.feed
        for edge in (g.parting, g.edge):
            if g.cached < edge < end:
                turn = self._replace(feed=edge - g.cached, limit=0, emits=False)
                return turn.at_edge(capacity, batch)
        for stretch in g.media:
            is_cut = stretch.run.whole and stretch.start < end < stretch.end
            if g.cached < stretch.start < end and (is_cut or stretch.run.encoding()):
                return self._replace(feed=stretch.start - g.cached, limit=0, emits=False)
            if is_cut:
                feed = stretch.end - g.cached
                if feed > capacity and capacity < batch:
                    return self._replace(feed=0, emits=False)
                return self._replace(feed=feed, emits=stretch.end == g.history.size)
        return self

    def ask(self, beside: int = 0) -> Ask:
        """Ask for a draft, to be verified beside so many prompt tokens."""
        g = self.generation
        history = g.tokens[: g.cached + self.feed]
        return Ask(g.slot, history, self.limit, g.sampler, g.prompt_tokens, g.hints, beside=beside)

    def row(self, draft: Draft) -> Row:
        g = self.generation
        tokens = g.tokens[g.cached : g.cached + self.feed]
        drafted = len(draft.tokens)
        if drafted:
            tokens = np.concatenate((tokens, draft.tokens))
        return Row(g.slot, tokens, self.scored + self.emits + drafted, drafted)


class Outcome(NamedTuple):
    """The result of a round for one sequence, or of several rounds without drafts."""

    turn: Turn
    draft: Draft
    logits: LogitRows  # the target's in the last round, a row per token; valid until the next round
    emitted: int  # tokens appended to the history
    accepted: int  # how many of them were drafted
    rounds: int = 1
    distributions: Sequence[Distribution] = ()  # by which tokens were drawn, if they are reported
    scored: Sequence[Logits] = ()  # the target's after tokens of the prompt, if it is scored
    wasted_seconds: float = 0.0  # of drafting and verifying what was not accepted, by estimate
