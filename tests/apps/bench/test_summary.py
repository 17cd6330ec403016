"""Figures made from replies."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.apps.bench.reply import Round
from localspec.apps.bench.summary import (
    forwards,
    joules_per_token,
    sections,
    summarise,
    total,
    trials,
)
from tests.apps.bench.invented import (
    ALL_RIGHT,
    HALF_RIGHT,
    MODES,
    PLAIN_ROUND,
    plain,
    prompt,
    reply,
    run,
)


def found():
    return sections(trials(run(), MODES), MODES)


def figures(section, mode="ngram:4"):
    [summary] = [summary for summary in section.summaries if summary.mode == mode]
    return summary


def test_there_is_a_section_for_each_category_for_all_and_for_all_that_do_not_loop():
    assert [(s.title, s.trials) for s in found()] == [
        ("chat", 2),
        ("edit", 1),
        ("all", 3),
        ("all without loops", 2),
    ]
    assert [section.looping for section in found()] == [("chat 2",), (), ("chat 2",), ()]
    assert total(found()).title == "all"


def test_a_category_may_be_called_all():
    asked = prompt("all", 1)
    replies = [*run(), *(reply(mode, PLAIN_ROUND, asked=asked) for mode in MODES)]
    assert total(sections(trials(replies, MODES), MODES)).trials == 4


def test_a_loop_in_any_mode_takes_the_prompt_out_of_all():
    replies = [
        *plain(PLAIN_ROUND),
        reply("ngram:4", ALL_RIGHT, text="again and again, " * 8),
        *plain(PLAIN_ROUND, repeat=1),
        reply("ngram:4", ALL_RIGHT, repeat=1),
    ]
    everything, sound = sections(trials(replies, MODES), MODES)
    assert (everything.trials, sound.trials) == (2, 1)
    assert all(summary.replies == 1 for summary in sound.summaries)


def test_where_everything_loops_or_nothing_does_there_is_no_section_without():
    for text in ("again and again, " * 8, "once"):
        replies = [reply(mode, PLAIN_ROUND, text=text) for mode in MODES]
        assert [s.title for s in sections(trials(replies, MODES), MODES)] == ["all"]


def test_ratios_are_of_the_same_prompt_and_the_median_counts():
    chat, edit, everything, sound = map(figures, found())
    assert everything.ratios == pytest.approx((2.0, 2.5, 1.5))
    assert everything.ratio == pytest.approx(2.0)
    assert (chat.ratio, edit.ratio, sound.ratio) == pytest.approx((2.25, 1.5, 1.75))


def test_speeds_leave_the_first_round_out_and_weigh_by_time():
    everything = total(found())
    assert figures(everything, "plain").tokens_per_second == pytest.approx(100)
    assert figures(everything).tokens_per_second == pytest.approx(29 / 0.14)
    assert figures(everything).speedup == pytest.approx(2.9 / 1.4)
    assert figures(everything).first_token == 0.5


def test_draft_tokens_are_counted_by_round_and_position():
    everything = figures(total(found()))
    assert everything.drafted == 4
    assert everything.accepted == pytest.approx(22 / 7)
    assert everything.tokens == pytest.approx(29 / 7)
    assert everything.acceptance_rate == pytest.approx(22 / 28)
    assert everything.taken_back == 6
    assert everything.acceptance_by_position == pytest.approx((1, 1, 4 / 7, 4 / 7))


def test_a_position_is_judged_by_the_drafts_that_reached_it():
    short = Round(1, 0, 1, 0.01, 0.009)
    replies = [*plain(PLAIN_ROUND), reply("ngram:4", short, ALL_RIGHT)]
    [trial] = trials(replies, MODES)
    usual = {0: 1.0, 1: 1.0, 4: 1.0}
    assert summarise("ngram:4", [trial], usual).acceptance_by_position == (0.5, 1, 1, 1)


def test_tokens_of_a_round_share_its_time():
    assert figures(found()[1]).between_tokens == pytest.approx([0.02 / 3] * 3)
    # Five tokens of 4 ms and two of 10: the median is a fast one.
    assert figures(mixed()).between_tokens[0] == pytest.approx(0.004)


def mixed():
    replies = [*plain(PLAIN_ROUND), reply("ngram:4", ALL_RIGHT, *[PLAIN_ROUND] * 2)]
    return sections(trials(replies, MODES), MODES)[0]


def test_the_slowest_tokens_show_in_the_percentiles():
    slow = [*[PLAIN_ROUND] * 199, Round(0, 0, 1, 1.0, 0.9)]
    [trial] = trials([*plain(*slow), reply("ngram:4", HALF_RIGHT)], MODES)
    p50, p95, p99 = summarise("plain", [trial], {0: 1.0}).between_tokens
    assert (p50, p95, p99) == pytest.approx((0.01, 0.01, 0.01))
    slow += [Round(0, 0, 1, 1.0, 0.9)] * 4
    [trial] = trials([*plain(*slow), reply("ngram:4", HALF_RIGHT)], MODES)
    p50, p95, p99 = summarise("plain", [trial], {0: 1.0}).between_tokens
    assert (p50, p95, p99) == pytest.approx((0.01, 0.01, 1.0))


def test_texts_are_held_against_plain_token_by_token():
    assert [figures(section).same_text for section in found()] == [2, 0, 2, 1]
    assert [figures(section).replies for section in found()] == [2, 1, 3, 2]


def test_what_checking_costs_is_taken_from_all_modes_prompt_by_prompt():
    assert forwards(trials(run(), MODES)) == {0: pytest.approx(0.9), 4: pytest.approx(1.7)}
    dear = [*plain(Round(0, 0, 1, 0.02, 0.018)), reply("ngram:4", HALF_RIGHT)]
    assert forwards(trials(dear, MODES)) == {0: pytest.approx(0.9), 4: pytest.approx(0.85)}


def test_predictions_stand_beside_what_was_measured():
    everything = figures(total(found()))
    assert everything.forecast.chance == pytest.approx(22 / 25)
    assert everything.forecast.speedup == pytest.approx(everything.forecast.tokens / 2)
    plain = figures(total(found()), "plain")
    assert plain.forecast.speedup == pytest.approx(plain.speedup) == pytest.approx(1)


def test_what_was_interrupted_counts_only_where_all_modes_had_answered():
    assert [t["plain"].prompt.name for t in trials(run()[:-1], MODES)] == ["chat 1", "chat 2"]
    assert sections(trials(run()[:1], MODES), MODES) == []


def test_repeats_are_trials_of_their_own():
    replies = [reply(mode, PLAIN_ROUND, repeat=at) for at in range(3) for mode in MODES]
    [everything] = sections(trials(replies, MODES), MODES)
    assert everything.trials == 3


def test_replies_of_a_single_token_have_no_speed_and_spoil_none():
    one, two = prompt("chat", 1), prompt("chat", 2)
    replies = [reply(mode, asked=one) for mode in MODES]
    short = sections(trials(replies, MODES), MODES)[0].summaries[1]
    assert short.ratio is short.speedup is short.tokens_per_second is short.between_tokens is None
    assert short.forecast is None
    replies += [*plain(PLAIN_ROUND, asked=two), reply("ngram:4", ALL_RIGHT, asked=two)]
    assert figures(sections(trials(replies, MODES), MODES)[0]).ratio == pytest.approx(2.5)


def test_joules_are_divided_among_the_tokens_after_the_first():
    replies = [
        replace(reply("plain", PLAIN_ROUND, PLAIN_ROUND), joules=3.0),
        replace(reply("plain", HALF_RIGHT), joules=2.0),
        reply("plain", ALL_RIGHT),
    ]
    assert joules_per_token(replies) == pytest.approx(5.0 / (2 + 3))
    assert joules_per_token(replies[2:]) is None
