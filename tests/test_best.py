"""Who is asked, what is kept of their drafts, and what the text teaches about them."""

from __future__ import annotations

import numpy as np
import pytest

from localspec.costs import Costs
from localspec.depth import Depth, Lap
from localspec.draft import EMPTY, Draft
from localspec.engine import Engine
from localspec.proposer import Ask, Hints
from localspec.proposers.best import Best
from localspec.proposers.draft_model import DraftModelProposer
from localspec.proposers.forced import ForcedProposer
from localspec.proposers.ngram import NgramProposer
from localspec.sampler import Sampler
from localspec.sampling import GREEDY, Sampling
from localspec.settings import Settings
from localspec.tokens import tokens_of
from tests.runs import Want, converse, replies, said, scripted

FLAT = {1: 0.01, 17: 0.011}


class Clock:
    """Time that passes only when somebody works."""

    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


class Foreteller:
    """Foretells that the text counts upwards; takes its time and keeps what it was asked."""

    def __init__(self, clock, seconds, step=1):
        self.asked = []
        self._clock, self._seconds, self._step = clock, seconds, step

    def propose(self, asks):
        self.asked += asks
        self._clock.now += self._seconds * max(ask.limit for ask in asks)
        return [self._guess(ask) for ask in asks]

    def _guess(self, ask):
        ahead = np.arange(1, ask.limit + 1) * self._step
        return (
            Draft(tokens_of((ask.history[-1] + ahead).tolist()), "counter") if ask.limit else EMPTY
        )

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
        best.note(Lap(1, 1 + len(draft), 1 + right, clock.now - begun, reads=False))
        depths.append(len(draft))
        length += 1 + right
    return depths


def made(clock, flat=True, **proposers):
    """The best of some, each with the seconds that a guess of its takes."""
    prices = {by: {1: seconds, 8: 8 * seconds} for by, (_, seconds) in proposers.items()}
    depth = Depth(Costs(FLAT if flat else {1: 0.01, 9: 0.03}, prices))
    return Best({by: proposer for by, (proposer, _) in proposers.items()}, depth, clock)


def counter(clock, seconds=1e-5, step=1):
    return Foreteller(clock, seconds, step), seconds


def drafting(seed, seconds):
    """A draft model, the target's twin if its seed is 1."""
    return DraftModelProposer(scripted(seed)), seconds


def test_who_is_right_is_soon_followed_as_far_as_may_be():
    clock = Clock()
    best = made(clock, counter=counter(clock))
    assert count(best, clock)[-20:] == [8] * 20


def test_who_is_wrong_is_soon_not_followed():
    clock = Clock()
    best = Best(
        {"counter": Foreteller(clock, 1e-5, step=2)}, Depth(Costs({1: 0.01, 9: 0.03})), clock
    )
    assert sum(count(best, clock)[-20:]) == 0


def test_who_was_not_followed_is_judged_all_the_same():
    """It drafts for nothing, and is right again from token 100 on."""
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


def test_a_prompt_is_shown_while_it_is_read_but_not_to_the_hopeless():
    clock = Clock()
    shown, hopeless = counter(clock), counter(clock, 0.02)
    best = made(clock, shown=shown, hopeless=hopeless)
    assert len(best.propose([ask(50, limit=0)])[0]) == 0
    assert [len(each.history) for each in shown[0].asked] == [50]
    assert hopeless[0].asked == []


def test_a_seeded_text_is_the_plain_one_whatever_time_decides():
    """Drafts of a model are drawn with the target's dice then, and held against its draws."""
    settings = Settings(max_tokens=60, sampling=Sampling(1.0), seed=9, ignore_end=True)
    plain = replies(scripted(), NgramProposer(), [Want([1, 2, 3], settings)], depth=0)
    texts = []
    for slow in (1e-6, 0.001, 0.004):
        clock = Clock()
        best = made(clock, model=drafting(9, slow), ngram=(NgramProposer(2, 1), 1e-5))
        engine = Engine(scripted(), best, 8, clock, best.note)
        texts += said(converse(engine, [Want([1, 2, 3], settings)]))
    assert texts == 3 * said(plain)


def test_without_a_seed_drafts_of_a_model_are_accepted_as_often_as_the_laws_overlap():
    settings = Settings(max_tokens=400, sampling=Sampling(1.0), ignore_end=True)
    clock = Clock()
    best = made(clock, model=drafting(1, 0.001))
    engine = Engine(scripted(), best, 8, clock, best.note)
    [result] = converse(engine, [Want([1, 2, 3], settings)])
    assert result.speculation.acceptance_rate == 1
    assert result.speculation.mean_accepted > 4


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(0.8)], ids=["greedy", "sampled"])
def test_many_texts_at_once_are_what_each_is_alone(sampling):
    settings = Settings(max_tokens=40, sampling=sampling, seed=3)
    wants = [Want([at, 1, 2, 1, 2], settings) for at in range(5)]
    clock = Clock()
    best = made(clock, model=drafting(9, 1e-4), ngram=(NgramProposer(2, 1), 1e-5))
    together = converse(Engine(scripted(), best, 8, clock, best.note), wants)
    alone = [replies(scripted(), NgramProposer(), [want], depth=0)[0] for want in wants]
    assert said(together) == said(alone)


def test_forced_tokens_are_guessed_whatever_else_is_known():
    clock = Clock()
    best = made(clock, flat=False, forced=(ForcedProposer(), 1e-5))
    hints = Hints(forced=lambda reply: tokens_of([5, 6, 4]))
    history = tokens_of([1, 2])
    asked = Ask(0, history, 8, Sampler(GREEDY, 0, history), prompt=1, hints=hints)
    assert best.propose([asked])[0].tokens.tolist() == [5, 6, 4]


def test_where_nothing_was_guessed_for_long_the_next_token_is_expected_alone():
    clock = Clock()
    best = made(clock, flat=False, counter=counter(clock, step=2))
    count(best, clock, rounds=80)
    assert best.propose([ask(500)])[0].rests
    assert not made(clock, counter=counter(clock)).propose([ask(500)])[0].rests
