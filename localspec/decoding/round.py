"""One speculative round, for every scheduled sequence at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from localspec.backend import Model, Next, Row
from localspec.decoding.generation import Generation
from localspec.decoding.verify import settle, verify
from localspec.draft import EMPTY, NEVER, Draft
from localspec.proposer import Ask, Proposer
from localspec.sampling.distribution import Distribution
from localspec.sampling.filters import best
from localspec.tokens import Logits


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
    def asks(self) -> bool:
        """Whether the proposer is asked: for a draft, or to keep up with a prompt."""
        return self.limit > 0 or (self.generation.depth > 0 and not self.emits)

    def ask(self, beside: int) -> Ask:
        """Ask for a draft, to be verified beside so many prompt tokens."""
        g = self.generation
        history = g.tokens[: g.cached + self.feed]
        return Ask(g.slot, history, self.limit, g.sampler, g.prompt_tokens, g.hints, beside=beside)

    def within_grammar(self, draft: Draft) -> Draft:
        """Cut a draft from prompt lookup where it leaves the grammar.

        A sampled draft stays whole: to replace its tokens by their value would bias the output.
        Verification masks the target's distribution instead.
        """
        constraint = self.generation.sampler.constraint
        if constraint is None or draft.sources or not len(draft):
            return draft
        kept = constraint.keeps(draft.tokens.tolist())
        return replace(draft, tokens=draft.tokens[:kept], confidences=draft.confidences[:kept])

    def row(self, draft: Draft) -> Row:
        g = self.generation
        tokens = g.tokens[g.cached : g.cached + self.feed]
        drafted = len(draft.tokens)
        if drafted:
            tokens = np.concatenate((tokens, draft.tokens))
        return Row(g.slot, tokens, self.emits + drafted, drafted, self._next(draft))

    def _next(self, draft: Draft) -> Next | None:
        """Tell the engine how the next token will be sampled, if it is likely to be fed alone."""
        g = self.generation
        return Next(g.sampler, g.history.size) if self.rests(draft) and g.room > 1 else None

    def rests(self, draft: Draft) -> int:
        """Count the rounds after this one that are likely to feed one token and draft nothing.

        Where a text is watched, that tells when they end.
        """
        g = self.generation
        plain = self.emits and not g.sampler.adjusts
        return (draft.rests if g.depth and not draft.watch else NEVER) if plain else 0

    def is_plain(self, draft: Draft) -> bool:
        """Whether it feeds one token, and samples the next by the target's logits as they are."""
        adjusts = self.generation.sampler.adjusts
        return self.emits and self.feed == 1 and not len(draft.tokens) and not adjusts


class Outcome(NamedTuple):
    """The result of a round for one sequence."""

    turn: Turn
    draft: Draft
    logits: Logits  # the target's, one row per emitted token; valid until the next round
    emitted: int  # tokens appended to the history
    accepted: int  # how many of them were drafted
    rounds: int = 1  # more where several were run without drafts, one after the other


def propose(proposer: Proposer, turns: Sequence[Turn]) -> list[Draft]:
    """Ask for a draft for each turn; none is asked for where nothing may be drafted."""
    asking = [turn for turn in turns if turn.asks]
    if not asking:
        return [EMPTY] * len(turns)
    read = sum(turn.feed for turn in turns if turn.generation.reads)
    offers = proposer.propose([turn.ask(read) for turn in asking])
    proposed = {turn.slot: draft for turn, draft in zip(asking, offers, strict=True)}
    return [turn.within_grammar(proposed.get(turn.slot, EMPTY)) for turn in turns]


def run(target: Model, turns: Sequence[Turn], drafts: Sequence[Draft]) -> list[Logits]:
    """Feed everything to the target in one batch; `conclude` each before the next."""
    return target.forward([turn.row(draft) for turn, draft in zip(turns, drafts, strict=True)])


def conclude(target: Model, turn: Turn, draft: Draft, logits: Logits) -> Outcome:
    """Emit what the target agrees with and its own next token; withdraw the rest."""
    g = turn.generation
    if not turn.emits:
        g.cached += turn.feed
        return Outcome(turn, draft, logits, 0, 0)
    if not (len(draft.tokens) or g.sampler.adjusts):
        g.cached = g.history.size - 1
        g.append(sampling_of(g)(logits[0]))
        return Outcome(turn, draft, logits, 1, 0)
    verdict = verify(draft, distributions(g, draft, logits), g.sampler.dice, g.history.size)
    emitted = g.extend(verdict)
    # The newest token is known but not yet fed; a recurrent target may hold fewer still.
    g.cached = target.truncate(g.slot, g.history.size - 1)
    return Outcome(turn, draft, logits, emitted, min(len(verdict) - 1, emitted))


def sampling_of(g: Generation) -> Callable[[Logits], int]:
    """Return what samples the next token by logits that nothing is added to."""
    sampling, dice, history = g.sampler.sampling, g.sampler.dice, g.history
    if sampling.greedy:
        return best
    return lambda found: settle(-1, None, sampling.distribution(found), dice, history.size)


def distributions(g: Generation, draft: Draft, logits: Logits) -> Callable[[int], Distribution]:
    """Return the target's distribution after each number of draft tokens, computed on demand."""
    if not g.sampler.adjusts:
        distribution = g.sampler.sampling.distribution
        return lambda at: distribution(logits[at])
    drafted = draft.tokens.tolist()
    return lambda at: g.sampler.distribution(logits[at], drafted[:at])
