"""Asks the proposers that pay, and verifies as much of the best draft as pays."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence

from localspec.backend import MAX_HEAD_LAG
from localspec.control.acceptance import CAUTION, Acceptance
from localspec.control.costs import Batch
from localspec.control.depth import Candidate, Depth
from localspec.control.draft_length import worthiest
from localspec.control.exploration import ALLOWANCE, HEAD_ALLOWANCE
from localspec.control.looks import Looks, Watch
from localspec.control.offers import DraftOffer, Pass
from localspec.draft import EMPTY, Draft
from localspec.pays import Pays, always
from localspec.proposer import (
    ALWAYS_QUIET,
    NOT_QUIET,
    Ask,
    FollowingProposer,
    Proposer,
    Quiet,
    QuietProposer,
    RoundCost,
    notes_of,
)

UNSTATED = 0.5  # confidence in a token whose proposer states none
LOOK = 8  # draft tokens by which to tell whether a proposer could ever pay
# Tokens behind, from which on it is decided whether a head reads them.
DECIDING_LAG = MAX_HEAD_LAG - 16


class Best:
    """Always ask proposers that draft for next to nothing; ask the others if that promises to pay.

    The text judges every draft, verified or not, and so shows which would have paid.
    """

    def __init__(
        self,
        proposers: Mapping[str, Proposer],
        depth: Depth,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.depth = depth
        self._proposers = proposers
        self._notes = notes_of(proposers.values())
        self._following = {
            by: each for by, each in proposers.items() if isinstance(each, FollowingProposer)
        }
        self._quiets = {
            by: each.quiet for by, each in proposers.items() if isinstance(each, QuietProposer)
        }
        self._allowance = HEAD_ALLOWANCE if self._following else ALLOWANCE
        self._clock = clock
        self._proposing = 0.0  # seconds of this round
        self._drafting = 0.0  # of these, with proposers that cost something
        self._cheap: dict[int, set[str]] = {}  # proposers that cost next to nothing, by rows
        self._hopes: dict[str, bool] = {}  # whether a proposer could ever pay
        self._looks = Looks(depth)
        self._quiet: dict[int, Quiet] = {}  # by slot, as of the latest asks
        self._offers: dict[int, tuple[int, list[DraftOffer]]] = {}  # by slot, from where on
        self._shown: dict[tuple[str, int], int] = {}  # tokens of a text that a proposer has read

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        begun = self._clock()
        drafts = self._propose(asks)
        self._proposing += self._clock() - begun
        return drafts

    def _propose(self, asks: Sequence[Ask]) -> list[Draft]:
        reading = [ask for ask in asks if not ask.limit]
        wanting = [ask for ask in asks if ask.limit]
        batch = self.depth.batch(wanting or reading)
        watches = self._watches(wanting, self._looks.pays(batch))
        looking = self._looks.due(wanting, watches)
        for ask in looking:
            self._judge(ask)
        if reading:
            self._read(reading)
        drafts = self._best(looking, batch) if looking else {}
        waits = zip(wanting, self._looks.waits(wanting, watches), strict=True)
        self._quiet = {ask.slot: quiet_for(wait, watches.get(ask.slot)) for ask, wait in waits}
        return [drafts.get(ask.slot, EMPTY) for ask in asks]

    def quiet(self, ask: Ask) -> Quiet:
        return self._quiet.get(ask.slot, NOT_QUIET)

    def _watches(self, asks: Sequence[Ask], pays: Pays) -> dict[int, Watch]:
        """Return what tells of each slot whether a look pays, where that can be told."""
        if pays is always:
            return {}
        asks = [ask.until(ask.limit, pays) for ask in asks]
        return {ask.slot: watch for ask in asks if (watch := self._watch(ask))}

    def _watch(self, ask: Ask) -> Watch | None:
        quiets, length = [], len(ask.history)
        for by in self._proposers:
            if not ask.wants(by):
                continue
            if by not in self._quiets:
                if self._stirs(by, ask) and self._concerned(by, ask):
                    return None
            elif (quiet := self._quiets[by](ask)) is not ALWAYS_QUIET:
                quiets.append(quiet)
        # All of them are asked, as each reads on.
        return lambda text: any([quiet.is_over(len(text) - length, text) for quiet in quiets])  # noqa: C419

    def _read(self, asks: Sequence[Ask]) -> None:
        """Let those that may ever draft keep up with prompts; some do so by themselves."""
        for by in self._proposers:
            hopeless, following = self.depth.hopeless(by, LOOK), self._following.get(by)
            if hopeless and following:
                for ask in asks:
                    following.leave(ask.slot)
            elif not hopeless and not following:
                self._consult(by, [ask for ask in asks if ask.wants(by)], self._clock())

    def release(self, slot: int) -> None:
        for proposer in self._proposers.values():
            proposer.release(slot)
        self.depth.release(slot)
        self._offers.pop(slot, None)
        self._looks.release(slot)
        self._quiet.pop(slot, None)
        self._shown = {key: length for key, length in self._shown.items() if key[1] != slot}

    def note(self, cost: RoundCost) -> None:
        """Learn the cost of a round, and pass it on."""
        looking = (self._proposing - self._drafting) / cost.rounds
        self.depth.note(cost, self._drafting / cost.rounds, looking, self._allowance)
        self._proposing = self._drafting = 0.0
        if self._looks.note(cost.rounds):
            self._cheap.clear()
            self._hopes.clear()
        for note in self._notes:
            note(cost)

    def _judge(self, ask: Ask) -> None:
        start, offers = self._offers.pop(ask.slot, (0, ()))
        text = ask.history[start:].tolist() if offers else []
        for offer in offers:
            right = offer.judge(text)
            if right > (not offer.costly):  # a single token is right by chance
                self._looks.drafted(ask.slot)
            if offer.costly:
                self._shown[offer.by, ask.slot] += right  # it drafted these tokens: it has them
                self.depth.note_right(offer.by, ask.slot, right)

    def _best(self, asks: Sequence[Ask], batch: Batch) -> dict[int, Draft]:
        """Find the best draft for each slot, cut to what is to be verified."""
        now = Pass(batch, self.depth)
        rows = len(asks)
        looks = rows not in self._cheap
        if looks:
            self._cheap[rows] = {by for by in self._proposers if self.depth.is_cheap(by, rows)}
        cheap = self._cheap[rows]
        generously = [ask.until(ask.limit, generous) for ask in asks]
        for by in self._proposers:
            if by in cheap and (eager := [ask for ask in generously if ask.wants(by)]):
                begun = self._clock()
                drafts = self._proposers[by].propose(eager)
                if looks and self._looks.known:  # else it had a prompt to read
                    self._note(by, drafts, begun, missed=0)
                for ask, draft in zip(eager, drafts, strict=True):
                    if len(draft.tokens):
                        caution = 0.0 if draft.sources else CAUTION  # the text judges the rest
                        now.enter(ask.slot, self._weigh(by, ask, draft, now, caution))
        for by in self._proposers:
            if by not in cheap and (able := [ask for ask in asks if ask.wants(by)]):
                self._ask_if_it_pays(by, able, now)
        evenly = self.depth.even and batch.rows > 1 and not self.depth.prices(batch).apart
        if len(now.best) > 1 or (now.best and evenly):
            self._trim(now)
        return {slot: self._kept(slot, offer) for slot, offer in now.best.items() if offer.pays}

    def _trim(self, now: Pass) -> None:
        """Cut the drafts of several rows, which share a batch and the price of its width."""
        offers = [offer for offer in now.best.values() if not offer.tries]
        if offers:
            survivals = [offer.survivals for offer in offers]
            lengths = self.depth.trim(now.batch, survivals)
            for offer, length in zip(offers, lengths, strict=True):
                offer.pays = length

    def _ask_if_it_pays(self, by: str, asks: Sequence[Ask], now: Pass) -> None:
        begun, following = self._clock(), self._following.get(by)
        if following:
            asks = [ask for ask in asks if following.behind(ask.slot) is not None]
        if not any(self._stirs(by, ask) for ask in asks):
            return
        candidates = [self._candidate(by, ask, now) for ask in asks]
        plans = self.depth.plan(by, now.batch, candidates)
        planned = [(c.ask, plan) for c, plan in zip(candidates, plans, strict=True) if plan.limit]
        limited = [ask.until(plan.limit, plan.pays) for ask, plan in planned]
        drafts = self._consult(by, limited, begun)
        if following:
            pairs = zip(candidates, plans, strict=True)
            if idle := [candidate for candidate, plan in pairs if not plan.limit]:
                self._keep_up(by, idle, now.batch)
        for (ask, plan), draft in zip(planned, drafts, strict=True):
            survivals: Sequence[float] = ()
            worth = 0.0
            if draft:
                offer = self._weigh(by, ask, draft, now)
                offer.costly, survivals, worth = True, offer.survivals, offer.worth
                if plan.rates and draft.sources:  # the text alone would not judge it
                    offer.tries, offer.pays = True, len(draft)
                now.enter(ask.slot, offer)
            self.depth.note_worth(by, ask.slot, plan.value(survivals, worth))

    def _concerned(self, by: str, ask: Ask) -> bool:
        """Whether a proposer's drafts could pay, or it follows the text until it is told not to."""
        if by not in self._hopes:
            self._hopes[by] = not self.depth.hopeless(by, LOOK)
        following = self._following.get(by)
        return self._hopes[by] or (following is not None and following.behind(ask.slot) is not None)

    def _stirs(self, by: str, ask: Ask) -> bool:
        """Whether there is anything to decide about a proposer's drafts for a text."""
        following = self._following.get(by)
        late = following is not None and (following.behind(ask.slot) or 0) >= DECIDING_LAG
        return late or not self.depth.sleeps(by, ask.slot)

    def _keep_up(self, by: str, candidates: Sequence[Candidate], batch: Batch) -> None:
        """Let a proposer read what it is far behind with; leave a text where that is too dear.

        One that could never pay leaves it at once.
        """
        following, slots, behind = self._following[by], [], 0
        able = not self.depth.hopeless(by, LOOK)
        for candidate in candidates:
            ask = candidate.ask
            if able and candidate.missed < DECIDING_LAG:
                continue
            missed = behind + candidate.missed
            if able and self.depth.affords_reading(by, batch, missed):
                slots.append(ask.slot)
                behind = missed
                self._shown[by, ask.slot] = len(ask.history)
            else:
                following.leave(ask.slot)
        if slots:
            begun = self._clock()
            following.catch_up(slots)
            seconds = self._clock() - begun
            self._drafting += seconds
            self.depth.costs.note_drafting(by, 1, 0, seconds, behind)

    def _weigh(
        self, by: str, ask: Ask, draft: Draft, now: Pass, caution: float = 0.0
    ) -> DraftOffer:
        """Estimate how much of a draft pays, and keep it to learn from it."""
        acceptance = self._acceptance(by, ask)
        stated = draft.confidences or (UNSTATED,) * len(draft)
        kinds, survivals = acceptance.weigh(stated, caution)
        length, worth = worthiest(survivals, now.prices(len(kinds)))
        offer = DraftOffer(by, draft, acceptance, kinds, survivals, worth, pays=length)
        self._offers.setdefault(ask.slot, (len(ask.history), []))[1].append(offer)
        return offer

    def _kept(self, slot: int, offer: DraftOffer) -> Draft:
        """Cut the draft to what pays."""
        offer.checked = offer.pays
        self._looks.drafted(slot)
        return cut(offer.draft, offer.checked)

    def _acceptance(self, by: str, ask: Ask) -> Acceptance:
        bound = ask.hints.forced is not None
        return self.depth.acceptances.of(by, ask.slot, ask.sampler, bound=bound)

    def _candidate(self, by: str, ask: Ask, now: Pass) -> Candidate:
        """Collect what decides whether a proposer drafts for a sequence."""
        acceptance, missed = self._acceptance(by, ask), self._missed(by, ask)
        return Candidate(ask, acceptance, missed, now.worth(ask.slot), by in self._following)

    def _consult(self, by: str, asks: Sequence[Ask], begun: float) -> list[Draft]:
        """Ask a costly proposer, which first reads the tokens that it has not seen."""
        if not asks:
            return []
        missed = max(self._missed(by, ask) for ask in asks)
        drafts = self._proposers[by].propose(asks)
        self._drafting += self._note(by, drafts, begun, missed)
        for ask in asks:
            self._shown[by, ask.slot] = len(ask.history)
        return drafts

    def _note(self, by: str, drafts: Sequence[Draft], begun: float, missed: int) -> float:
        """Learn how many seconds drafts took, with all that it took to ask for them."""
        depth, seconds = max(map(len, drafts)), self._clock() - begun
        self.depth.costs.note_drafting(by, len(drafts), depth, seconds, missed)
        return seconds

    def _missed(self, by: str, ask: Ask) -> int:
        """Count the tokens that a proposer has not seen of a text, without the newest one."""
        missed = max(len(ask.history) - self._shown.get((by, ask.slot), 0) - 1, 0)
        following = self._following.get(by)
        return min(missed, following.behind(ask.slot) or 0) if following else missed


def quiet_for(wait: int, watch: Watch | None) -> Quiet:
    """Return how long a text is not looked at, of which the next look is so many rounds away."""
    if watch:
        return Quiet(wait, watch)
    return Quiet(max(wait, 2)) if wait else NOT_QUIET


def generous(confidences: Sequence[float]) -> bool:
    """Continue a draft that costs nothing until its tokens become too unlikely to be verified."""
    return confidences[-1] > 0.1


def cut(draft: Draft, length: int) -> Draft:
    """Return the beginning of a draft."""
    if length == len(draft.tokens):
        return draft
    sources = draft.sources and draft.sources[:length]
    return Draft(draft.tokens[:length], draft.by, sources, draft.confidences[:length])
