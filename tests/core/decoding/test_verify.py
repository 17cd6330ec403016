"""Emitted tokens follow the target's distribution exactly, whatever the draft."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.base.tokens import tokens_of
from localspec.core.decoding.verify import verify
from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from localspec.core.sampling import filters
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.dice import Dice, wait, waits
from localspec.interfaces.distribution import Distribution
from localspec.interfaces.draft import Draft
from localspec.interfaces.testing import hashed_logits
from tests.chi_square import chi_square, limit
from tests.runs import PROPOSERS, Want, replies, scripted

LOGITS = hashed_logits(2)
WARM = Sampling(temperature=1.2)


def after(text):
    return filters.distribution(WARM, LOGITS(text))


@given(st.lists(st.integers(0, 6), max_size=6), st.integers(0, 2**63), st.integers(0, 50))
def test_whatever_is_drafted_the_target_says_what_it_says_without(drafted, seed, start):
    dice, text = Dice(seed), [1, 2]
    for at in range(len(drafted) + 1):
        text.append(after(text).draw(dice, start + at))
    draft = Draft(tokens_of(drafted), "test")
    emitted = verify(draft, lambda at: after([1, 2, *drafted[:at]]), dice, start)
    assert emitted == text[2 : 2 + len(emitted)]
    right = next((at for at, token in enumerate(drafted) if token != text[2 + at]), len(drafted))
    assert len(emitted) == right + 1


def test_a_token_the_target_forbids_is_never_accepted():
    draft = Draft(tokens_of([2]), "test")
    four = Distribution.certain(4)
    assert verify(draft, lambda at: four, Dice(0), 0) == [4]


def test_nothing_is_asked_of_the_target_after_the_first_rejection():
    asked = []

    def target(at):
        asked.append(at)
        return Distribution.certain([2, 5, 1, 1][at])

    assert verify(Draft(tokens_of([2, 3, 1]), "test"), target, Dice(0), 0) == [2, 5]
    assert asked == [0, 1]


SAMPLED = Sampling(temperature=1.0, top_p=0.9)
LENGTH = 3


def text_probabilities(logits, sampling, prompt):
    """The probability of every text of three tokens."""
    texts = {(): 1.0}
    for _ in range(LENGTH):
        texts = {
            (*said, token): p * q
            for said, p in texts.items()
            for token, q in zip(
                *(
                    getattr(filters.distribution(sampling, logits([*prompt, *said])), name).tolist()
                    for name in ("ids", "probs")
                ),
                strict=True,
            )
        }
    return texts


# Texts of look-ups are those without drafts, seed by seed: see the test of seeded texts.
LOOK_UPS = ("ngram", "suffix", "corpus", "prediction", "forced", "best")


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.long] * (name in LOOK_UPS)) for name in PROPOSERS],
)
def test_sampled_texts_follow_the_targets_distribution_through_the_whole_engine(name):
    prompt, total = [1, 2, 3, 1, 2], 3000
    wants = [
        Want(prompt, Settings(max_tokens=LENGTH, sampling=SAMPLED, seed=seed, ignore_end=True))
        for seed in range(total)
    ]
    counts: dict[tuple[int, ...], int] = {}
    for result in replies(scripted(), PROPOSERS[name](), wants):
        counts[result.tokens] = counts.get(result.tokens, 0) + 1
    statistic, freedom = chi_square(
        counts, text_probabilities(hashed_logits(1), SAMPLED, prompt), total
    )
    assert statistic < limit(freedom)


def test_the_chi_square_notices_a_wrong_distribution():
    prompt, total = [1, 2, 3, 1, 2], 3000
    settings = Settings(max_tokens=LENGTH, sampling=Sampling(temperature=1.1, top_p=0.9))
    wants = [
        Want(
            prompt, Settings(max_tokens=LENGTH, sampling=settings.sampling, seed=s, ignore_end=True)
        )
        for s in range(total)
    ]
    counts: dict[tuple[int, ...], int] = {}
    for result in replies(scripted(), Silent(), wants):
        counts[result.tokens] = counts.get(result.tokens, 0) + 1
    expected = {
        **dict.fromkeys(counts, 1e-9),
        **text_probabilities(hashed_logits(1), SAMPLED, prompt),
    }
    statistic, freedom = chi_square(counts, expected, total)
    assert statistic > limit(freedom)


def test_waits_are_exponential_and_independent_across_positions_tokens_and_seeds():
    tokens = np.arange(0, 40_000, 400)
    numbers = np.array([[waits(Dice(s).keys(at), tokens) for at in range(50)] for s in range(20)])
    uniforms = -np.expm1(-numbers)
    assert 0 < uniforms.min() < uniforms.max() < 1
    bins = np.histogram(uniforms, bins=20, range=(0, 1))[0]
    due = uniforms.size / 20
    assert ((bins - due) ** 2 / due).sum() < limit(19)
    for shifted in (
        uniforms[1:] * uniforms[:-1],
        uniforms[:, 1:] * uniforms[:, :-1],
        uniforms[..., 1:] * uniforms[..., :-1],
    ):
        assert abs(shifted.mean() - 0.25) < 5 * 0.22 / shifted.size**0.5


@given(st.integers(0, 2**63), st.integers(0, 2**20), st.integers(0, 2**20))
def test_a_token_waits_as_long_alone_as_among_others(seed, position, token):
    keys = Dice(seed).keys(position)
    assert waits(keys, np.array([7, token]))[1] == pytest.approx(wait(keys, token), rel=1e-12)
