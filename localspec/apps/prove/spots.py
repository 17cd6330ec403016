"""Places to sample at: texts that leave the target a choice, and its distribution there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from localspec.apps.prove.refeed import empty_slots
from localspec.apps.prove.runs import ProofReply
from localspec.base.tokens import NONE, Logits, Tokens, tokens_of
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Model, Row
from localspec.interfaces.proposer import Ask


@dataclass(frozen=True, slots=True, eq=False)
class Spot:
    """A text to be continued, and the slot that holds it."""

    slot: int
    text: Tokens


@dataclass(frozen=True, slots=True)
class Case:
    """Everything that the distribution of a token depends on, the width of the batch included."""

    spot: Spot
    width: int
    accepted: tuple[int, ...] = ()  # drafts that come before it


@dataclass(frozen=True, slots=True)
class Place:
    """A beginning of a reply; `likely` where n-grams draft one of the target's two best tokens."""

    text: Tokens
    likely: bool
    lead: float


def spots(plain: Sequence[ProofReply], count: int) -> list[Spot]:
    """Choose one spot in each reply, where n-grams may be right and the target is least certain."""
    candidates = [list(places(reply)) for reply in plain]
    best = [min(some, key=rank) for some in candidates if some]
    return [Spot(slot, place.text) for slot, place in enumerate(sorted(best, key=rank)[:count])]


def rank(place: Place) -> tuple[bool, float]:
    return not place.likely, place.lead


def places(reply: ProofReply) -> Iterator[Place]:
    proposer, sampler = NgramProposer(3, 1), Sampler(GREEDY, 0, NONE)
    text = tokens_of(reply.text)
    for at in range(reply.prompt, len(text)):
        [draft] = proposer.propose([Ask(0, text[:at], 1, sampler)])
        if at in reply.answers:
            answer = reply.answers[at].top_two
            likely = len(draft) > 0 and draft.tokens[0] in (answer.best, answer.second)
            yield Place(text[:at], likely, answer.lead)


def reference_logits(model: Model, case: Case) -> Logits:
    """Compute the logits of a case, from an empty slot, with nothing drafted or taken back."""
    empty_slots(model)
    spot = case.spot
    for begin in range(0, len(spot.text) - 1, model.batch):
        model.forward([Row(spot.slot, spot.text[:-1][begin : begin + model.batch], outputs=0)])
    row = np.resize(tokens_of([spot.text[-1], *case.accepted]), case.width)
    [logits] = model.forward([Row(spot.slot, row, outputs=case.width)])
    after: Logits = logits[len(case.accepted)].copy()
    empty_slots(model)
    return after
