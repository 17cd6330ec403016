"""Prompt lookup: the longest match, of those the latest, at no cost that grows."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.base.tokens import NONE, tokens_of
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.proposer import Ask

SAMPLER = Sampler(GREEDY, 0, NONE)


def look_up(history, limit=4, longest=3, shortest=1):
    proposer = NgramProposer(longest, shortest)
    return proposer.propose([Ask(0, tokens_of(history), limit, SAMPLER)])[0].tokens.tolist()


def searched(history, limit, longest, shortest):
    """Find the same by brute force."""
    for size in range(min(longest, len(history) - 1), shortest - 1, -1):
        run = history[-size:]
        for end in range(len(history) - 1, size - 1, -1):
            if history[end - size : end] == run:
                following = history[end:]
                return [following[at % len(following)] for at in range(limit)]
    return []


@pytest.mark.parametrize(
    ("history", "draft"),
    [
        ([1, 2, 3, 4, 5, 1, 2], [3, 4, 5, 1]),
        ([1, 2, 8, 5, 2, 9, 1, 2], [8, 5, 2, 9]),  # two tokens match further back than one
        ([1, 2, 8, 1, 2, 9, 1, 2], [9, 1, 2, 9]),  # of equal matches the latest
        ([5, 5], [5, 5, 5, 5]),
        ([1, 2, 3], []),
        ([7], []),
    ],
)
def test_what_followed_the_longest_latest_match_is_copied(history, draft):
    assert look_up(history) == draft


@given(st.lists(st.integers(0, 3), min_size=1, max_size=40), st.integers(1, 6))
def test_it_finds_what_a_search_through_the_whole_text_finds(history, limit):
    assert look_up(history, limit) == searched(history, limit, 3, 1)


@given(st.lists(st.integers(0, 3), min_size=1, max_size=60), st.integers(1, 20))
def test_growing_in_any_steps_gives_the_same_index(history, step):
    proposer = NgramProposer(4, 1)
    for size in range(1, len(history) + 1, step):
        proposer.propose([Ask(0, tokens_of(history[:size]), 0, SAMPLER)])
    used = proposer.propose([Ask(0, tokens_of(history), 5, SAMPLER)])[0].tokens.tolist()
    assert used == look_up(history, 5, longest=4)


def test_a_long_history_is_no_pause():
    history = np.random.default_rng(0).integers(0, 50_000, 100_000).astype(np.int32)
    proposer = NgramProposer()
    proposer.propose([Ask(0, history[:-200], 0, SAMPLER)])
    seconds = []
    for size in range(len(history) - 199, len(history)):
        start = time.perf_counter()
        proposer.propose([Ask(0, history[:size], 4, SAMPLER)])
        seconds.append(time.perf_counter() - start)
    # About 15 us; one pass over the history would be more than a millisecond.
    assert np.median(seconds) < 0.0005
