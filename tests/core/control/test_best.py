"""The proposers that are asked, the drafts that are verified, and learning from the text."""

from __future__ import annotations

import collections
from functools import partial

import numpy as np
import pytest

from localspec.base.tokens import tokens_of
from localspec.core.control import offers as offers_module
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.control.exploration import ALLOWANCE, HEAD_ALLOWANCE, START
from localspec.core.control.offers import Offers
from localspec.core.control.priced_proposer import DECIDING_LAG, REACH, PricedProposer, generous
from localspec.core.decoding.verify import verify
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.draft_while_likely import draft_of
from localspec.core.proposers.forced import ForcedProposer
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.settings import Settings
from localspec.core.sampling import filters
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Row
from localspec.interfaces.costs import NO_ATTENTION, Attention, Batch, Costs
from localspec.interfaces.dice import Dice
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import ALWAYS_QUIET, NOT_QUIET, Ask, Hints, Quiet, RoundCost
from tests.chi_square import chi_square, limit
from tests.runs import Want, converse, replies, said, scripted

FLAT = {1: 0.01, 17: 0.011}


class Clock:
    """Time that passes only when a proposer works."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Counter:
    """Drafts that the text counts upwards; takes its time and keeps what it was asked."""

    def __init__(self, clock, seconds, step=1, most=99):
        self.asked = []
        self._clock, self._seconds, self._step = clock, seconds, step
        self._most = most

    def propose(self, asks):
        self.asked += asks
        self._clock.now += self._seconds * max(ask.limit for ask in asks)
        return [self._draft(ask) if ask.limit else EMPTY for ask in asks]

    def _draft(self, ask):
        ahead = np.arange(1, min(ask.limit, self._most) + 1) * self._step
        tokens = (ask.history[-1] + ahead).tolist()
        return Draft(tokens_of(tokens), "counter")

    def release(self, slot):
        pass


class Lookup:
    """Drafts that the text counts upwards, or finds none; takes as long for either."""

    def __init__(self, clock):
        self.finds = True
        self._clock, self._counter = clock, Counter(clock, 0.0)

    def propose(self, asks):
        self._clock.now += 1e-4
        return self._counter.propose(asks) if self.finds else [EMPTY for _ in asks]

    def release(self, slot):
        pass


def ask(length, limit=8, slot=0):
    history = tokens_of(list(range(length)))
    return Ask(slot, history, limit, Sampler(GREEDY, 0, history[:1]), prompt=1)


def count(best, clock, length=1, rounds=60):
    """Let a text count upwards; the depths that were checked."""
    depths = []
    for _ in range(rounds):
        begun = clock.now
        [draft] = best.propose([ask(length)])
        right = 0
        for token in draft.tokens.tolist():
            if token != length + right:
                break
            right += 1
        clock.now += 0.01 + 0.0001 * len(draft)
        best.note(RoundCost(1, 1 + len(draft), 1 + right, clock.now - begun, reads=False))
        depths.append(len(draft))
        length += 1 + right
    return depths


def made(clock, flat=True, **proposers):
    """Make the best of some proposers, each with its seconds for a token."""
    prices = {by: {1: seconds, 8: 8 * seconds} for by, (_, seconds) in proposers.items()}
    depth = Depth(Costs(FLAT if flat else {1: 0.01, 9: 0.03}, prices))
    return Best({by: proposer for by, (proposer, _) in proposers.items()}, depth, clock)


def counter(clock, seconds=1e-5, step=1):
    return Counter(clock, seconds, step), seconds


def drafting(seed, seconds):
    """A draft model, the target's twin if its seed is 1."""
    return DraftModelProposer(scripted(seed)), seconds


def test_who_is_right_is_soon_followed_as_far_as_may_be():
    clock = Clock()
    best = made(clock, counter=counter(clock))
    assert count(best, clock)[-20:] == [8] * 20


class Copier:
    """Drafts that the text counts upwards; a run that held for long is likely to hold on."""

    def propose(self, asks):
        return [self._draft(ask) if ask.limit else EMPTY for ask in asks]

    def _draft(self, ask):
        run, newest = len(ask.history), int(ask.history[-1])
        steps = ((newest + at, 1 - 0.5 / (run + at)) for at in range(1, 1000))
        return draft_of(steps, ask, 0.0, "copier")

    def release(self, slot):
        pass


def test_a_draft_grows_while_all_of_it_is_right_until_it_is_as_long_as_may_be():
    best, lengths, length = Best({"copier": Copier()}, Depth(Costs(FLAT)), Clock()), [], 1
    while len(lengths) < 12:
        [draft] = best.propose([ask(length, limit=512)])
        best.note(RoundCost(1, 1 + len(draft), 1 + len(draft), 0.011, reads=False))
        length += 1 + len(draft)
        lengths.append(len(draft))
    assert lengths == sorted(lengths)
    assert lengths[0] <= 64
    assert lengths[6] == 512


def test_after_a_wrong_token_a_draft_is_as_short_as_a_first_one():
    best, length = Best({"copier": Copier()}, Depth(Costs(FLAT)), Clock()), 1
    for _ in range(6):
        [draft] = best.propose([ask(length, limit=512)])
        length += 1 + len(draft)
    assert len(draft) > 64
    wrong = ask(length, limit=512)
    wrong.history[-3] = 0
    [draft] = best.propose([wrong])
    assert 0 < len(draft) <= 64


def test_who_takes_long_is_asked_for_no_long_draft():
    clock = Clock()
    best = made(clock, counter=counter(clock, 1e-3))
    best.propose([ask(1, limit=512)])
    asked = best._proposers["counter"]._proposer.asked
    assert max(each.limit for each in asked) == REACH


def test_who_found_nothing_for_long_is_still_asked():
    """Each look without a draft made drafts dearer, until lookup was hardly asked any more."""
    clock = Clock()
    lookup = Lookup(clock)
    best = Best({"lookup": lookup}, Depth(Costs(FLAT)), clock)
    assert count(best, clock, rounds=30)[-1] == 8
    lookup.finds = False
    count(best, clock, length=300, rounds=3000)
    assert best.depth.is_cheap("lookup", 1)
    lookup.finds = True
    assert count(best, clock, length=3400, rounds=30)[-15:] == [8] * 15


@pytest.mark.parametrize("seconds", [1e-5, 4e-3])
def test_only_who_is_wanted_is_asked(seconds):
    clock = Clock()
    one, other = Counter(clock, seconds), Counter(clock, seconds)
    best = Best({"one": one, "other": other}, Depth(Costs(FLAT)), clock)
    for length in range(2, 40):
        best.propose([ask(length)._replace(hints=Hints(by=("other",)))])
        best.propose([ask(length, limit=0)._replace(hints=Hints(by=("other",)))])
    assert not one.asked
    assert other.asked


def test_who_is_wrong_is_soon_not_followed():
    clock = Clock()
    best = Best({"counter": Counter(clock, 1e-5, step=2)}, Depth(Costs({1: 0.01, 9: 0.03})), clock)
    assert sum(count(best, clock)[-20:]) == 0


def test_who_was_not_followed_is_judged_all_the_same():
    """The proposer costs nothing, and is right again from token 100 on."""
    clock = Clock()
    wrong, seconds = counter(clock, step=2)
    best = made(clock, flat=False, counter=(wrong, seconds))
    assert sum(count(best, clock, rounds=99)[-20:]) == 0
    wrong._step = 1
    assert min(count(best, clock, length=100, rounds=40)[-10:]) > 4


def test_who_takes_long_and_is_wrong_is_rarely_asked():
    clock = Clock()
    dear, seconds = counter(clock, 0.002, step=2)
    best = made(clock, counter=(dear, seconds))
    count(best, clock, rounds=200)
    assert len(dear.asked) < 25


def test_the_one_who_is_right_is_preferred():
    clock = Clock()
    best = made(clock, wrong=counter(clock, step=3), right=counter(clock))
    assert count(best, clock)[-10:] == [8] * 10


@pytest.mark.parametrize("names", [("long", "short"), ("short", "long")])
def test_of_two_that_are_right_the_longer_draft_is_verified(names):
    clock = Clock()
    made_of = {"long": Counter(clock, 1e-6), "short": Counter(clock, 1e-6, most=2)}
    best = made(clock, **{name: (made_of[name], 1e-6) for name in names})
    assert count(best, clock)[-10:] == [8] * 10


def test_a_costly_proposer_is_not_asked_where_a_free_draft_is_as_good():
    clock = Clock()
    costly = Counter(clock, 0.001)
    best = made(clock, free=counter(clock), costly=(costly, 0.001))
    count(best, clock, rounds=20)
    costly.asked.clear()
    assert count(best, clock, length=300, rounds=40)[-10:] == [8] * 10
    assert costly.asked == []


@pytest.mark.parametrize("rows", [1, 2])
def test_a_draft_that_was_made_to_learn_is_judged_by_the_text_and_not_verified(rows):
    clock = Clock()
    wrong = Counter(clock, 0.001, step=2)
    best = made(clock, flat=False, counter=(wrong, 0.001))
    tried = []
    for length in range(10, 210):
        begun = clock.now
        wrong.asked.clear()
        drafts = best.propose([ask(length, slot=slot) for slot in range(rows)])
        tokens = rows + sum(map(len, drafts))
        seconds = clock.now - begun + 0.0075 + 0.0025 * tokens
        best.note(RoundCost(rows, tokens, rows, seconds, reads=False))
        if length > 100 and wrong.asked:
            tried.append([len(draft) for draft in drafts if draft])
            assert tried[-1] == []
    assert tried


def test_a_text_without_drafts_is_looked_at_ever_more_rarely_until_it_repeats():
    clock = Clock()
    free, _ = counter(clock, step=2)
    best = made(clock, flat=False, counter=(free, 1e-5))
    looked = []
    for length in (1, 13, 40):
        free.asked.clear()
        count(best, clock, length=length, rounds=8)
        looked.append(len(free.asked))
        count(best, clock, length=length + 8, rounds=4 if length == 1 else 20)
    assert looked == [8, 2, 1]
    free._step = 1
    assert sum(count(best, clock, length=500, rounds=40)[-8:]) > 24


def test_a_free_draft_is_doubted_until_the_text_has_shown_its_worth(monkeypatch):
    checked = []
    for caution in (offers_module.CAUTION, 0.0):
        monkeypatch.setattr(offers_module, "CAUTION", caution)
        clock = Clock()
        best = made(clock, flat=False, counter=counter(clock, step=2))
        checked.append(sum(count(best, clock, rounds=30)))
    assert checked[0] < checked[1]


def test_a_grammar_is_asked_in_every_round():
    clock = Clock()
    best = made(clock, flat=False, counter=counter(clock, step=2), forced=(ForcedProposer(), 1e-5))
    count(best, clock, rounds=100)
    for length in range(200, 210):
        hints = Hints(forced=lambda reply: tokens_of([len(reply) + 1, len(reply) + 2]))
        assert len(best.propose([ask(length)._replace(hints=hints)])[0])
        best.note(RoundCost(1, 3, 3, 0.015, reads=False))
        best._ask_timing._busy[0] = -100  # rounds in which nothing was checked


def test_a_prompt_is_shown_while_it_is_read_but_not_to_the_hopeless():
    clock = Clock()
    shown, hopeless = counter(clock), counter(clock, 0.02)
    best = made(clock, shown=shown, hopeless=hopeless)
    assert len(best.propose([ask(50, limit=0)])[0]) == 0
    assert [len(each.history) for each in shown[0].asked] == [50]
    assert hopeless[0].asked == []


class Follower(Counter):
    """A head that is always wrong, and reads what the text has more when it is told to."""

    def __init__(self, clock, reading):
        super().__init__(clock, 2e-3, step=2)
        self.read, self.caught_up, self.left = 1, 0, []
        self._reading, self._length = reading, 1

    def propose(self, asks):
        self.catch_up([0])
        return super().propose(asks)

    def grows(self, length):
        self._length = length

    def behind(self, slot):
        return None if slot in self.left else self._length - self.read

    def catch_up(self, slots):
        self._clock.now += self._reading * (self._length - self.read)
        self.caught_up, self.read = self.caught_up + 1, self._length

    def leave(self, slot):
        self.left.append(slot)


def followed(reading, rounds, drafting=2e-3, wide=0.03):
    """Let a text grow without a right draft; return the head, and the seconds of it all."""
    clock = Clock()
    head = Follower(clock, reading)
    costs = Costs({1: 0.01, 9: wide}, {"head": {1: drafting, 8: 8 * drafting}}, {"head": reading})
    best = Best({"head": head}, Depth(costs), clock)
    for length in range(2, 2 + rounds):
        head.grows(length - 1)
        begun = clock.now
        drafted = len(best.propose([ask(length)])[0])
        clock.now += 0.01 + 0.0025 * drafted
        best.note(RoundCost(1, 1 + drafted, 1, clock.now - begun, reads=False))
    return head, clock.now


def test_a_head_that_does_not_pay_is_left_where_reading_along_is_dear():
    head, seconds = followed(reading=8e-4, rounds=500)
    assert head.left == [0]
    asked = len(head.asked)
    assert asked
    assert seconds < 0.01 * 500 * 1.04
    assert len(followed(reading=8e-4, rounds=1000)[0].asked) == asked


def test_a_head_reads_along_where_that_costs_next_to_nothing():
    head, seconds = followed(reading=2e-5, rounds=500)
    assert not head.left
    assert head.behind(0) <= DECIDING_LAG + 4
    assert seconds < 0.01 * 500 * 1.04


@pytest.mark.parametrize("wide", [0.03, 0.07])
def test_a_head_that_can_never_pay_reads_nothing(wide):
    head, _ = followed(reading=2e-5, rounds=5, drafting=1.0, wide=wide)
    assert (head.read, head.left) == (1, [0])
    clock = Clock()
    head = Follower(clock, 2e-5)
    best = made(clock, head=(head, 1.0))
    best.propose([ask(5, limit=0)])
    assert head.left == [0]
    assert not head.caught_up


def test_a_round_beside_a_head_adds_less_to_the_budget():
    added = []
    for proposer in (Follower(Clock(), 1e-5), Counter(Clock(), 1e-5)):
        best = made(Clock(), one=(proposer, 2e-3))
        before = best.depth.budget.balance
        best.note(RoundCost(1, 1, 1, 0.01, reads=False))
        added.append(best.depth.budget.balance - before)
    assert added == pytest.approx([HEAD_ALLOWANCE, ALLOWANCE])


def test_tokens_that_a_head_drafted_rightly_are_not_read_again():
    clock = Clock()
    depth = Depth(Costs(FLAT, {"head": {1: 1e-3, 8: 8e-3}}, {"head": 1e-6}))
    head = Follower(clock, 1e-6)
    proposer = PricedProposer("head", head, depth, clock)
    proposer.draft([ask(10)], Offers(Batch(1), depth))
    proposer.note_right(0, 4)
    head.grows(17)
    assert proposer._count_unread(ask(17)) == 2


class Reader(Counter):
    """A draft model: it reads a text before it drafts, and notes how much of it at once."""

    def __init__(self, clock, drafting=1e-3, reading=5e-4, step=1):
        super().__init__(clock, drafting, step)
        self.read, self.pieces = 0, []
        self._reading = reading

    def unread(self, ask):
        return max(len(ask.history) - self.read - 1, 0)

    def propose(self, asks):
        for ask in asks:
            self.pieces.append(self.unread(ask))
            self._clock.now += self._reading * self.unread(ask)
            self.read = max(self.read, len(ask.history) - 1)
        return super().propose(asks)


def beside_reader(reader, curve=FLAT, drafting=1e-3, **free):
    """Make the best of a draft model, and of proposers that are free."""
    prices = {"reader": {1: drafting, 8: 8 * drafting}}
    costs = Costs(curve, prices, {"reader": reader._reading})
    clock = reader._clock
    return Best({**free, "reader": reader}, Depth(costs), clock)


# Rounds of Qwen2.5-Coder-1.5B in Q4_K_M on two cores, of which its 0.5B takes 0.46 for a token.
CODER = {1: 0.067, 2: 0.113, 3: 0.147, 5: 0.179, 9: 0.412, 17: 0.681}


def test_a_draft_is_priced_by_the_steps_that_it_took():
    """One that stopped early once made short drafts seem as dear as long ones."""

    class Late(Counter):
        """Looks at a token only once the next two are drafted."""

        def _draft(self, ask):
            self._clock.now += 3 * self._seconds - self._seconds * ask.limit
            return Draft(tokens_of([ask.history[-1] + 1]), "counter", steps=3)

    clock = Clock()
    best = made(clock, counter=(Late(clock, 1e-3), 1e-3))
    count(best, clock, rounds=60)
    assert best.depth.costs.drafting("counter", 1).at(1) == pytest.approx(1e-3, rel=0.05)


def test_a_prompt_is_read_by_a_draft_model_after_the_first_token_and_in_pieces_of_a_round():
    clock = Clock()
    reader = Reader(clock)
    best = beside_reader(reader)
    best.propose([ask(100, limit=0)])
    assert reader.asked == []
    depths = count(best, clock, length=100, rounds=20)
    assert max(reader.pieces) * reader._reading <= FLAT[1] * 1.6  # of at least 32 tokens
    assert depths[:3] == [0, 0, 0]
    assert depths[-10:] == [8] * 10


def test_a_text_that_is_read_for_its_first_draft_is_looked_at_in_each_round():
    clock = Clock()
    reader = Reader(clock)
    best = beside_reader(reader)
    count(best, clock, length=100, rounds=1)
    best._ask_timing._busy[0] = best._ask_timing._looked[0] = -3  # no draft was good for long
    best._ask_timing.rounds = 30
    count(best, clock, length=101, rounds=2)
    assert len(reader.pieces) == 3


def test_what_is_read_to_draft_later_is_not_taken_from_what_may_be_lost():
    clock = Clock()
    reader = Reader(clock)
    best = beside_reader(reader)
    count(best, clock, length=100, rounds=3)
    assert len(reader.pieces) == 3
    assert best.depth.budget.balance == best.depth.budget.tries == START


def test_a_prompt_that_takes_longer_than_its_drafts_may_win_is_not_read():
    clock = Clock()
    reader = Reader(clock, reading=2e-3)
    best = beside_reader(reader)
    assert count(best, clock, length=600, rounds=60) == [0] * 60
    assert reader.asked == []


@pytest.mark.parametrize(("step", "texts"), [(2, [True, False, False, False]), (1, [True] * 4)])
def test_the_prompts_that_follow_are_read_if_the_first_was_worth_it(step, texts):
    clock = Clock()
    reader = Reader(clock, step=step)
    best = beside_reader(reader)
    read = []
    for _ in texts:
        reader.read = 0
        count(best, clock, length=100, rounds=60)
        read.append(reader.read > 0)
        best.release(0)
    assert read == texts


def test_a_draft_model_that_could_win_little_is_neither_tried_nor_shown_a_text():
    clock = Clock()
    reader = Reader(clock, drafting=0.031)
    best = beside_reader(reader, CODER, drafting=0.031)
    assert count(best, clock, length=10, rounds=200) == [0] * 200
    assert reader.asked == []


def test_lookups_draft_the_same_beside_a_draft_model_that_loses():
    depths = []
    for drafting in (None, 0.005, 0.02, 0.031):
        clock = Clock()
        free = Counter(clock, 1e-6, step=2)
        reader = Reader(clock, drafting or 1.0, step=3)
        best = beside_reader(reader, CODER, drafting or 1.0, free=free)
        wrong = count(best, clock, length=10, rounds=40)
        assert bool(reader.asked) == (drafting in (0.005, 0.02)), drafting
        free._step = 1
        depths.append(wrong + count(best, clock, length=60, rounds=40))
    assert depths[1:] == depths[:1] * 3


def test_what_free_proposers_take_is_not_held_against_costly_ones():
    clock = Clock()
    best = made(clock, looks=(Counter(clock, 1.5e-5, most=0), 1.5e-5))
    before = best.depth.budget.balance
    count(best, clock, rounds=12)
    assert best.depth.budget.balance >= before
    assert best.depth.costs.target(1).at(1) == pytest.approx(0.01)


def test_a_seeded_text_is_the_plain_one_whatever_time_decides():
    settings = Settings(max_tokens=60, sampling=Sampling(1.0), seed=9, ignore_end=True)
    plain = replies(scripted(), NgramProposer(), [Want([1, 2, 3], settings)], depth=0)
    texts = []
    for slow in (1e-6, 0.001, 0.004):
        clock = Clock()
        best = made(clock, model=drafting(9, slow), ngram=(NgramProposer(2, 1), 1e-5))
        engine = Engine(scripted(), best, 8, clock, EngineParts(best.depth.costs))
        texts += said(converse(engine, [Want([1, 2, 3], settings)]))
    assert texts == 3 * said(plain)


def test_without_a_seed_a_model_of_the_same_distribution_is_always_right():
    settings = Settings(max_tokens=400, sampling=Sampling(1.0), ignore_end=True)
    clock = Clock()
    best = made(clock, model=drafting(1, 0.001))
    engine = Engine(scripted(), best, 8, clock, EngineParts(best.depth.costs))
    [result] = converse(engine, [Want([1, 2, 3], settings)])
    assert result.speculation.acceptance_rate == 1
    assert result.speculation.tokens_per_round > 5


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(0.8)], ids=["greedy", "sampled"])
def test_many_texts_at_once_are_what_each_is_alone(sampling):
    settings = Settings(max_tokens=40, sampling=sampling, seed=3)
    wants = [Want([at, 1, 2, 1, 2], settings) for at in range(5)]
    clock = Clock()
    best = made(clock, model=drafting(9, 1e-4), ngram=(NgramProposer(2, 1), 1e-5))
    together = converse(Engine(scripted(), best, 8, clock, EngineParts(best.depth.costs)), wants)
    alone = [replies(scripted(), NgramProposer(), [want], depth=0)[0] for want in wants]
    assert said(together) == said(alone)


def test_forced_tokens_are_drafted_whatever_else_is_known():
    clock = Clock()
    best = made(clock, flat=False, forced=(ForcedProposer(), 1e-5))
    hints = Hints(forced=lambda reply: tokens_of([5, 6, 4]))
    history = tokens_of([1, 2])
    asked = Ask(0, history, 8, Sampler(GREEDY, 0, history), prompt=1, hints=hints)
    assert best.propose([asked])[0].tokens.tolist() == [5, 6, 4]


def quiet_after(best, length):
    """Ask for a draft, and then for how long there will be none."""
    best.propose([ask(length)])
    return best.quiet(ask(length))


def test_where_nothing_was_drafted_for_long_the_next_token_is_expected_alone():
    clock = Clock()
    best = made(clock, flat=False, counter=counter(clock, step=2))
    count(best, clock, rounds=80)
    assert quiet_after(best, 500).rounds > 1
    assert quiet_after(made(clock, counter=counter(clock)), 500) is NOT_QUIET


def test_the_width_that_rows_share_is_kept_small_where_it_is_dear():
    clock = Clock()
    curve = {1: 0.01, 8: 0.0101, 9: 0.0102, 18: 0.1}  # room for two draft tokens of any rows
    depth = Depth(Costs(curve, {"counter": {1: 1e-6, 8: 1e-6}}))
    best = Best({"counter": counter(clock, 1e-7)[0]}, depth, clock)
    for length in range(10, 40):
        drafts = best.propose([ask(length * 9, slot=slot) for slot in range(6)])
        checked = sum(map(len, drafts))
        best.note(RoundCost(6, 6 + checked, 6 + checked, 0.01, reads=False))
        assert checked <= 3
    assert checked


def test_who_becomes_slow_is_no_longer_asked_for_nothing():
    clock = Clock()
    slow = Counter(clock, 2e-5, step=2)
    best = Best({"counter": slow}, Depth(Costs({1: 0.01, 9: 0.03})), clock)
    count(best, clock, rounds=8)
    assert len(slow.asked) == 8
    slow._seconds = 0.001
    count(best, clock, length=200, rounds=200)
    assert len(slow.asked) < 200


def test_what_was_offered_to_a_text_is_not_held_against_the_next():
    clock = Clock()
    best = made(clock, counter=counter(clock))
    count(best, clock, rounds=30)
    best.propose([ask(100)])
    best.release(0)
    [record] = best.depth.acceptances._records.values()
    before = [(odds.mean, odds.variance) for odds in (*record.first, *record.stated)]
    other = tokens_of([*range(100), *[5] * 50])
    best.propose([ask(150)._replace(history=other)])
    assert [(odds.mean, odds.variance) for odds in (*record.first, *record.stated)] == before


def test_how_a_text_fared_with_one_is_forgotten_with_it():
    clock = Clock()
    dear, seconds = counter(clock, 0.002, step=2)
    best = made(clock, counter=(dear, seconds))
    count(best, clock, rounds=100)
    asked = len(dear.asked)
    best.propose([ask(300)])
    assert len(dear.asked) == asked
    best.release(0)
    assert not best.depth.sleeps("counter", 0)


def test_drafts_that_cost_nothing_go_on_until_nobody_would_check_them():
    assert generous([0.2])
    assert not generous([0.9, 0.05])


def test_who_was_followed_again_is_not_expected_to_pause():
    clock = Clock()
    free, seconds = counter(clock)
    best = made(clock, counter=(free, seconds))
    timing = best._ask_timing
    timing._busy[0] = timing._looked[0] = -99  # rounds in which nothing was checked
    assert len(best.propose([ask(10)])[0])
    free._most = 0
    assert quiet_after(best, 11) is NOT_QUIET


@pytest.mark.parametrize("seed", [None, 7])
def test_dropping_drafts_by_their_tokens_does_not_bias_the_output(seed):
    """A token with its own random number, dropped for its confidence, made another one likelier."""
    costs = Costs({1: 0.01, 9: 0.04}, {"draft-model": {1: 0.0002, 4: 0.0008}})
    drafting = DraftModelProposer(scripted(1), floor=0)
    best = Best({"draft-model": drafting}, Depth(costs), clock=lambda: 0.0)
    target = scripted(1)
    engine = Engine(target, best, 4, parts=EngineParts(best.depth.costs))
    prompt = tokens_of([1, 2, 3, 1, 2])
    sampling = Sampling(temperature=1.0)
    counts, lengths = collections.Counter(), set()
    for at in range(3000):
        settings = Settings(sampling=sampling, seed=None if seed is None else seed + at)
        sampler = engine.prepare(prompt, settings, print).generation.sampler
        sampler.dice = Dice(at)
        [draft] = best.propose([Ask(0, prompt, 4, sampler, len(prompt))])
        lengths.add(len(draft))
        drafted = draft.tokens.tolist()
        texts = {at: [*prompt.tolist(), *drafted[:at]] for at in range(len(drafted) + 1)}
        target_at = partial(after, target, texts, sampling)
        verified = verify(draft, target_at, sampler.dice, len(prompt))
        counts[verified[0]] += 1
        best.release(0)
    assert len(lengths) > 1
    due = distribution(target, prompt.tolist(), sampling)
    expected = dict(zip(due.ids.tolist(), due.probs.tolist(), strict=True))
    statistic, freedom = chi_square(counts, expected, 3000)
    assert statistic < limit(freedom)


def after(model, texts, sampling, at):
    return distribution(model, texts[at], sampling)


def distribution(model, text, sampling):
    model.truncate(0, 0)
    [logits] = model.forward([Row(0, tokens_of(text))])
    return filters.distribution(sampling, logits[0])


def test_reading_a_prompt_does_not_make_a_free_proposer_dear():
    class Reader(Counter):
        """Takes a tenth of a second to read a text that is new to it."""

        def propose(self, asks):
            if not self.asked or len(asks[0].history) < len(self.asked[-1].history):
                self._clock.now += 0.1
            return super().propose(asks)

    clock = Clock()
    reader = Reader(clock, 1e-6)
    best = Best({"counter": reader}, Depth(Costs({1: 0.01, 17: 0.011})), clock)
    for text in range(6):
        assert sum(count(best, clock, length=10, rounds=40)[-10:]) == 80, text
        best.release(0)


def asked_of_rows(best, counter, rows, rounds, length=10):
    """Propose for several rows, round by round; count the rounds with a look for drafts."""
    look_count = 0
    for at in range(rounds):
        counter.asked.clear()
        asks = [ask(length + at, slot=slot) for slot in range(rows)]
        drafted = sum(map(len, best.propose(asks)))
        best.note(RoundCost(rows, rows + drafted, rows + drafted, 0.01, reads=False))
        look_count += bool(counter.asked)
    return look_count


class Watching(Counter):
    """Says where to ask for a draft."""

    def __init__(self, clock, where):
        super().__init__(clock, 1e-5, step=2)  # what it drafts is wrong
        self.where, self.watched, self.runs = where, [], set()
        self.answer = Quiet(0, self.worth_it)

    def quiet(self, ask):
        self.runs.add(next(run for run in (1, 2, 3) if ask.pays((1 - 1.5 / (run + 1),))))
        return self.answer

    def worth_it(self, history):
        self.watched.append(len(history))
        return len(history) in self.where


def watching(clock, where, two=1.5, seconds=0.001, attention=NO_ATTENTION, **others):
    watcher = Watching(clock, where)
    drafting = {by: {1: seconds, 8: 8 * seconds} for by in others}
    costs = Costs({1: 0.01, 2: 0.01 * two}, drafting, attention=attention)
    return watcher, Best({"watching": watcher, **others}, Depth(costs), clock)


def asked_at(best, proposer, rounds):
    """Propose round by round; return the lengths of the text at which a proposer was asked."""
    for at in range(rounds):
        [draft] = best.propose([ask(10 + at)])
        best.note(RoundCost(1, 1 + len(draft), 1, 0.01 * (1 + len(draft)), reads=False))
    return [len(each.history) for each in proposer.asked]


@pytest.mark.parametrize(("two", "run"), [(1.15, 0), (1.25, 2), (1.35, 3)])
def test_where_a_draft_token_is_dear_a_text_is_looked_at_only_if_it_repeats(two, run):
    watcher, best = watching(Clock(), (12, 15), two)
    assert asked_at(best, watcher, 8) == ([12, 15] if run else list(range(10, 18)))
    assert watcher.runs == ({run} if run else set())


def test_attention_to_the_text_makes_a_draft_token_dear_as_well():
    watcher, best = watching(Clock(), (), 1.1, attention=Attention(token=1e-3))
    asked_at(best, watcher, 1)
    assert watcher.runs == {3}


def test_a_text_that_repeats_without_good_drafts_is_looked_at_more_rarely():
    watcher, best = watching(Clock(), range(1000))
    at = asked_at(best, watcher, 60)
    assert at == [*range(10, 19), *range(20, 31, 2), *range(34, 70, 4)]


def test_while_one_that_does_not_say_where_to_ask_may_pay_no_text_is_watched():
    clock = Clock()
    other = Counter(clock, 0.001, step=2)
    watcher, best = watching(clock, (), other=other)
    asked_at(best, watcher, 1)
    assert not watcher.watched
    asked_at(best, watcher, 8)
    assert other.asked
    assert watcher.watched  # the other one was wrong, and sleeps
    watcher, best = watching(clock, (), seconds=0.02, other=Counter(clock, 0.02))
    asked_at(best, watcher, 1)
    assert watcher.watched  # the other one takes longer than it could win


def test_it_says_from_when_on_a_text_is_watched():
    _, best = watching(Clock(), (1000,))
    quiet = quiet_after(best, 10)
    assert quiet.rounds == 0
    assert [quiet.until(ask(length).history) for length in (11, 1000)] == [False, True]
    best._ask_timing._busy[0] = -100
    best._ask_timing._looked[0] = 0
    assert quiet_after(best, 11).rounds == 4
    best.propose([ask(12)._replace(limit=0)])
    assert best.quiet(ask(12)) is NOT_QUIET


@pytest.mark.parametrize(
    ("quiet", "at"),
    [
        (Quiet(0), range(10, 18)),
        (Quiet(3), []),  # from each ask on
        (ALWAYS_QUIET, []),
        (Quiet(0, lambda text: len(text) % 3 == 0), [12, 15]),
    ],
)
def test_a_text_is_looked_at_where_a_proposer_is_not_quiet(quiet, at):
    proposer, best = watching(Clock(), ())
    proposer.answer = quiet
    assert asked_at(best, proposer, 8) == list(at)


def test_a_look_ends_the_quiet_of_so_many_rounds():
    proposer, best = watching(Clock(), ())
    proposer.answer = Quiet(3)
    quiet = quiet_after(best, 10)
    assert [quiet.is_over(at - 10, ask(at).history) for at in (11, 12, 13, 14)] == [
        False,
        False,
        True,
        True,
    ]


def test_rows_drafted_for_together_are_not_watched():
    watcher = Watching(Clock(), ())
    best = Best({"watching": watcher}, Depth(Costs({1: 0.01, 2: 0.02}), even=True), Clock())
    assert asked_of_rows(best, watcher, 3, 4) == 4
    assert not watcher.watched


def test_rows_that_share_a_length_are_looked_at_more_rarely_the_more_they_are():
    look_counts = []
    for rows in (1, 4, 8):
        clock = Clock()
        free, _ = counter(clock, step=2)
        best = Best({"counter": free}, Depth(Costs({1: 0.01, 17: 0.04}), even=True), clock)
        asked_of_rows(best, free, rows, 64)
        look_counts.append(asked_of_rows(best, free, rows, 64, length=90))
    assert look_counts == [8, 4, 2]


def test_a_row_that_comes_to_others_which_rest_is_looked_at_with_them():
    clock = Clock()
    free, _ = counter(clock, step=2)
    best = Best({"counter": free}, Depth(Costs({1: 0.01, 17: 0.04}), even=True), clock)
    asked_of_rows(best, free, 7, 80)
    resting = asked_of_rows(best, free, 8, 100, length=100)
    assert resting > 0
    free._step = 1  # all of them begin to repeat
    assert asked_of_rows(best, free, 8, 100, length=300) > 2 * resting


def test_rows_that_came_one_after_the_other_are_looked_at_in_the_same_rounds():
    """Each in rounds of its own left no two plain rounds in a row where there were sixteen."""
    clock = Clock()
    free, _ = counter(clock, step=2)
    best = Best({"counter": free}, Depth(Costs({1: 0.01, 17: 0.04})), clock)
    for rows in range(1, 17):
        asked_of_rows(best, free, rows, 3, length=3 * rows)
    asked_of_rows(best, free, 16, 32, length=60)
    assert asked_of_rows(best, free, 16, 64, length=100) == 4
    assert len({best.quiet(ask(170, slot=slot)) for slot in range(16)}) == 1


def test_beside_others_a_text_is_watched_in_each_round_only_while_good_drafts_came_of_late():
    watcher = Watching(Clock(), ())
    best = Best(
        {"watching": watcher}, Depth(Costs({1: 0.01, 4: 0.02, 5: 0.022, 17: 0.05})), Clock()
    )
    quiets = []
    for at in range(32):
        best.propose([ask(10 + at, slot=slot) for slot in range(4)])
        quiets.append(best.quiet(ask(10 + at, slot=3)))
        best.note(RoundCost(4, 4, 4, 0.02, reads=False))
    assert all(quiet.rounds == 0 and quiet.until for quiet in quiets[:9])
    assert [quiet.rounds for quiet in quiets[9:]] == [1, *[2, 1] * 5, 2, 3, 2, 1, *[4, 3, 2, 1] * 2]
    assert not any(quiet.until for quiet in quiets[9:])
    assert set(watcher.watched[36:]) == {20, 22, 24, 26, 28, 30, 34, 38}


def test_beside_others_there_is_a_look_where_a_first_token_is_as_likely_as_it_is_dear():
    watcher = Watching(Clock(), ())
    costs = Costs({1: 0.01, 4: 0.02, 5: 0.0225, 17: 0.05})  # a token beside four takes half of one
    best = Best({"watching": watcher}, Depth(costs), Clock())
    best.propose([ask(10, slot=slot)._replace(beside=9) for slot in range(4)])
    assert watcher.runs == {2}


def test_no_row_is_drafted_for_alone_where_rows_share_a_length():
    class Half(Counter):
        """Is right for the first row and has nothing for the other."""

        def propose(self, asks):
            found = super().propose(asks)
            return [d if each.slot == 0 else EMPTY for d, each in zip(found, asks, strict=True)]

    clock = Clock()
    proposer = Half(clock, 1e-5, 1)
    best = Best({"counter": proposer}, Depth(Costs(FLAT), even=True), clock)
    for at in range(10, 50):
        drafts = best.propose([ask(at, slot=slot) for slot in range(2)])
        best.note(RoundCost(2, 2, 2, 0.02, reads=False))
        assert not any(map(len, drafts))
    assert proposer.asked
