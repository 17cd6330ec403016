"""The distribution of a token, filter by filter, against a slow and simple one."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.base.errors import BackendError, UsageError
from localspec.base.tokens import tokens_of
from localspec.core.sampling import filters
from localspec.core.sampling.highest import top
from localspec.core.sampling.parameters import Sampling
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.dice import Dice, wait
from localspec.interfaces.distribution import MAX_SINGLE, MAX_WHOLE, Distribution
from tests.chi_square import chi_square, limit


def simple(logits, s):
    """Temperature, then top-k, top-p and min-p on sorted probabilities."""
    order = sorted(range(len(logits)), key=lambda t: (-float(logits[t]), t))
    if s.top_k:
        order = order[: s.top_k]
    weights = np.exp((logits[order].astype(np.float64) - float(logits[order[0]])) / s.temperature)
    probs = weights / weights.sum()
    before = np.cumsum(probs) - probs
    keep = (before < s.top_p) & (probs >= s.min_p * probs[0])
    probs = probs[keep] / probs[keep].sum()
    return dict(zip(np.array(order)[keep].tolist(), probs.tolist(), strict=True))


def as_dict(d):
    return {t: p for t, p in zip(d.ids.tolist(), d.probs.tolist(), strict=True) if p > 1e-12}


CASES = st.builds(
    Sampling,
    temperature=st.sampled_from([0.3, 0.8, 1.0, 1.7]),
    top_k=st.sampled_from([0, 2, 5, 40, 3000]),
    top_p=st.sampled_from([1.0, 0.95, 0.5, 0.05]),
    min_p=st.sampled_from([0.0, 0.05, 0.4]),
)


@settings(max_examples=150)
@given(CASES, st.integers(0, 1000), st.sampled_from([9, 200, 2000, 7001]))
def test_every_filter_keeps_what_the_simple_way_keeps(sampling, seed, size):
    logits = (3 * np.random.default_rng(seed).normal(size=size)).astype(np.float32)
    expected = {t: p for t, p in simple(logits, sampling).items() if p > 1e-12}
    assert as_dict(filters.distribution(sampling, logits)) == pytest.approx(expected, rel=1e-4)


@given(st.integers(0, 1000), st.sampled_from([5, 127, 128, 1000, 5000]), st.integers(1, 300))
def test_the_highest_logits_are_found_exactly_also_among_equals(seed, size, count):
    logits = np.random.default_rng(seed).integers(0, 30, size).astype(np.float32)
    expected = np.argsort(-logits, kind="stable")[:count]
    assert top(logits, count).tolist() == expected.tolist()


def test_temperature_zero_is_the_highest_logit_and_of_equals_the_first():
    logits = np.array([1, 5, 5, 2], np.float32)
    assert as_dict(filters.distribution(Sampling(), logits)) == {1: 1.0}


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_logits_that_are_no_numbers_are_an_error_not_a_text(value, temperature):
    logits = np.array([1, value, 2], np.float32)
    with pytest.raises(BackendError, match="token 1"):
        filters.distribution(Sampling(temperature=temperature), logits)


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("temperature", -0.1),
        ("temperature", float("nan")),
        ("top_k", -1),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", -0.5),
        ("repetition", 0.0),
        ("presence", 1e9),
        ("frequency", float("inf")),
    ],
)
def test_absurd_parameters_are_refused_by_name(field, value):
    with pytest.raises(UsageError, match=field):
        Sampling(**{field: value})


def test_penalties_count_prompt_and_reply_and_what_is_drafted():
    sampling = Sampling(temperature=1.0, repetition=2.0, presence=0.5, frequency=0.25)
    sampler = Sampler(sampling, 0, tokens_of([0, 0, 1]))
    sampler.emit([2, 2, 3])
    logits = np.array([4, -2, 6, 1, 3, 5], np.float32)
    expected = np.array(
        [
            4 / 2,  # in the prompt: repetition only
            -2 * 2,
            6 / 2 - 0.5 - 0.25 * 3,  # emitted twice, drafted once
            1 / 2 - 0.5 - 0.25,
            3 / 2 - 0.5 - 0.25,  # drafted once
            5,
        ]
    )
    distribution = sampler.distribution(logits, [2, 4])
    weights = np.exp(expected - expected.max())
    assert distribution.probs.tolist() == pytest.approx(
        (weights / weights.sum()).tolist(), rel=1e-5
    )
    assert logits.tolist() == [4, -2, 6, 1, 3, 5], "the engine's own logits are left alone"


@pytest.mark.parametrize("window", [0, 1, 2, 4, 6, 9])
def test_penalties_look_at_a_window_of_the_last_tokens(window):
    text, reply, drafted = [0, 5, 1], [2, 2, 3], [2, 4]
    sampling = Sampling(1.0, repetition=2.0, presence=0.5, frequency=0.25, penalty_window=window)
    sampler = Sampler(sampling, 0, tokens_of(text))
    sampler.emit(reply[:1])
    sampler.emit(reply[1:])
    logits = np.array([4, -2, 6, 1, 3, 5], np.float32)
    kept = len(reply + drafted) if window > len(reply + drafted) else window
    recent = (reply + drafted)[len(reply + drafted) - kept :]
    seen = (text + reply + drafted)[len(text + reply + drafted) - min(window, 8) :]
    expected = logits.copy()
    for token in set(seen):
        expected[token] = logits[token] / 2 if logits[token] > 0 else logits[token] * 2
    for token in set(recent):
        expected[token] -= 0.5 + 0.25 * recent.count(token)
    weights = np.exp(expected - expected.max())
    distribution = sampler.distribution(logits, drafted)
    assert distribution.probs.tolist() == pytest.approx(
        (weights / weights.sum()).tolist(), rel=1e-5
    )


def test_bias_can_forbid_and_force_a_token():
    logits = np.array([3, 2, 1], np.float32)
    forced = Sampler(Sampling(bias={2: 100.0}), 0, tokens_of([0])).distribution(logits)
    assert as_dict(forced) == {2: 1.0}
    forbidden = Sampler(Sampling(bias={0: -100.0}), 0, tokens_of([0])).distribution(logits)
    assert as_dict(forbidden) == {1: 1.0}


SIZES = (2, MAX_SINGLE, MAX_SINGLE + 1, MAX_WHOLE, MAX_WHOLE + 1, 20_000)


@given(st.integers(0, 500), st.sampled_from(SIZES))
def test_the_token_that_waits_the_shortest_for_its_weight_is_drawn(seed, size):
    rng = np.random.default_rng(seed)
    weights = rng.random(size) ** 9 * (rng.random(size) < 0.5)
    weights[size // 2] += 0.1
    ids = np.arange(size) * 7
    dice, position = Dice(seed), int(rng.integers(1 << 20))
    times = {
        token: wait(dice.keys(position), token) / weight
        for token, weight in zip(ids.tolist(), weights.tolist(), strict=True)
        if weight
    }
    token = Distribution(ids, weights.astype(np.float32)).draw(dice, position)
    assert times[token] == pytest.approx(min(times.values()), rel=1e-6)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("varied", ["seed", "position"])
def test_draws_follow_the_weights(size, varied):
    weights = np.random.default_rng(size).random(size) ** 4
    weights[-2:] = 0.3 * weights.sum(), 0.2 * weights.sum()
    weights[size // 2 - 1] *= size == 2
    distribution, total = Distribution(np.arange(size) * 5 + 2, weights), 6000
    dice = [Dice(at) if varied == "seed" else Dice(3) for at in range(total)]
    places = [11 if varied == "seed" else at for at in range(total)]
    drawn = Counter(map(distribution.draw, dice, places))
    common = np.argsort(-distribution.probs)[:10]
    counts = {int(at): drawn.pop(int(distribution.ids[at]), 0) for at in common}
    probabilities = {int(at): float(distribution.probs[at]) for at in common}
    if size > len(common):
        counts["rest"] = drawn.total()
        probabilities["rest"] = 1 - sum(probabilities.values())
    statistic, freedom = chi_square(counts, probabilities, total)
    assert statistic < limit(freedom)


def test_two_similar_distributions_draw_the_same_token_whatever_is_cut():
    rng = np.random.default_rng(4)
    logits = rng.normal(0, 3, 400)
    near = logits + rng.normal(0, 0.3, 400)
    one, other = (filters.distribution(Sampling(1.0), np.float32(each)) for each in (logits, near))
    cut = filters.distribution(Sampling(1.0, top_k=20, top_p=0.9), near.astype(np.float32))
    for draft in (other, cut):
        overlap = sum(min(p, draft.prob(t)) for t, p in enumerate(one.probs.tolist()))
        same = np.mean([one.draw(Dice(7), at) == draft.draw(Dice(7), at) for at in range(4000)])
        assert overlap / (2 - overlap) - 0.03 < same < overlap + 0.03


@pytest.mark.parametrize("temperature", [1e-300, 1e-45, 1e-9, 1e-4, 100.0])
@pytest.mark.parametrize("options", [{}, {"top_k": 3}, {"top_p": 0.5}, {"min_p": 0.1}])
def test_a_distribution_is_one_at_any_temperature(temperature, options):
    logits = np.array([40.0, -30.0, 39.5, 1e4, 1e4 - 0.5, -1e30], np.float32)
    distribution = filters.distribution(Sampling(temperature=temperature, **options), logits)
    assert distribution.probs.sum() == pytest.approx(1)
    assert distribution.prob(3) >= distribution.probs.max() - 1e-12


@pytest.mark.parametrize(
    "sampling", [{"top_p": 0.9}, {"min_p": 0.05}, {"top_p": 0.7, "min_p": 0.2}]
)
def test_few_candidates_are_cut_like_many(sampling, monkeypatch):
    for seed in range(50):
        logits = np.random.default_rng(seed).normal(size=2000).astype(np.float32).round(1)
        distribution = filters.distribution(Sampling(temperature=0.8, top_k=30, **sampling), logits)
        with monkeypatch.context() as patched:
            patched.setattr("localspec.core.sampling.filters.MAX_LISTED", 0)
            expected = filters.distribution(Sampling(temperature=0.8, top_k=30, **sampling), logits)
        assert distribution.ids.tolist() == expected.ids.tolist()
        np.testing.assert_allclose(distribution.weights, expected.weights, rtol=1e-12)


def test_of_equals_as_many_are_kept_as_reach_the_share():
    sampling = Sampling(temperature=1, top_k=4, top_p=0.5)
    assert filters.distribution(sampling, np.zeros(9, np.float32)).ids.tolist() == [0, 1]
