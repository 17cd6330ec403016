"""Emitted tokens follow the target's distribution exactly, whatever the draft."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from localspec.base.tokens import tokens_of
from localspec.core.decoding.verify import settle, verify
from localspec.core.engine.settings import Settings
from localspec.core.proposers.silent import Silent
from localspec.core.sampling import filters
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.dice import ACCEPT, TARGET, Dice
from localspec.interfaces.distribution import Distribution
from localspec.interfaces.draft import Draft
from localspec.interfaces.testing import hashed_logits
from tests.chi_square import chi_square, limit
from tests.runs import PROPOSERS, Want, replies, scripted


class Loaded:
    """Dice with chosen random numbers."""

    def __init__(self, accept, target):
        self.shown = {ACCEPT: accept, TARGET: target}

    def uniform(self, position, lane):
        return self.shown[lane]


def intervals(*breaks):
    """Midpoints and widths of the pieces that breaks cut from 0 to 1."""
    cuts = sorted({0.0, 1.0, *(float(b) for b in breaks if 0 < b < 1)})
    return [((low + high) / 2, high - low) for low, high in itertools.pairwise(cuts)]


def distribution(source, target, looked_up):
    """Compute the exact distribution of `settle`, constant between the breaks of its uniforms."""
    found = dict.fromkeys(range(7), 0.0)
    rest = target.beyond(source)
    quantiles = [*target.probs.cumsum(), *rest.probs.cumsum()]
    for token, q in zip(source.ids.tolist(), source.probs.tolist(), strict=True):
        drafted_from = None if looked_up else source
        for accept, width in intervals(target.prob(token) / q):
            for draw, share in intervals(*quantiles):
                emitted = settle(token, drafted_from, target, Loaded(accept, draw), 0)
                found[emitted] += q * width * share
    return found


@pytest.mark.parametrize(
    ("target_seed", "source_seed"), list(itertools.product(range(4), repeat=2))
)
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=0.8),
        Sampling(temperature=0.8, top_k=3),
        Sampling(temperature=1.2, top_p=0.8),
    ],
    ids=["all", "top-k", "top-p"],
)
@pytest.mark.parametrize("looked_up", [False, True])
def test_the_emitted_token_follows_the_targets_distribution(
    target_seed, source_seed, sampling, looked_up
):
    target = filters.distribution(sampling, hashed_logits(target_seed)([0]))
    source = filters.distribution(sampling, hashed_logits(source_seed)([1]))
    expected = {token: target.prob(token) for token in range(7)}
    assert distribution(source, target, looked_up) == pytest.approx(expected)


def test_a_draft_that_follows_the_targets_distribution_is_always_accepted():
    target = filters.distribution(Sampling(temperature=0.8), hashed_logits(0)([0]))
    for token in target.ids.tolist():
        assert settle(token, target, target, Loaded(1 - 2**-53, 0.0), 0) == token


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


def test_uniforms_are_even_and_independent_across_positions_lanes_and_seeds():
    uniforms = np.array(
        [
            [Dice(seed).uniform(position, lane) for position in range(200) for lane in range(3)]
            for seed in range(100)
        ]
    )
    assert 0 <= uniforms.min() < uniforms.max() < 1
    bins = np.histogram(uniforms, bins=20, range=(0, 1))[0]
    due = uniforms.size / 20
    assert ((bins - due) ** 2 / due).sum() < limit(19)
    for shifted in (
        uniforms[1:] * uniforms[:-1],
        uniforms[:, 1:] * uniforms[:, :-1],
        uniforms[:, 3:] * uniforms[:, :-3],
    ):
        assert abs(shifted.mean() - 0.25) < 5 * 0.22 / shifted.size**0.5
