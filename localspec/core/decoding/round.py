"""One speculative round, for every scheduled sequence at once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from localspec.base.tokens import LogitRows
from localspec.core.decoding.generation import Generation
from localspec.core.decoding.plain_rounds import plain_step, token_sampler
from localspec.core.decoding.turn import Outcome, Turn
from localspec.core.decoding.verify import verify
from localspec.core.sampling import filters
from localspec.core.sampling.filters import best_of_rows
from localspec.interfaces.backend import Model
from localspec.interfaces.distribution import Distribution
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import Proposer

Distributions = Callable[[int], Distribution]  # after so many tokens of a draft


def propose(proposer: Proposer, turns: Sequence[Turn]) -> list[Draft]:
    """Ask for a draft for each turn that wants one, which may be empty; cut them to their texts."""
    asking = [turn for turn in turns if turn.asks]
    if not asking:
        return [EMPTY] * len(turns)
    beside = sum(turn.feed for turn in turns if turn.generation.reads)  # tokens of prompts
    proposed = proposer.propose([turn.ask(beside) for turn in asking])
    drafts = {turn.slot: draft for turn, draft in zip(asking, proposed, strict=True)}
    return [within_text(turn.generation, drafts.get(turn.slot, EMPTY)) for turn in turns]


def within_text(g: Generation, draft: Draft) -> Draft:
    """Cut a draft after an end token, before a picture, and where it leaves the grammar.

    What follows a copied message in the prompt may be the next message, or a picture.
    """
    if not len(draft.tokens):
        return draft
    tokens, ends, constraint = draft.tokens.tolist(), g.ending.tokens, g.sampler.constraint
    if min(tokens) < 0:
        tokens = tokens[: next(at for at, token in enumerate(tokens) if token < 0)]
    if not ends.isdisjoint(tokens):
        tokens = tokens[: 1 + next(at for at, token in enumerate(tokens) if token in ends)]
    length = constraint.keeps(tokens) if constraint else len(tokens)
    if length == len(draft.tokens):
        return draft
    return replace(draft, tokens=draft.tokens[:length], confidences=draft.confidences[:length])


def run(target: Model, turns: Sequence[Turn], drafts: Sequence[Draft]) -> Sequence[LogitRows]:
    """Feed everything to the target in one batch; `conclude` each before the next."""
    return target.forward([turn.row(draft) for turn, draft in zip(turns, drafts, strict=True)])


def conclude(target: Model, turn: Turn, draft: Draft, logits: LogitRows) -> Outcome:
    """Emit tokens by the logits; those after tokens of a prompt that is scored are set apart."""
    scored = turn.scored
    if not scored:
        return emit(target, turn, draft, logits)
    rows = list(logits)
    return emit(target, turn, draft, rows[scored:])._replace(scored=rows[:scored])


def emit(target: Model, turn: Turn, draft: Draft, logits: LogitRows) -> Outcome:
    """Emit the draft tokens that the target accepts and one of its own; take back the others."""
    g = turn.generation
    if not turn.emits:
        g.cached += turn.feed
        return Outcome(turn, draft, logits, 0, 0)
    if not len(draft.tokens) and not g.reports:
        plain_step([g], [token_sampler(g)], [logits[0]])
        return Outcome(turn, draft, logits, 1, 0)
    distribution_at, drawn_from = distributions(g, draft, logits), list[Distribution]()
    if g.reports:
        distribution_at = noting(distribution_at, drawn_from)
    verdict = verify(draft, distribution_at, g.sampler.dice, g.history.size)
    emitted = g.extend(verdict)
    # The newest token is known but not yet fed; a recurrent target may hold fewer still.
    g.cached = target.truncate(g.slot, g.history.size - 1)
    accepted = min(len(verdict) - 1, emitted)
    return Outcome(turn, draft, logits, emitted, accepted, distributions=drawn_from)


def distributions(g: Generation, draft: Draft, logits: LogitRows) -> Distributions:
    """Return the target's distribution after each number of draft tokens, computed on demand."""
    if g.sampler.unadjusted > len(draft.tokens):
        sampling = g.sampler.sampling
        if sampling.greedy:
            best = best_of_rows(logits)
            return lambda at: Distribution.certain(best(at))
        return lambda at: filters.distribution(sampling, logits[at])
    drafted = draft.tokens.tolist()
    return lambda at: g.sampler.distribution(logits[at], drafted[:at])


def noting(distribution_at: Distributions, noted: list[Distribution]) -> Distributions:
    """Note each distribution that is asked for."""

    def note(at: int) -> Distribution:
        noted.append(distribution_at(at))
        return noted[-1]

    return note
