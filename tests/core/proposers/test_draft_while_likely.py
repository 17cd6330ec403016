"""A draft ends where it no longer pays, however rarely that is asked."""

from __future__ import annotations

from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.base.tokens import tokens_of
from localspec.core.proposers.draft_while_likely import draft_of
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.draft_stopping import always, likely
from localspec.interfaces.proposer import Ask

TEXT = tokens_of([1])
ASK = Ask(0, TEXT, 512, Sampler(GREEDY, 0, TEXT))


def drafted(confidences, limit=512, pays=always):
    return draft_of(zip(count(), confidences, strict=False), ASK.until(limit, pays), 0.0, "who")


@given(st.lists(st.floats(0.8, 1), max_size=200), st.floats(0.01, 0.99), st.integers(0, 200))
def test_it_ends_before_the_first_token_with_which_it_does_not_pay(confidences, floor, limit):
    pays = likely(floor)
    kept = min(len(confidences), limit)
    while kept and not pays(confidences[:kept]):
        kept -= 1
    draft = drafted(confidences, limit, pays)
    assert draft.tokens.tolist() == list(range(kept))
    assert list(draft.confidences) == confidences[:kept]


def test_a_long_draft_asks_a_few_times_whether_it_pays():
    asked = []
    draft = drafted([0.99] * 512, pays=lambda confidences: not asked.append(len(confidences)))
    assert len(draft) == 512
    assert len(asked) < 32


@pytest.mark.parametrize("limit", [1, 16, 17, 33, 100])
def test_no_more_is_looked_up_than_may_be_drafted(limit):
    steps = iter([(token, 1.0) for token in range(600)])
    assert len(draft_of(steps, ASK.until(limit, always), 0.0, "who")) == limit
    assert next(steps)[0] == limit
