"""Figures and tables of a comparison, from replies made by hand."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.comparison.asking import TimedReply
from benchmarks.comparison.drafts import Drafts
from benchmarks.comparison.measure import Volley
from benchmarks.comparison.noise import half_width
from benchmarks.comparison.plan import Setting
from benchmarks.comparison.report import curve, record, save, shown
from benchmarks.comparison.summary import summarise

NONE = Drafts()


def reply(
    category="coding", tokens=11, first=0.1, decoding=1.0, text="a", gaps=(0.1,), drafts=NONE
):
    return TimedReply(category, text, tokens, 20, 5, first, 1, decoding, gaps, drafts)


def volley(side, *replies, number=0, section=0, seconds=2.0):
    return Volley(side, number, section, seconds, replies)


def setting(temperature=0.0):
    return Setting("a setting", 1, temperature, 2048, ())


def by_side(found, category="all"):
    return {each.side: each for each in found if each.category == category}


def test_one_stream_is_measured_by_what_comes_after_the_first_token():
    sides = by_side(
        summarise([volley("llama-server", reply()), volley("ours", reply(decoding=0.5))], 1)
    )
    assert (sides["llama-server"].speed, sides["ours"].speed) == (10, 20)
    assert (sides["llama-server"].speed_ratio, sides["ours"].speed_ratio) == (1, 2)


def test_whole_replies_are_compared_with_the_reading_of_their_prompts():
    volleys = [
        volley("llama-server", reply(first=1.0, decoding=1.0)),
        volley("ours", reply(first=1.0, decoding=0.25)),
    ]
    sides = by_side(summarise(volleys, 1))["ours"]
    assert (sides.speed_ratio, sides.whole_ratio) == (4, 1.6)


def test_several_streams_are_measured_by_all_tokens_in_all_their_time():
    both = [reply(tokens=10), reply(tokens=30)]
    volleys = [volley("llama-server", *both, seconds=2), volley("ours", *both, seconds=4)]
    sides = by_side(summarise(volleys, 2))
    assert (sides["llama-server"].speed, sides["ours"].speed) == (20, 10)


def test_a_ratio_is_the_median_of_those_within_a_round():
    """The machine was twice as fast in one round, which says nothing about either side."""
    volleys = []
    for number, (theirs, ours) in enumerate([(1.0, 0.5), (2.0, 1.0), (1.0, 10.0)]):
        volleys += [volley("llama-server", reply(decoding=theirs), number=number)]
        volleys += [volley("ours", reply(decoding=ours), number=number)]
    assert by_side(summarise(volleys, 1))["ours"].speed_ratio == 2


def test_replies_of_both_sides_meet_by_round_and_section_whatever_their_order():
    texts = {0: "x", 1: "y"}
    volleys = [volley("llama-server", reply(text=texts[at]), section=at) for at in (0, 1)]
    volleys += [volley("ours", reply(text=texts[at]), section=at) for at in (1, 0)]
    assert by_side(summarise(volleys, 1))["ours"].same_texts == 1
    volleys[-1] = volley("ours", reply(text="z"), section=0)
    assert by_side(summarise(volleys, 1))["ours"].same_texts == 0.5


def test_categories_are_told_apart_for_one_stream_only():
    replies = [reply(decoding=1.0), reply("edit", decoding=0.5)]
    volleys = [volley("llama-server", *replies)]
    assert [each.category for each in summarise(volleys, 1)] == ["all", "coding", "edit"]
    assert by_side(summarise(volleys, 1), "edit")["llama-server"].speed == 20
    assert [each.category for each in summarise(volleys, 2)] == ["all"]


def test_first_tokens_gaps_and_caches_are_counted_over_all_rounds():
    firsts = [0.1, 0.2, 0.3]
    volleys = [
        volley("llama-server", reply(first=first, gaps=(first, 2 * first)), number=number)
        for number, first in enumerate(firsts)
    ]
    sides = by_side(summarise(volleys, 1))["llama-server"]
    assert (sides.first_p50, sides.first_p95) == pytest.approx((0.2, 0.29))
    assert (sides.gap_longest, sides.cached, sides.prompt_tokens) == (0.6, 0.25, 20)


def test_tables_show_all_sides_and_categories():
    volleys = [volley(side, reply(), reply("edit")) for side in ("llama-server", "localspec")]
    summary = summarise(volleys, 1)
    text = shown(setting(), summary)
    row = (
        "| localspec | 10.0 | 1.00 | 1.00 | 100 | 100 | 1.00 | 1.00 | 100 | 100 | 25% | 100% | 0% |"
    )
    assert row in text
    assert "One round does not tell a difference from noise." in text
    assert "| category | llama-server, tokens/s | localspec |" in text
    assert "| category | llama-server, first token, ms | localspec |" in text


def test_drawn_texts_are_not_compared():
    summary = summarise([volley("llama-server", reply())], 1)
    assert "100%" not in shown(setting(temperature=1.0), summary)


def test_everything_is_written_as_json_with_short_numbers(tmp_path):
    volleys = [volley("llama-server", reply(first=0.123456789))]
    summary = summarise(volleys, 1)
    path = tmp_path / "found.json"
    save(
        path,
        {"machine": "a machine"},
        [record(setting(), summary, volleys, {("x", 0, 1, 0): 0.125})],
    )
    fields = json.loads(path.read_text(encoding="utf-8"))
    [one] = fields["settings"]
    assert fields["machine"] == "a machine"
    assert one["volleys"][0]["replies"][0]["first_seconds"] == 0.12346
    [tie] = one["near_ties"]
    assert tie == {"side": "x", "round": 0, "section": 1, "reply": 0, "lead": 0.125}
    assert [each.name for each in tmp_path.iterdir()] == ["found.json"]


def rounds_of(*speeds_of_ours, sections=1):
    """Volleys of as many rounds, in which llama-server always has 10 tokens a second."""
    return [
        volley(side, reply(decoding=10 / speed), number=number, section=section)
        for number, ours in enumerate(speeds_of_ours)
        for section in range(sections)
        for side, speed in (("llama-server", 10.0), ("localspec", ours))
    ]


def test_a_difference_is_told_from_the_noise_between_rounds():
    far, near = rounds_of(12.0, 12.2, 12.1), rounds_of(9.0, 11.5, 10.1)
    [_, clear], [_, noisy] = (summarise(volleys, 1) for volleys in (far, near))
    assert clear.noise < 0.03 < 0.2 < noisy.noise
    assert "| localspec | 12.1 (12.0 to 12.2) | 1.21 ±0.03 | 1.19 |" in shown(setting(), [clear])
    assert "1.01 ±0.36 ≈ |" in shown(setting(), [noisy])


def test_more_sections_make_the_noise_smaller_and_other_speeds_of_sections_are_none():
    one, many = (
        summarise(rounds_of(11.0, 12.0, 13.0, sections=count), 1)[1].noise for count in (1, 9)
    )
    assert many < one / 4
    mixed = half_width([[0.1, 0.1], [0.2, 0.2]], [[0.1, 0.1], [0.1, 0.1]])
    assert mixed == 0


def test_one_round_knows_nothing_of_noise():
    [_, ours] = summarise(rounds_of(12.0, sections=5), 1)
    assert ours.noise is None


def test_a_server_whose_template_makes_other_prompts_is_named():
    other = replace(reply(), prompt_tokens=12)
    text = shown(setting(), summarise([volley("llama-server", reply()), volley("ik", other)], 1))
    assert "ik read other prompts: of 12.0 tokens on average, where llama-server read 20.0" in text


def test_drafts_have_a_table_of_their_own():
    drafts = Drafts(8, 6, ((4, 3), (3, 3)))
    volleys = [volley("llama-server", reply()), volley("x", reply(tokens=12, drafts=drafts))]
    text = shown(setting(), summarise(volleys, 1))
    assert "| x | 2.00 | 8 | 6 | 1: 0.75, 2: 1.00 |" in text


def test_near_ties_are_counted_beside_the_same_texts():
    volleys = [
        volley("llama-server", reply(), reply(), reply(), reply()),
        volley("x", reply(), reply(text="b"), reply(text="c"), reply()),
    ]
    [_, second] = summarise(volleys, 1, {("x", 0, 0, 2): 0.1})
    assert (second.same_texts, second.near_ties) == (0.5, 0.25)


def test_speeds_are_shown_by_the_depth_of_the_context():
    volleys = [volley("llama-server", reply()), volley("localspec", reply(decoding=0.5))]
    text = curve({1000: summarise(volleys, 1), 4000: summarise(volleys, 1)})
    assert text.count("| 20 | 10.0 | 2.00 |") == 2
    assert text.count("| 20 | 100 | 1.00 |") == 2
