"""The proposers of a proof: those a user would have, and two that are often wrong."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from localspec.apps.prove.runs import ProofReply
from localspec.apps.prove.spots import Case, Spot, reference_logits
from localspec.base.tokens import tokens_of
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.pairing.pair import Pair
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.head import HeadProposer
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.suffix import SuffixProposer
from localspec.core.sampling import filters
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.backend import Model
from localspec.interfaces.costs import Costs
from localspec.interfaces.dice import Dice
from localspec.interfaces.distribution import Distribution
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import Ask, Proposer, Quiet, quiet_of

Proposers = Mapping[str, Callable[[], Proposer]]  # by the names under which they are reported

FREE = {1: 1000.0, 100: 1001.0}  # seconds of a forward to which any draft adds nothing
WARMER = 1.5  # how much warmer than the target `DrawnDrafts` draws


def usual_proposers(models: Pair) -> Proposers:
    """Make the usual proposers, each drafting as much as it is allowed to, and the best of them."""
    proposers: dict[str, Callable[[], Proposer]] = {
        "ngram": lambda: NgramProposer(3, 1),
        "suffix": lambda: SuffixProposer(floor=0),
    }
    if (draft := models.draft) is not None:
        proposers["draft-model"] = lambda: DraftModelProposer(draft, 0, models.draft_context)
    if (head := models.target.head) is not None:
        proposers[head.proposer] = lambda: HeadProposer(head, floor=0)
    alone = dict(proposers)
    proposers["auto"] = lambda: Unpriced(
        Best({name: make() for name, make in alone.items()}, Depth(Costs(FREE)))
    )
    return proposers


@dataclass(frozen=True, slots=True)
class Unpriced:
    """Hides the costs of rounds from a proposer, so that its drafts stay long."""

    proposer: Proposer

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return self.proposer.propose(asks)

    def quiet(self, ask: Ask) -> Quiet:
        return quiet_of(self.proposer)(ask)

    def release(self, slot: int) -> None:
        self.proposer.release(slot)


class Slips:
    """Drafts the plain replies, but with the second most likely token at one place.

    So drafts of every length occur with a mistake at every place, and without one.
    """

    def __init__(self, replies: Sequence[ProofReply]) -> None:
        self._replies = replies
        self._dice = Dice(0)

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [self._draft(ask) for ask in asks]

    def release(self, slot: int) -> None:
        pass

    def _draft(self, ask: Ask) -> Draft:
        history = ask.history.tolist()
        length = len(history)
        for reply in self._replies:
            if reply.text[:length] == history:
                tokens = reply.text[length : length + ask.limit]
                slip = int(self._dice.coin(length) * (ask.limit + 1))
                if slip < len(tokens) and length + slip in reply.answers:
                    tokens[slip] = reply.answers[length + slip].top_two.second
                return Draft(tokens_of(tokens), "slips")
        return EMPTY


class DrawnDrafts:
    """Draws drafts from the target's distribution at a higher temperature, taken to stay the same.

    So the first draft token is mostly right, and the next is often wrong.
    """

    def __init__(self, distributions: Mapping[bytes, Distribution]) -> None:
        self._distributions = distributions  # by history

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [self._draft(ask) if ask.limit else EMPTY for ask in asks]

    def release(self, slot: int) -> None:
        pass

    def _draft(self, ask: Ask) -> Draft:
        distribution, dice = self._distributions[ask.history.tobytes()], ask.sampler.dice
        places = range(len(ask.history), len(ask.history) + ask.limit)
        return Draft(tokens_of([distribution.draw(dice, place) for place in places]), "drawn")


def drawn_drafts(model: Model, spots: Sequence[Spot], sampling: Sampling) -> DrawnDrafts:
    warm = replace(sampling, temperature=WARMER * sampling.temperature)
    states = [(spot, reference_logits(model, Case(spot, width=1))) for spot in spots]
    return DrawnDrafts(
        {spot.text.tobytes(): filters.distribution(warm, logits) for spot, logits in states}
    )
