"""Every sampler, alone and behind others in any order, against its definition."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from localspec.base.errors import UsageError
from localspec.base.tokens import tokens_of
from localspec.core.sampling import filters
from localspec.core.sampling.dry import repeats
from localspec.core.sampling.order import LETTERS, ORDER, sampler_name, split_samplers
from localspec.core.sampling.parameters import MAX_BREAKERS, Sampling
from localspec.core.sampling.sampler import Sampler, SamplerParts
from localspec.interfaces.dice import Dice
from localspec.interfaces.testing import hashed_logits
from tests.core.sampling.definitions import after, reference, start

PIECES = (b"a", b"b", b"ab", b"\n", b" b", b"c\n", b"", b"bc", b"c")
SIZE = 120
OF_LLAMA_CPP = (
    *("penalties", "dry", "top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc"),
    "temperature",
)


def spell(token):
    return PIECES[token % len(PIECES)]


def as_dict(distribution):
    pairs = zip(distribution.ids.tolist(), distribution.probs.tolist(), strict=True)
    return {token: p for token, p in pairs if p > 0}


def everywhere(probs):
    return [probs.get(token, 0.0) for token in range(SIZE)]


def one_of(*values):
    return st.sampled_from(values)


ORDERS = st.one_of(
    one_of(ORDER, OF_LLAMA_CPP),
    st.permutations(sorted({*LETTERS.values()} - {"infill"})).flatmap(
        lambda names: st.integers(0, len(names)).map(lambda count: tuple(names[:count]))
    ),
)
CASES = st.builds(
    Sampling,
    temperature=one_of(0.0, 0.4, 1.0, 1.6),
    top_k=one_of(0, 0, 3, 40),
    top_p=one_of(1.0, 0.9, 0.3),
    min_p=one_of(0.0, 0.0, 0.1),
    repetition=one_of(1.0, 1.3),
    presence=one_of(0.0, 0.6),
    frequency=one_of(0.0, 0.2),
    penalty_window=one_of(-1, 5),
    typical=one_of(1.0, 0.9, 0.2),
    top_n_sigma=one_of(0.0, 0.0, 1.5),
    xtc_probability=one_of(0.0, 0.5, 1.0),
    xtc_threshold=one_of(0.05, 0.1, 0.3),
    dynatemp_range=one_of(0.0, 0.0, 0.3, 1.0),
    dynatemp_exponent=one_of(1.0, 0.5, 2.0),
    dry_multiplier=one_of(0.0, 0.8),
    dry_base=one_of(1.0, 1.75),
    dry_allowed_length=one_of(0, 1, 2),
    dry_window=one_of(-1, 0, 6),
    dry_breakers=one_of((), ("\n",), ("bc", "\n")),
    samplers=ORDERS,
)


def drawn_logits(seed, size=SIZE):
    return (2 * np.random.default_rng(seed).normal(size=size)).astype(np.float32)


@settings(max_examples=400)
@given(
    CASES,
    st.integers(0, 1000),
    st.lists(st.integers(0, 6), min_size=1, max_size=12),
    st.lists(st.integers(0, 6), max_size=8),
    st.integers(0, 8),
)
@example(Sampling(0.5, repetition=1.3, samplers=("temperature", "penalties")), 1, [1, 2, 3], [], 0)
def test_samplers_in_any_order_leave_what_their_definitions_leave(s, seed, prompt, reply, emitted):
    logits = drawn_logits(seed)
    sampler = Sampler(s, seed, tokens_of(prompt), SamplerParts(spell=spell))
    sampler.emit(reply[:emitted])
    distribution = sampler.distribution(logits, reply[emitted:])
    coin = sampler.dice.coin(len(prompt) + len(reply))
    expected, _ = reference(s, logits, prompt, reply, coin=coin, spell=spell)
    assert everywhere(as_dict(distribution)) == pytest.approx(
        everywhere(expected), rel=1e-3, abs=1e-9
    )
    assert logits.tolist() == drawn_logits(seed).tolist(), "the engine's own logits are left alone"


STEERED = [
    Sampling(1.0, mirostat=1, mirostat_tau=3.0),
    Sampling(0.7, mirostat=1, mirostat_tau=5.0, mirostat_eta=0.3),
    Sampling(1.0, mirostat=2, mirostat_tau=2.0),
    Sampling(1.4, mirostat=2, mirostat_tau=4.0, mirostat_eta=0.5, top_k=3, presence=1.0),
    Sampling(1.0, adaptive_target=0.4),
    Sampling(1.0, min_p=0.05, adaptive_target=0.2, adaptive_decay=0.5),
    Sampling(0.8, top_k=9, adaptive_target=0.9, samplers=("adaptive_p", "top_k", "temperature")),
]


@pytest.mark.parametrize("s", STEERED)
def test_a_state_follows_the_text_whatever_was_drafted_and_asked_twice(s):
    rng = np.random.default_rng(5)
    sampler, state, reply = Sampler(s, 1, tokens_of([1, 2])), start(s), []
    while len(reply) < 60:
        rows = [drawn_logits([len(reply), at], 40) for at in range(5)]
        drafted, states, told = [], [state], []
        for at in range(int(rng.integers(1, 5))):
            expected, measured = reference(s, rows[at], [1, 2], [*reply, *drafted], states[-1])
            for _ in range(int(rng.integers(1, 3))):  # the last time counts
                distribution = sampler.distribution(rows[at], drafted)
            assert everywhere(as_dict(distribution)) == pytest.approx(
                everywhere(expected), rel=1e-3
            )
            drafted.append(distribution.draw(Dice(int(rng.integers(99))), len(reply) + at))
            states.append(after(s, states[-1], measured[drafted[-1]]))
            told.append(measured)
        kept = int(rng.integers(1, len(drafted) + 1))  # what is behind is taken back
        other = int(distribution.ids[0]) if kept == len(drafted) else drafted[kept - 1]
        emitted = [*drafted[: kept - 1], other]
        state = after(s, states[kept - 1], told[kept - 1][other])
        sampler.emit(emitted)
        reply += emitted
        assert sampler.chain.course.state == pytest.approx(state, rel=1e-4, abs=1e-6)


def test_what_a_proposer_asks_for_its_drafts_moves_no_state():
    sampler = Sampler(Sampling(1.0, mirostat=2), 1, tokens_of([1]))
    sampler.distribution(drawn_logits(0))
    for drafted in ([], [4], [4, 5]):
        sampler.draft_distribution(sampler.adjusted(drawn_logits(1), drafted), drafted)
    sampler.emit([3])
    alone = Sampler(Sampling(1.0, mirostat=2), 1, tokens_of([1]))
    alone.distribution(drawn_logits(0))
    alone.emit([3])
    assert sampler.chain.course.state == alone.chain.course.state


@given(st.lists(st.integers(0, 2), max_size=30))
def test_repetitions_of_the_end_are_found_at_every_place(text):
    repeated = repeats(tokens_of(text)).tolist()
    for at, length in enumerate(repeated):
        same = 0
        while same <= at and text[at - same] == text[len(text) - 1 - same]:
            same += 1
        assert length == same
    assert len(repeated) == max(len(text) - 1, 0)


def test_a_text_of_one_token_over_and_over_is_no_burden_to_dry():
    """Both a scan for every place and one for every length would take minutes."""
    s = Sampling(1.0, dry_multiplier=1.0, dry_base=1.0001, dry_breakers=("\n",))
    begun = time.thread_time()
    sampler = Sampler(s, 0, tokens_of([1] * 32_000), SamplerParts(spell=spell))
    logits, drafted = np.zeros(9, np.float32), []
    for _ in range(100):
        sampler.distribution(logits, drafted)
        drafted.append(1)
    assert time.thread_time() - begun < 3


def test_a_word_that_is_a_breaker_is_not_penalised():
    s = Sampling(1.0, dry_multiplier=50.0, dry_breakers=("c",))
    text = [0, 1, 5, 0, 1]  # a b c\n a b
    [penalised, free] = (
        Sampler(each, 0, tokens_of(text), SamplerParts(spell=spell)).distribution(
            np.zeros(9, np.float32)
        )
        for each in (Sampling(1.0, dry_multiplier=50.0, dry_breakers=("\n\n",)), s)
    )
    assert penalised.prob(5) < 1e-9
    assert free.prob(5) == pytest.approx(1 / 9)


def test_a_forbidden_token_counts_no_more_than_a_masked_one_for_top_n_sigma():
    logits = np.random.default_rng(7).normal(0, 3, 200).astype(np.float32)
    masked = logits.copy()
    masked[3] = -np.inf
    forbidding = Sampling(temperature=1.0, top_n_sigma=1.0, bias={3: -1000.0})
    left = Sampler(forbidding, 0, tokens_of([0])).distribution(logits)
    right = Sampler(Sampling(temperature=1.0, top_n_sigma=1.0), 0, tokens_of([0])).distribution(
        masked
    )
    assert left.ids.tolist() == right.ids.tolist()


def test_the_coin_of_a_position_is_a_number_of_its_own():
    dice = Dice(7)
    coins = [dice.coin(at) for at in range(2000)]
    assert coins == [Dice(7).coin(at) for at in range(2000)]
    assert coins != [Dice(8).coin(at) for at in range(2000)]
    assert np.mean(coins) == pytest.approx(0.5, abs=0.03)
    assert np.mean([coin < 0.2 for coin in coins]) == pytest.approx(0.2, abs=0.03)


def test_xtc_leaves_out_all_but_the_last_of_those_above_the_threshold_as_often_as_asked():
    logits = np.log(np.array([0.4, 0.3, 0.2, 0.06, 0.04], np.float32))
    s = Sampling(1.0, xtc_probability=0.25, xtc_threshold=0.1)
    left = [
        tuple(Sampler(s, seed, tokens_of([1])).distribution(logits).ids.tolist())
        for seed in range(2000)
    ]
    assert set(left) == {(0, 1, 2, 3, 4), (2, 3, 4)}
    assert left.count((2, 3, 4)) / 2000 == pytest.approx(0.25, abs=0.04)


@pytest.mark.parametrize(
    ("s", "greedy"),
    [
        (Sampling(), True),
        (Sampling(0.0, xtc_probability=1.0, mirostat=0, typical=0.5), True),
        (Sampling(0.0, xtc_probability=1.0, samplers=OF_LLAMA_CPP), False),
        (Sampling(0.0, typical=0.5, samplers=OF_LLAMA_CPP), False),
        (Sampling(0.0, top_p=0.5, min_p=0.1, top_n_sigma=1.0, samplers=OF_LLAMA_CPP), True),
        (Sampling(0.0, mirostat=2), True),
        (Sampling(1.0, mirostat=1, top_k=1), False),
        (Sampling(0.0, adaptive_target=0.5), True),
        (Sampling(0.0, dynatemp_range=0.5), False),
        (Sampling(1.0, top_k=1), True),
        (Sampling(0.0, samplers=("top_p",), top_p=0.5), False),
        (Sampling(1.0, samplers=("infill",)), True),
        (Sampling(0.0, dry_multiplier=1.0, repetition=1.2), True),
        (Sampling(0.0, repetition=1.2, samplers=("temperature", "penalties")), True),
        (Sampling(1.0, top_k=1, repetition=1.2, samplers=("penalties", "top_k")), True),
    ],
)
def test_sampling_is_greedy_where_nothing_before_drops_the_highest_logit(s, greedy):
    assert s.greedy == greedy
    if greedy:
        assert filters.distribution(s, drawn_logits(3)).is_certain


def test_the_usual_order_is_as_it_was_and_takes_the_short_way():
    for s in (
        Sampling(0.7, 40, 0.9, 0.05),
        Sampling(0.7, 40, 0.9, 0.05, 1.2, dry_multiplier=0.8),
        Sampling(1.0, 40, 0.9, 0.05, samplers=OF_LLAMA_CPP),
    ):
        assert s.steps.simple
    for s in (
        Sampling(0.7, 40, 0.9, samplers=OF_LLAMA_CPP),
        Sampling(0.7, typical=0.5),
        Sampling(0.7, dynatemp_range=0.1),
    ):
        assert not s.steps.simple
        sampler, logits = Sampler(s, 0, tokens_of([1])), drawn_logits(1)
        assert not sampler.adjusts, "several rounds may be run at once"
        assert not sampler.is_foreseen
        assert as_dict(filters.distribution(s, logits)) == as_dict(sampler.distribution(logits))
    for s in (
        Sampling(0.7, repetition=1.2, samplers=("temperature", "penalties")),
        Sampling(0.7, xtc_probability=0.5),
        Sampling(0.7, mirostat=2),
    ):
        assert Sampler(s, 0, tokens_of([1])).adjusts


def test_parameters_of_samplers_that_are_not_listed_are_off():
    everything = {"top_k": 5, "top_p": 0.9, "min_p": 0.1, "repetition": 1.2, "typical": 0.5}
    everything |= {"xtc_probability": 0.5, "dry_multiplier": 1.0, "top_n_sigma": 1.0}
    s = Sampling(0.5, **everything, adaptive_target=0.5, dynatemp_range=0.1, samplers=())
    assert s == Sampling(1.0, samplers=())
    assert Sampling(0.5, **everything, samplers=("top_k",)) == Sampling(1.0, 5, samplers=("top_k",))


def test_samplers_go_by_the_names_of_llama_cpp():
    assert split_samplers("edkypmxt") == [
        *("penalties", "dry", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")
    ]
    assert split_samplers("penalties; top-k ;temp") == ["penalties", " top-k ", "temp"]
    assert split_samplers("temperature") == ["temperature"]
    for text in ("top-k", "TOP_K", "topk", " top_k"):
        assert sampler_name(text) == "top_k"
    assert sampler_name("nucleus") == "top_p"
    assert sampler_name("warmth") is None


@pytest.mark.parametrize(
    "wrong",
    [
        {"samplers": ("warmth",)},
        {"samplers": ["top_k"]},
        {"dry_breakers": ("",)},
        {"dry_breakers": ("x" * 200,)},
        {"dry_breakers": ("x",) * (MAX_BREAKERS + 1)},
        {"mirostat": 3},
        {"adaptive_decay": 1.0},
    ],
)
def test_absurd_lists_and_steerings_are_refused_by_name(wrong):
    with pytest.raises(UsageError, match=next(iter(wrong)).removesuffix("s")):
        Sampling(**wrong)


def test_few_tokens_that_a_grammar_allows_are_found_without_sorting_the_others():
    row = np.full(200_000, -np.inf, np.float32)
    row[[3, 70_000]] = (1.0, 2.0)
    begun = time.thread_time()
    for _ in range(20):
        assert filters.distribution(Sampling(1.0, top_k=40), row).ids.tolist() == [3, 70_000]
    assert time.thread_time() - begun < 0.2


def test_logits_of_a_proposer_are_sampled_with_the_coin_of_the_target():
    s = Sampling(1.0, xtc_probability=0.5, xtc_threshold=0.1, dry_multiplier=1.0)
    sampler = Sampler(s, 3, tokens_of([1, 2, 1, 2]), SamplerParts(spell=spell))
    for at in range(20):
        row, drafted = hashed_logits(1)([at]), [1, 2, 3][: at % 4]
        distribution = sampler.draft_distribution(sampler.adjusted(row, drafted), drafted)
        expected = sampler.distribution(row, drafted)
        assert distribution.ids.tolist() == expected.ids.tolist()
        assert distribution.probs.tolist() == expected.probs.tolist()
