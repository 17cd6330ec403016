"""A proof's samples: wrong distributions are found, right ones pass, and slots are clean."""

from __future__ import annotations

from collections import Counter
from itertools import islice

import numpy as np
import pytest

from localspec.apps.prove.chi_square import Observed, fit, survival
from localspec.apps.prove.proposers import drawn_drafts
from localspec.apps.prove.runs import ReplyRequest, plain, run
from localspec.apps.prove.sampled import (
    HURRIED_SAMPLES,
    MIN_CASE_SAMPLES,
    MIN_SAMPLES,
    Sample,
    SampleCounts,
    SampleEffort,
    draw_samples,
    fit_tests,
    sample_effort,
)
from localspec.apps.prove.spots import Case, Spot, reference_logits, spots
from localspec.apps.prove.verdict import LEVEL
from localspec.base.tokens import tokens_of
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.core.sampling import filters
from localspec.core.sampling.parameters import Sampling
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.distribution import Distribution
from localspec.interfaces.proposer import Ask
from localspec.interfaces.testing import ScriptedModel, hashed_logits
from tests import engines

WARM = Sampling(temperature=1.0)
SPOTS = [Spot(slot, tokens_of([1, 2, 3, 1, 2, slot])) for slot in range(3)]


def scripted(seed=1, **options):
    return ScriptedModel(hashed_logits(seed), **options)


def sample(model, proposers, rounds, sampling=WARM, places=SPOTS):
    tallies = {name: SampleCounts() for name in proposers}
    for sample in islice(draw_samples(model, places, proposers, sampling), rounds * len(proposers)):
        tallies[sample.proposer].add(sample)
    return tallies, fit_tests(model, tallies, sampling)


@pytest.mark.parametrize(
    ("statistic", "freedom", "p"),
    [
        # From printed tables of chi-square.
        (3.841, 1, 0.05),
        (10.828, 1, 0.001),
        (5.991, 2, 0.05),
        (13.816, 2, 0.001),
        (7.815, 3, 0.05),
        (18.307, 10, 0.05),
        (29.588, 10, 0.001),
        (37.697, 15, 0.001),
        (124.342, 100, 0.05),
        (149.449, 100, 0.001),
        (77.929, 100, 0.95),
    ],
)
def test_p_values_are_those_of_the_tables(statistic, freedom, p):
    assert survival(statistic, freedom) == pytest.approx(p, rel=2e-3)


def test_p_values_stay_within_bounds():
    assert survival(0, 5) == survival(3, 0) == 1
    assert survival(1e9, 7) == survival(1e9, 8) == 0
    assert 0 < survival(1000, 901) < survival(900, 901) < 1


def distribution(*probs):
    return Distribution(np.arange(len(probs)), np.array(probs))


def test_a_fit_is_pearsons_statistic():
    fitted = fit([Observed(distribution(0.5, 0.3, 0.2), Counter({0: 60, 1: 20, 2: 20}))])
    assert fitted.statistic == pytest.approx(10**2 / 50 + 10**2 / 30)
    assert fitted.freedom == 2


def test_what_is_due_fewer_than_five_times_is_taken_together():
    # 2 and 3 are due 4 and 3 times: one cell. 1 joins where they would still be too few.
    together = fit([Observed(distribution(0.43, 0.5, 0.04, 0.03), Counter({0: 43, 1: 49, 2: 8}))])
    assert together.freedom == 2
    assert together.statistic == pytest.approx(1 / 50 + 1 / 7)
    joined = fit([Observed(distribution(0.53, 0.44, 0.02, 0.01), Counter({0: 50, 1: 44, 2: 6}))])
    assert joined.freedom == 1
    assert joined.statistic == pytest.approx(3**2 / 53 + 3**2 / 47)


def test_samples_of_several_laws_add_up_and_certain_ones_add_nothing():
    one = Observed(distribution(0.5, 0.5), Counter({0: 60, 1: 40}))
    other = Observed(distribution(0.2, 0.8), Counter({0: 20, 1: 80}))
    certain = Observed(distribution(0.99, 0.01), Counter({0: 100}))
    assert fit([certain]).freedom == 0
    assert fit([certain]).p == 1
    fitted = fit([one, other, certain])
    assert (fitted.statistic, fitted.freedom) == (pytest.approx(4), 2)


def test_a_token_that_the_law_does_not_have_is_never_chance():
    assert fit([Observed(distribution(0.5, 0.5), Counter({0: 50, 1: 49, 2: 1}))]).p == 0
    assert fit([Observed(distribution(0.5, 0.5, 0.0), Counter({0: 50, 1: 49, 2: 1}))]).p == 0


def test_a_fair_sample_fails_as_seldom_as_it_says_and_a_biased_one_is_found():
    dice = np.random.default_rng(1)
    tail = 1 / np.arange(2, 400) ** 1.2
    fair = np.concatenate(([0.3], 0.7 * tail / tail.sum()))
    biased = np.concatenate(([0.4], 0.6 * tail / tail.sum()))

    def p(probs):
        counts = dice.multinomial(2000, probs)
        return fit([Observed(distribution(*fair), Counter(dict(enumerate(counts.tolist()))))]).p

    assert 0.02 < np.mean([p(fair) < 0.05 for _ in range(400)]) < 0.08
    assert all(p(biased) < LEVEL / 8 for _ in range(20))


@pytest.mark.parametrize("recurrent", [False, True], ids=["attention", "recurrent"])
@pytest.mark.parametrize("sampling", [WARM, Sampling(temperature=0.6), Sampling(temperature=2.0)])
def test_what_is_sampled_with_drafts_fits_the_targets_distribution(recurrent, sampling):
    model = scripted(recurrent=recurrent)
    proposers = {
        "plain": Silent(),
        "ngram": NgramProposer(3, 1),
        "drawn": drawn_drafts(model, SPOTS, sampling),
        "draft-model": DraftModelProposer(scripted(9), floor=0),
    }
    tallies, tests = sample(model, proposers, 300, sampling)
    tested = {(test.proposer, test.token) for test in tests}
    assert tested >= {*((name, 1) for name in proposers), ("drawn", 2)}
    assert ("plain", 2) not in tested
    assert min(test.fit.p for test in tests) > LEVEL
    for name in ("ngram", "drawn", "draft-model"):
        assert tallies[name].rounds == 300
        assert 0 < tallies[name].accepted < tallies[name].drafted
    assert tallies["plain"].drafted == 0
    assert all(test.samples <= 300 for test in tests)


def test_a_model_that_does_not_forget_is_found_out():
    """Its own logits at the time would not show it: the distribution is that of a clean slot."""

    class Forgetful(ScriptedModel):
        def truncate(self, slot, length):
            held = self.held.get(slot, [])
            if 0 < length < len(held):
                held[length - 1] = held[length]
            return super().truncate(slot, length)

    _, tests = sample(Forgetful(hashed_logits(1)), {"ngram": NgramProposer(3, 1)}, 300)
    assert min(test.fit.p for test in tests) < LEVEL / 8


def test_samples_differ_and_come_again_in_the_next_proof():
    def emitted():
        drawn = draw_samples(scripted(), SPOTS, {"plain": Silent(), "again": Silent()}, WARM)
        return [sample.emitted for sample in islice(drawn, 120)]

    assert emitted() == emitted()
    assert emitted()[0::2] != emitted()[1::2]


def test_every_spot_is_sampled_by_every_proposer_in_turn():
    drawn = draw_samples(scripted(), SPOTS, {"a": Silent(), "b": Silent()}, WARM)
    counts = Counter((sample.proposer, sample.spot.slot) for sample in islice(drawn, 12))
    assert set(counts.values()) == {2}
    assert len(counts) == 6


def test_proposers_hear_that_a_sample_is_over_before_the_next():
    calls = []

    class Noting(Silent):
        def propose(self, asks):
            calls.append("ask")
            return super().propose(asks)

        def release(self, slot):
            calls.append(slot)

    list(islice(draw_samples(scripted(), SPOTS[1:2], {"a": Noting()}, WARM), 3))
    assert calls == ["ask", "ask", 1, "ask", 1, "ask", 1]  # the first ask is for the text


def test_cases_that_came_up_too_seldom_are_left_out():
    model = scripted()
    tally = SampleCounts()
    tally.cases[Case(SPOTS[0], 1)] = Counter({0: MIN_CASE_SAMPLES})
    tally.cases[Case(SPOTS[1], 1)] = Counter({0: MIN_CASE_SAMPLES - 1})
    [test] = fit_tests(model, {"x": tally}, WARM)
    assert test.samples == MIN_CASE_SAMPLES


def test_drawn_drafts_come_from_a_flatter_distribution_than_the_targets():
    proposer, drawn = drawn_drafts(scripted(), SPOTS, WARM), Counter()
    for seed in range(2000):
        ask = Ask(0, SPOTS[0].text, 2, Sampler(WARM, seed, SPOTS[0].text))
        [draft] = proposer.propose([ask])
        drawn.update(draft.tokens.tolist())
    logits = hashed_logits(1)(SPOTS[0].text.tolist())
    flatter = filters.distribution(Sampling(temperature=1.5), logits)
    assert fit([Observed(flatter, drawn)]).p > LEVEL
    assert fit([Observed(filters.distribution(WARM, logits), drawn)]).p < LEVEL


def test_a_tally_tells_cases_apart_by_width_and_by_what_was_accepted():
    tally = SampleCounts()
    for drafted, emitted in (((4, 5), (4, 5, 6)), ((4, 5), (4, 2)), ((4, 5), (3,)), ((), (1,))):
        tally.add(Sample("x", SPOTS[0], drafted, emitted))
    assert (tally.rounds, tally.drafted, tally.accepted) == (4, 6, 3)
    assert tally.cases == {
        Case(SPOTS[0], 3): Counter({4: 2, 3: 1}),
        Case(SPOTS[0], 3, (4,)): Counter({5: 1, 2: 1}),
        Case(SPOTS[0], 1): Counter({1: 1}),
    }


def test_the_law_of_a_case_comes_from_an_empty_slot_in_a_batch_as_wide():
    model, widths = scripted(), []
    forward = model.forward

    def watched(rows):
        widths.append([len(row.tokens) for row in rows])
        return forward(rows)

    model.held[1] = [5, 5, 5]
    model.batch, model.forward = 4, watched
    text = [1, 2, 3, 4, 5, 6]
    logits = reference_logits(model, Case(Spot(1, tokens_of(text)), 3, (2,)))
    assert logits.tolist() == hashed_logits(1)([*text, 2]).tolist()
    assert widths == [[4], [1], [3]]
    assert not any(model.held.values())


def test_spots_are_where_ngrams_may_be_right_and_the_target_is_undecided():
    prompts = [tokens_of([at, 2, 3, at, 2]) for at in range(6)]
    replies = list(plain(scripted(), prompts, 30))
    places = spots(replies, 3)
    assert [place.slot for place in places] == [0, 1, 2]
    leads = []
    for place in places:
        [reply] = [e for e in replies if e.text[: len(place.text)] == place.text.tolist()]
        assert len(place.text) >= reply.prompt
        top_two = reply.answers[len(place.text)].top_two
        leads.append(top_two.lead)
        [sample] = islice(
            draw_samples(scripted(), [place], {"ngram": NgramProposer(3, 1)}, WARM), 1
        )
        assert sample.drafted[0] in (top_two.best, top_two.second)
    assert leads == sorted(leads)
    assert leads[0] < np.median([each.top_two.lead for r in replies for each in r.answers.values()])


def test_a_slow_model_is_sampled_with_fewer_proposers_and_then_less():
    names = ["plain", "ngram", "suffix", "draft-model", "auto", "drawn"]
    assert sample_effort(names, 900) == SampleEffort(names, MIN_SAMPLES)
    four = ["draft-model", "drawn", "ngram", "plain"]
    assert sample_effort(names, 899) == SampleEffort([*four, "suffix"], MIN_SAMPLES)
    assert sample_effort(names, 600) == SampleEffort(four, MIN_SAMPLES)
    assert sample_effort(names, 300) == SampleEffort(four[:2], MIN_SAMPLES)
    assert sample_effort(names, 299) == SampleEffort(four[:2], HURRIED_SAMPLES, hurried=True)
    assert sample_effort(["plain", "mtp", "drawn"], 0).proposers == ["mtp", "drawn"]


@pytest.mark.parametrize("name", ["llama", "mamba2", "qwen35"])
def test_real_engines_sample_from_the_law_they_state(name):
    model, draft = engines.target(name), engines.draft()
    texts = [model.tokenizer.encode(text) for text in ("the code is the code", "if it is not on")]
    replies = run(model, Silent(), [ReplyRequest(text, 12) for text in texts])
    places = spots(replies, 2)
    proposers = {
        "plain": Silent(),
        "drawn": drawn_drafts(model, places, WARM),
        "draft-model": DraftModelProposer(draft, floor=0),
    }
    tallies, tests = sample(model, proposers, 120, places=places)
    assert {test.proposer for test in tests} == set(proposers)
    assert min(test.fit.p for test in tests) > LEVEL / 8
    assert tallies["drawn"].accepted < tallies["drawn"].drafted
    model.close()
    draft.close()
