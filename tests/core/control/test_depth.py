"""The draft length: what pays, what is tried, and what may be lost."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.base.tokens import tokens_of
from localspec.core.control.depth import HICCUP, Candidate, Depth
from localspec.core.control.draft_length import at_own_rate, draft_on, longest_affordable, worthiest
from localspec.core.control.exploration import ALLOWANCE, FULL, HORIZON, MIN_WAIT, START
from localspec.core.control.prices import MARGIN, DraftPrices
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.costs import CLAMP, Attention, Batch, Costs
from localspec.interfaces.proposer import Ask, RoundCost

FLAT = {1: 1.0, 17: 1.1}
STEEP = {1: 1.0, 17: 17.0}
HISTORY = tokens_of(list(range(20)))

curves = st.lists(st.floats(0.001, 2), min_size=5, max_size=5).map(
    lambda steps: {1: 1.0, **{(2, 3, 9, 17)[n]: 1 + sum(steps[: n + 1]) for n in range(4)}}
)
drafts = st.lists(
    st.lists(st.floats(0, 1), max_size=8).map(lambda rates: products(rates)), min_size=1, max_size=6
)


def products(rates):
    alive, chances = 1.0, []
    for rate in rates:
        alive *= rate
        chances.append(alive)
    return chances


def depth(curve, drafting=None, scale=0.01):
    drafting = {
        by: {d: s * scale for d, s in points.items()} for by, points in (drafting or {}).items()
    }
    return Depth(Costs({size: seconds * scale for size, seconds in curve.items()}, drafting))


def trimmed(made, guesses):
    return made.trim(Batch(len(guesses)), guesses)


def candidate(made, by="draft", slot=0, limit=8, missed=0, rival=0.0, head=False):
    sampler = Sampler(GREEDY, 0, HISTORY)
    acceptance = made.acceptances.of_text(by, slot, sampler, bound=False)
    return Candidate(Ask(slot, HISTORY, limit, sampler), acceptance, missed, rival, head)


def plan(made, **about):
    [plan] = made.plan("draft", Batch(1), [candidate(made, **about)])
    return plan


def record(made):
    return made._records.of_text("draft", 0, made._round)


def loser(made):
    """Return the record of a proposer that lost before."""
    lost = record(made)
    lost.value, lost.tried = -1.0, True
    return lost


def note(made, cost, drafting=0.0, looking=0.0):
    made.note(cost, drafting, looking, ALLOWANCE)


def lap(made, tokens, emitted, drafting=0.0):
    seconds = made.costs.target(1).at(tokens) + drafting
    note(made, RoundCost(1, tokens, emitted, seconds, reads=False), drafting)


def test_where_checking_is_free_all_is_checked_and_where_it_is_dear_nothing():
    likely = products([0.9] * 8)
    assert trimmed(depth(FLAT), [likely]) == [8]
    assert trimmed(depth(STEEP), [likely]) == [0]


def test_a_jump_is_taken_if_what_lies_behind_it_pays():
    made = depth({1: 1.0, 2: 2.2, 9: 2.3})
    assert trimmed(made, [products([0.95])]) == [0]
    assert trimmed(made, [products([0.95] * 8)]) == [8]


@given(st.lists(st.floats(0.5, 1), min_size=20, max_size=60), st.integers(0, 60))
def test_of_a_long_draft_the_worthiest_part_is_found_as_of_a_short_one(rates, priced):
    survivals, prices = products(rates), [0.7 * length for length in range(priced + 1)]
    worths = [sum(survivals[:n]) - price for n, price in enumerate(prices[: len(survivals) + 1])]
    length, worth = worthiest(survivals, prices)
    assert worth == pytest.approx(max(worths))
    assert worths[length] == pytest.approx(worth)


def test_a_long_draft_is_verified_behind_a_hump_if_it_is_likely_to_be_right():
    hump = {1: 1.0, 5: 2.7, 9: 6.1, 17: 10.2, 128: 58.0}
    prices = depth(hump).prices(Batch(1))._replace(gain=1.8).verifying(127)
    assert 0 < worthiest(products([0.9] * 127), prices)[0] <= 4
    assert worthiest(products([0.999] * 127), prices)[0] == 127


def test_a_draft_may_lose_as_many_tokens_as_held_before_it():
    made = depth(STEEP)
    prices = made.verifying(Batch(1), 64)
    assert len(made.affordable(Batch(1), prices, streak=40)) == 40 + len(
        made.affordable(Batch(1), prices)
    )


def test_beside_other_replies_a_draft_may_not_lose_what_held_before_it():
    made = depth(STEEP)
    prices = made.verifying(Batch(2), 64)
    assert made.affordable(Batch(2), prices, streak=40) == made.affordable(Batch(2), prices)


def test_under_load_the_same_draft_is_checked_less_far():
    curve = {1: 1.0, 8: 1.05, 16: 4.0, 64: 20.0}
    alone = trimmed(depth(curve), [products([0.8] * 7)])
    crowd = trimmed(depth(curve), [products([0.8] * 7)] * 8)
    assert alone == [7]
    assert max(crowd) < 3


def test_beside_prompts_a_draft_token_costs_what_a_token_takes_in_so_wide_a_batch():
    reading = depth({1: 1.0, 8: 1.1, 9: 1.2, 64: 6.7})  # a tenth each, from the eighth on
    assert reading.prices(Batch(1)).verifying(4)[1] < 0.1
    assert reading.prices(Batch(1, beside=63)).verifying(4)[4] == pytest.approx(4 * 0.1 * 64 / 6.7)
    likely = [products([0.85] * 4)]
    assert reading.trim(Batch(1), likely) == [4]
    assert reading.trim(Batch(1, beside=63), likely) == [0]
    assert depth(FLAT).trim(Batch(1, beside=63), likely) == [4]  # where width is free it stays so


def test_the_likeliest_tokens_of_all_drafts_are_verified():
    made = depth({2: 1.0, 4: 1.1, 5: 9.0})
    assert trimmed(made, [[0.3, 0.2], [0.9, 0.8]]) == [0, 2]
    assert trimmed(made, [[0.9, 0.2], [0.8, 0.1]]) == [1, 1]


@given(curves, drafts)
def test_no_choice_is_negative_or_longer_than_its_draft(curve, guesses):
    kept = trimmed(depth(curve), guesses)
    assert all(0 <= length <= len(each) for length, each in zip(kept, guesses, strict=True))


scales = st.integers(-6, 6).map(lambda power: 2.0**power)  # which round nothing


@given(curves, drafts, scales)
def test_the_choice_does_not_depend_on_the_unit_of_time(curve, guesses, scale):
    assert trimmed(depth(curve, scale=1.0), guesses) == trimmed(depth(curve, scale=scale), guesses)


@given(curves, drafts)
def test_no_other_cut_of_a_single_draft_that_may_be_lost_is_worth_more(curve, guesses):
    made, survivals = depth(curve), guesses[0]
    prices = made.affordable(Batch(1), made.verifying(Batch(1), len(survivals)))
    worths = [sum(survivals[:n]) - price for n, price in enumerate(prices)]
    [kept] = trimmed(made, [survivals])
    assert worths[kept] == pytest.approx(max(worths))


@given(curves)
def test_prices_rise(curve):
    assert all(b >= a - 1e-9 for a, b in pairwise(depth(curve).prices(Batch(1)).verifying(16)))


def test_a_proposer_that_takes_no_time_is_cheap_and_so_is_an_unknown_one():
    made = depth(FLAT, {"draft": {1: 0.1, 4: 0.4}, "look": {1: 0.0001, 4: 0.0001}})
    assert not made.is_cheap("draft", 1)
    assert made.is_cheap("look", 1)
    assert made.is_cheap("new", 1)


def test_who_could_not_pay_even_if_always_right_is_never_asked():
    made = depth(STEEP, {"draft": {1: 0.5, 4: 2.0}})
    assert made.is_hopeless("draft", 8)
    for _ in range(300):
        assert not plan(made).limit
        lap(made, 1, 1)


def test_who_promises_to_pay_is_asked_and_stops_when_unsure():
    made = depth(FLAT, {"draft": {1: 0.1, 8: 0.8}})
    planned = plan(made)
    assert planned.limit == 8
    assert not planned.rates
    assert planned.pays([0.98])
    assert not planned.pays([0.05, 0.05, 0.05])


def test_the_better_rival_is_preferred():
    made = depth(FLAT, {"draft": {1: 0.1, 8: 0.8}})
    assert not plan(made, rival=7.5).limit


def test_what_it_takes_to_catch_up_must_pay_too():
    made = depth(FLAT, {"draft": {1: 0.1, 8: 0.8}})
    teach(made, 1, 30)
    assert plan(made, missed=0).limit
    for _ in range(60):
        made.costs.note_drafting("draft", 1, 1, 1.0, missed=30)
    assert not plan(made, missed=30).limit


def test_a_draft_is_not_made_longer_for_next_to_nothing():
    made = depth({1: 1.0, 3: 1.0}, {"draft": {1: 0.1, 2: 0.1, 3: 0.1}})
    likely = candidate(made, limit=2)
    made.costs.drafting("draft", 1)._line[:] = [0.001, 0.001, 0.0015]
    prices = made.prices(Batch(1)).drafting("draft", 1, 2).total
    chance = prices[2] - prices[1]
    rate = likely.acceptance.ahead(2)[1]
    for extra, goes_on in ((MARGIN / 2, False), (MARGIN * 2, True)):
        likely.acceptance.weigh = lambda _, s=(chance + extra) / rate: ([], [s])
        assert draft_on(likely.acceptance, prices, 2)([0.5]) == goes_on


def test_where_more_is_likely_to_be_right_more_is_tried():
    limits = []
    for right in (0, 4):
        made = depth({1: 1.0, 17: 1.2}, {"draft": {1: 0.1, 8: 0.8}})
        for _ in range(20):
            candidate(made).acceptance.note_places(right, 4)
        loser(made)
        limits.append(plan(made).limit)
    assert limits[1] > limits[0] > 0


def test_a_proposer_that_was_unlucky_is_asked_again_although_it_must_catch_up():
    """What it has to read is paid once, and counted against many rounds."""
    made = depth(FLAT, {"draft": {1: 0.1, 8: 0.8}})
    teach(made, 1, 30)
    value = record(made).value
    missed = round(value / made.costs.reading("draft", 1) / 100) + 1
    planned = plan(made, missed=missed)
    assert 0 < planned.piece < missed
    assert record(made).pays
    assert plan(made, missed=planned.piece).limit


def test_who_pays_is_asked_whenever_it_was_to_be_tried_again():
    made = depth(FLAT, {"draft": {1: 0.1, 8: 0.8}})
    paying = record(made)
    paying.value, paying.next_try = 0.5, 50
    assert plan(made).limit


def test_a_draft_made_to_learn_counts_as_if_it_had_been_as_long_as_is_best():
    made = depth(FLAT, {"draft": {1: 0.2, 8: 1.6}})
    loser(made)
    planned = plan(made)
    assert planned.rates
    alive = products([0.9, 0.1, 0.1, 0.1])
    assert planned.value(alive, 0.0) == pytest.approx(0.9 - planned.prices.total[1])


def test_after_a_long_sleep_a_proposer_is_learnt_anew_but_not_by_a_new_text():
    made = depth(FLAT, {"draft": {1: 0.1, 8: 0.8}})
    teach(made, 0, 300)
    variance = candidate(made).acceptance.placed.variance
    made._round += 400
    assert plan(made).rates
    assert candidate(made).acceptance.placed.variance > 2 * variance
    made.release(0)
    variance = candidate(made).acceptance.placed.variance
    loser(made)
    assert plan(made).rates
    assert candidate(made).acceptance.placed.variance == variance


def test_no_draft_costs_more_than_half_of_what_may_be_lost():
    made = depth({1: 1.0, 17: 9.0}, {"draft": {1: 0.1, 8: 0.8}})
    likely, prices = products([0.99] * 16), made.prices(Batch(1)).verifying(16)
    lengths = []
    for budget in (0.0, 2.0, 6.0, 40.0):
        made.budget.balance = budget
        length, _ = worthiest(likely, made.affordable(Batch(1), made.verifying(Batch(1), 16)))
        assert prices[length] <= budget / 2
        record(made).value = 5.0
        assert plan(made, limit=16).limit * 0.6 <= budget / 2
        lengths.append(length)
    assert lengths[0] == 0
    assert lengths == sorted(set(lengths))


def test_nothing_is_drafted_where_the_shortest_draft_that_could_pay_may_not_be_lost():
    prices = DraftPrices([], [0.0, 1.0, 5.0, 5.1, 5.2], least=2)
    assert longest_affordable(prices, 4, 5.1) == 3
    assert longest_affordable(prices, 4, 2.0) == 0


def test_trying_is_rarer_where_it_costs_more():
    rests = []
    for price in (0.1, 0.4, 0.6):
        made = depth(FLAT, {"draft": {1: price, 8: 8 * price}})
        teach(made, 0, 300, limit=1)
        rests.append(record(made).wait)
    assert rests == sorted(set(rests))


def judge(made, found, right):
    """Judge a draft that was asked for, with so many tokens right."""
    acceptance, length = candidate(made).acceptance, found.limit
    kinds, survivals = acceptance.weigh([0.5] * length)
    _, worth = worthiest(survivals, made.prices(Batch(1)).verifying(length))
    record(made).note_worth(found.value(survivals, worth))
    acceptance.note(kinds, right, length)
    acceptance.note_places(right, length)
    record(made).note_right(right)


def teach(made, right, rounds, limit=4):
    """Let so many drafts be made and judged; how often it was asked."""
    asked = 0
    for _ in range(rounds):
        planned = plan(made, limit=limit)
        if planned.limit:
            asked += 1
            judge(made, planned, right and planned.limit)
            lap(made, 1 + planned.limit, 1 + (right and planned.limit), 0.001 * planned.limit)
        else:
            lap(made, 1, 1)
    return asked


def test_who_is_always_wrong_is_left_alone_and_tried_ever_more_rarely():
    made = depth(FLAT, {"draft": {1: 0.1, 8: 0.8}})
    begin, later = teach(made, 0, 60), teach(made, 0, 200)
    assert begin > later / 2
    assert 1 <= later <= 20


def test_who_becomes_right_is_soon_asked_again():
    made = depth(FLAT, {"draft": {1: 0.1, 8: 0.8}})
    teach(made, 0, 200)
    assert teach(made, 1, 60) > 15
    assert teach(made, 1, 20) == 20


@settings(max_examples=30)
@given(st.floats(0.02, 0.6), st.sampled_from([FLAT, {1: 1.0, 2: 1.75, 9: 3.3, 17: 5.0}]))
def test_trying_costs_a_bounded_share_of_plain_decoding(price, curve):
    """Whatever a proposer that is always wrong costs."""
    made = depth(curve, {"draft": {1: price, 8: 8 * price}})
    spent = 0.0
    for _ in range(400):
        planned = plan(made)
        drafting = 0.01 * price * planned.limit
        if planned.limit:
            judge(made, planned, 0)
        spent += made.costs.target(1).at(1 + planned.limit) + drafting
        lap(made, 1 + planned.limit, 1, drafting)
    assert spent <= 400 * 0.01 * 1.02 + 0.1


def test_a_draft_that_is_lost_too_often_is_not_checked_for_a_while():
    made = depth(FLAT)
    for _ in range(int(20 * FULL / 0.1)):
        note(made, RoundCost(1, 17, 1, 0.02, reads=False), 0.0)
    lap(made, 1, 1)  # so that it is not for want of a plain round
    assert trimmed(made, [products([0.99] * 8)]) == [0]


def test_reading_a_prompt_tells_nothing_about_drafts():
    made = depth(FLAT)
    before = made.costs.target(1).stretch(1, 17)
    note(made, RoundCost(1, 9, 1, 5.0, reads=True), 0.0)
    assert made.costs.target(1).stretch(1, 17) == before


def test_plain_decoding_is_looked_at_now_and_then_where_little_is_won():
    made = depth({1: 1.0, 2: 1.5, 17: 4.0})
    plain = 0
    for _ in range(200):
        kept = trimmed(made, [products([0.9] * 4)])[0]
        plain += not kept
        lap(made, 1 + kept, 1 + kept // 2)
    assert 2 <= plain <= 8


def test_plain_decoding_is_looked_at_too_where_much_seems_to_be_won():
    """Nothing else tells that a plain round takes less than is believed."""
    made = depth(FLAT)
    plain = 0
    for _ in range(700):
        kept = trimmed(made, [products([0.99] * 4)])[0]
        plain += not kept
        lap(made, 1 + kept, 1 + kept)
    assert made.budget.gain > 3
    assert 1 <= plain <= 4


def test_rows_that_are_new_are_soon_measured_without_drafts_too():
    """What they take was copied from one row, and may be wrong for all drafts of several."""
    abstained = []
    for rows in (1, 4):
        made, drafts = depth(FLAT), [products([0.99] * 4)] * rows
        abstained.append(0)
        for _ in range(100):
            tokens = rows + sum(made.trim(Batch(rows), drafts))
            abstained[-1] += tokens == rows
            seconds, came = made.costs.at(Batch(rows), tokens), rows + (tokens > rows)
            note(made, RoundCost(rows, tokens, came, seconds, reads=False))
    assert abstained[0] <= 1
    assert 2 <= abstained[1] <= 6


def test_drafts_of_several_rows_may_lose_no_more_than_those_of_one():
    lost = []
    for rows in (1, 4):
        made, spent = depth({1: 1.0, 4: 1.1, 8: 1.2, 40: 2.0}), 0.0
        batch = Batch(rows)
        for _ in range(200):
            kept = made.trim(batch, [products([0.99] * 4)] * rows)
            tokens = rows + sum(kept)
            seconds = made.costs.at(batch, tokens)
            spent += seconds / made.costs.at(batch, rows) - 1
            note(made, RoundCost(rows, tokens, rows, seconds, reads=False))
        lost.append(rows * spent)
    assert lost[1] < 1.2 * lost[0]


@pytest.mark.parametrize(("took", "counts"), [(1.0, 1.0), (1.4, 1.4), (9.0, HICCUP * CLAMP)])
def test_what_a_draft_of_several_rows_took_counts_but_for_a_hiccup(took, counts):
    made, batch = depth({1: 1.0, 2: 1.1, 4: 1.4}), Batch(2)
    seconds = took * made.costs.at(batch, 4)
    note(made, RoundCost(2, 4, 2, seconds, reads=False))
    lost = 2 * (counts * 1.4 / 1.1 - 1)
    assert START + ALLOWANCE - made.budget.balance == pytest.approx(lost, rel=0.2)


def test_tries_and_reading_along_are_rarer_the_less_may_be_lost():
    rests, reads = [], []
    for budget in (2.0, 6.0, 18.0):
        token = 4 / HORIZON * 0.01  # seconds, of a round of 0.01
        made = Depth(Costs({1: 0.01, 17: 0.011}, {"draft": {1: 0.004, 8: 0.032}}, {"draft": token}))
        loser(made).wait, made.budget.tries = 1000, budget
        assert plan(made, limit=1, head=True).rates
        rests.append(record(made).wait)
        reads.append(made.affords_reading("draft", Batch(1), 48))
    assert rests == sorted(set(rests), reverse=True)
    assert reads == [False, True, True]


def test_a_proposer_that_the_budget_does_not_pay_for_is_not_considered_for_some_rounds():
    made = depth({1: 1.0, 17: 4.0}, {"draft": {1: 0.1, 8: 0.8}})
    record(made).value, made.budget.balance = 0.5, 0.01
    assert not plan(made).limit
    assert made.sleeps("draft", 0)
    made.budget.balance = 6.0
    for _ in range(MIN_WAIT):
        assert not plan(made).limit
        lap(made, 1, 1)
    assert plan(made).limit


def test_looking_for_free_drafts_is_neither_a_plain_rounds_time_nor_a_loss():
    made, budget = depth(FLAT), depth(FLAT).budget.balance
    for _ in range(100):
        note(made, RoundCost(1, 1, 1, 0.015, reads=False), 0.0, 0.005)
    assert made.costs.target(1).at(1) == pytest.approx(0.01)
    assert made.budget.balance > budget


def test_a_try_counts_as_much_as_all_that_was_learnt_before():
    made = depth(FLAT, {"draft": {1: 0.1, 8: 0.8}})
    tried = loser(made)
    tried.value, tried.asks = -0.5, 50
    assert plan(made).rates
    record(made).note_worth(1.0)
    assert tried.value == pytest.approx(0.25)


def test_what_a_slot_knew_is_forgotten_with_its_text():
    made = depth(FLAT, {"draft": {1: 0.1, 8: 0.8}})
    teach(made, 0, 40, limit=2)
    assert not plan(made).limit
    made.release(0)
    assert plan(made).limit


WIDE_IS_DEAR = {1: 0.010, 4: 0.012, 8: 0.014, 12: 0.040, 40: 0.400}  # seconds, by tokens


def test_where_widths_must_be_even_all_rows_are_drafted_for_alike_or_none():
    depth = Depth(Costs(WIDE_IS_DEAR), even=True)
    sure = [0.95, 0.9, 0.85, 0.8]
    assert depth.trim(Batch(4), [sure] * 4) == [1] * 4  # two of each would make twelve tokens
    assert depth.trim(Batch(4), [sure] * 3) == [0] * 3  # a row without a draft would run in turn
    assert depth.trim(Batch(4), [sure, sure, sure, [0.01]]) == [1] * 4
    assert depth.trim(Batch(4), [[0.05]] * 4) == [0] * 4


def test_both_rows_are_drafted_for_alike_where_that_is_cheaper():
    cheap = {1: 0.010, 2: 0.0101, 4: 0.0102, 16: 0.011}  # width costs nothing
    depth = Depth(Costs(cheap), even=True)
    assert depth.trim(Batch(2), [products([0.9] * 4), products([0.9] * 3)]) == [3, 3]


def test_less_is_verified_behind_a_long_text_where_attention_is_dear():
    costs = Costs({1: 0.006, 9: 0.028, 17: 0.032}, attention=Attention(row=1e-7, token=2e-6))
    sure = [products([0.9] * 16)]
    near, far = (Depth(costs).trim(Batch(1, held=held, seen=held), sure)[0] for held in (32, 16000))
    assert near > 4 > far


def test_in_one_pool_a_token_is_compared_with_the_texts_of_all_rows():
    assert Depth().batch(4, 80) == Batch(4, 80, 80)
    assert Depth(even=True).batch(4, 80) == Batch(4, 80, 20)


def test_the_first_text_on_which_a_proposer_was_tried_decides_what_is_expected_of_the_next():
    made = depth(FLAT, {"draft": {1: 0.1, 8: 0.8}})
    values = []
    for worth in (2.0, -2.0):
        record(made).note_worth(worth)
        values.append(record(made).value)
        made.release(0)
        values.append(record(made).value)
    assert values[1] == values[0]
    assert values[2] < values[3] < values[1]


def test_a_try_that_the_budget_does_not_pay_for_is_not_considered_for_some_rounds():
    made = depth({1: 1.0, 17: 4.0}, {"draft": {1: 0.1, 8: 0.8}})
    loser(made)
    made.budget.tries = 0.0
    assert plan(made).limit == 0
    assert made.sleeps("draft", 0)
    assert not made.record("draft", 0).sleeps(made._round + MIN_WAIT)


def test_a_copy_before_does_not_make_drafts_dear_in_the_text_behind_it():
    prices = depth({1: 1.0, 9: 2.0}).prices(Batch(1))._replace(gain=12.0).verifying(4)
    unsure = products([0.7] * 4)
    assert worthiest(unsure, prices)[0] == 0
    assert worthiest(unsure, at_own_rate(unsure, prices, 12.0))[0] > 0


def test_where_little_was_won_of_late_or_a_draft_is_as_fast_prices_stay():
    prices = depth(FLAT).prices(Batch(1))._replace(gain=2.0).verifying(4)
    assert at_own_rate(products([0.7] * 4), prices, 2.0) == prices
    fast = depth(FLAT).prices(Batch(1))._replace(gain=4.0).verifying(16)
    assert at_own_rate(products([1.0] * 16), fast, 4.0) == fast
