"""Forced tokens: what the ask's own function says, as far as the limit goes."""

from __future__ import annotations

from localspec.base.tokens import NONE, tokens_of
from localspec.core.proposers.forced import ForcedProposer
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.proposer import ALWAYS_QUIET, Ask, Hints

SAMPLER = Sampler(GREEDY, 0, NONE)


def forced(function, history=(1, 2, 3, 4), limit=4, prompt=2):
    ask = Ask(0, tokens_of(history), limit, SAMPLER, prompt, Hints(forced=function))
    return ForcedProposer().propose([ask])[0]


def test_what_must_follow_the_reply_is_drafted():
    heard = []

    def follow(reply):
        heard.append(reply.tolist())
        return tokens_of([7, 8])

    draft = forced(follow)
    assert heard == [[3, 4]]
    assert draft.tokens.tolist() == [7, 8]
    assert draft.confidences == (1.0, 1.0)
    assert draft.by == "forced"


def test_a_limit_cuts_what_must_follow():
    draft = forced(lambda reply: tokens_of([7, 8, 9]), limit=2)
    assert draft.tokens.tolist() == [7, 8]
    assert draft.confidences == (1.0, 1.0)


def test_nobody_is_asked_for_nothing():
    assert not len(forced(lambda reply: 1 / 0, limit=0))


def test_a_choice_and_no_function_are_passed():
    assert forced(lambda reply: NONE).by == "nobody"
    assert forced(None).by == "nobody"


def test_each_ask_has_its_own_function():
    asks = [
        Ask(slot, tokens_of([1]), 4, SAMPLER, hints=Hints(forced=lambda r, n=slot: tokens_of([n])))
        for slot in (3, 5)
    ]
    assert [draft.tokens.tolist() for draft in ForcedProposer().propose(asks)] == [[3], [5]]


def test_it_is_quiet_where_nothing_is_forced():
    proposer, history = ForcedProposer(), tokens_of([1])
    assert proposer.quiet(Ask(0, history, 4, SAMPLER)) is ALWAYS_QUIET
    hints = Hints(forced=lambda reply: tokens_of([5]) if reply.tolist() == [3] else NONE)
    quiet = proposer.quiet(Ask(0, history, 4, SAMPLER, 1, hints))
    assert not quiet.is_over(1, tokens_of([1, 2]))
    assert quiet.is_over(1, tokens_of([1, 3]))
