"""The verdict: what it says of measured figures, and what it does not claim."""

from __future__ import annotations

import pytest

from localspec.apps.bench.report import verdict_table
from localspec.apps.bench.verdict import Drafter, Speeds, judge
from localspec.base.system.machine_load import LoadWatch, MachineLoad
from localspec.base.system.processors import ProcessorTimes
from tests.apps.bench.invented import CROWD, QUIET, speeds

DRAFT_MODEL = Drafter("this draft model", "Omit --draft.")


def text(*measured, drafter=None, load=QUIET):
    return judge(measured, drafter, load).text


def pair(lookup, auto, **fields):
    """Two kinds of prompts, with a draft model."""
    return [
        speeds(kind, lookup=lookup * more, auto=auto * more, **fields)
        for kind, more in (("edit", 1.2), ("chat", 1 / 1.2))
    ] * 4


def test_drafts_that_pay_are_kept_and_the_kinds_that_gain_most_and_least_are_named():
    measured = [speeds("code", 1.2), speeds("edit", 1.5), speeds("chat", 1.02)] * 2
    assert (
        text(*measured)
        == "With drafts: 1.22 times plain (edit 1.50, chat 1.02), 2.0 tokens a round. Keep them."
    )


def test_kinds_that_differ_within_the_spread_are_not_named():
    noisy = [
        speeds(kind, ratio, noise=noise)
        for noise in (0.05, -0.05)
        for kind, ratio in (("code", 1.5), ("edit", 1.6), ("chat", 1.45))
    ]
    assert text(*noisy) == "With drafts: 1.52 times plain, 2.0 tokens a round. Keep them."


def test_one_kind_of_prompts_is_not_named_beside_all():
    verdict = judge([speeds("edit", 1.5), speeds("edit", 1.5)], None, QUIET)
    assert verdict.text == "With drafts: 1.50 times plain, 2.0 tokens a round. Keep them."
    assert [row.kind for row in verdict.rows] == ["all"]


def test_drafts_that_do_not_pay_are_said_to_cost_what_looking_for_them_costs():
    assert text(*[speeds(ratio=0.95)] * 4) == (
        "Drafts do not pay here: LocalSpec then decodes plainly, and looking for drafts costs 5% "
        "(--proposer none does without)."
    )


@pytest.mark.parametrize("ratio", [0.97, 1.0, 1.04])
def test_a_difference_within_the_spread_is_not_claimed(ratio):
    noisy = [speeds(ratio=ratio, noise=noise) for noise in (0.08, -0.09, 0.07, -0.08)]
    assert text(*noisy).startswith("Drafts make no difference here that could be measured")
    quiet = text(*[speeds(ratio=1.04)] * 4)
    assert quiet.startswith("With drafts: 1.04 times plain")


def test_one_prompt_proves_little():
    assert "no difference" in text(speeds(ratio=1.1, noise=0.02))
    assert "Keep them" in text(*[speeds(ratio=1.1, noise=0.02)] * 8)


def test_a_draft_model_that_pays_is_kept():
    assert text(*pair(1.1, 1.5), drafter=DRAFT_MODEL) == (
        "With this draft model: 1.50 times plain (edit 1.80, chat 1.25), 2.0 tokens a round; "
        "without it 1.10. Keep it."
    )


def test_where_prompt_lookup_pays_and_the_draft_model_does_not_the_one_to_keep_is_said():
    assert text(*pair(1.3, 1.1), drafter=DRAFT_MODEL) == (
        "With this draft model: 1.10 times plain; by prompt lookup alone: 1.30 times plain "
        "(edit 1.56, chat 1.08), 2.0 tokens a round. Omit --draft."
    )


def test_a_draft_model_that_slows_things_down_is_left_away():
    slow = [speeds(lookup=1.0, auto=0.59)] * 4
    assert text(*slow, drafter=DRAFT_MODEL).startswith(
        "With this draft model: 0.59 times as fast here. Omit --draft."
    )


def test_a_draft_model_that_brings_nothing_is_left_away_without_a_claim():
    same = [speeds(lookup=1.2, auto=1.2 * more) for more in (0.99, 1.01)] * 3
    assert text(*same, drafter=DRAFT_MODEL) == (
        "This draft model makes no difference that could be measured: 1.20 times plain with it, "
        "1.20 without. Omit --draft."
    )
    noisy = pair(1.2, 1.22, noise=0.06)
    assert text(*noisy, drafter=DRAFT_MODEL).startswith("This draft model makes no difference")
    only_less_bad = [speeds(lookup=0.9, auto=1.0)] * 6
    assert text(*only_less_bad, drafter=DRAFT_MODEL) == (
        "This draft model brings no gain over plain that could be measured: 1.00 times plain with "
        "it, 0.90 without. Omit --draft."
    )
    nearly_plain = [speeds(lookup=1.04, auto=1.0, noise=noise) for noise in (0.01, -0.01)] * 4
    assert "Omit --draft" in text(*nearly_plain, drafter=DRAFT_MODEL)


def test_modes_of_ones_own_are_ranked():
    assert text(*[speeds(**{"ngram:4": 1.2, "suffix:8": 1.4})] * 4) == (
        "The fastest of these is suffix:8: 1.40 times plain, 2.0 tokens a round."
    )
    none = text(*[speeds(**{"ngram:4": 0.8, "suffix:8": 0.9})] * 4)
    assert none.startswith("None of these is measurably faster than plain; the best is suffix:8")
    assert judge([speeds()], None, QUIET).rows[0].plain == pytest.approx(10)


def test_a_busy_machine_is_said_in_the_verdict():
    assert text(*[speeds()] * 3, load=CROWD).endswith("The machine was busy: repeat it.")
    assert "busy" not in text(*[speeds()] * 3)


def test_plain_decoding_that_differs_from_itself_is_said_in_the_verdict():
    unsteady = [speeds(noise=noise) for noise in (0.15, -0.1, 0.12)]
    assert text(*unsteady).endswith("Plain decoding itself varied by 12%: repeat it.")
    assert "varied" not in text(*[speeds(noise=0.03)] * 3)


def test_a_run_that_can_tell_nothing_says_so():
    chaos = [speeds("edit", 4, noise=1.5), speeds("chat", 0.5, noise=-1.0), speeds("code", 0.5)]
    verdict = judge(chaos, None, CROWD)
    assert verdict.text == (
        "This run does not show whether drafts pay. The machine was busy: repeat it."
    )
    assert "all       10.0     unsteady" in verdict_table(verdict, None)


def test_plain_decoding_alone_has_a_speed_and_no_verdict():
    alone = Speeds("chat", 48, 10.0, 10.0, {}, {})
    assert text(alone, alone) == "Plain decoding: 10.0 tokens/s."


def test_tokens_a_round_are_those_of_all_prompts_in_all_their_rounds():
    measured = [speeds(tokens=60, per_round=3.0), speeds(tokens=20, per_round=1.0)] * 4
    verdict = judge(measured, None, QUIET)
    assert verdict.rows[-1].per_round == {"auto": 2.0}
    assert verdict.text == "With drafts: 1.20 times plain, 2.0 tokens a round. Keep them."


def test_long_replies_count_more_than_short_ones():
    long, short = speeds("code", 2.0, tokens=90), speeds("chat", 0.5, tokens=10)
    *_, everything = judge([long, short], None, QUIET).rows
    assert everything.ratios["auto"].value == pytest.approx(2 ** (0.9 - 0.1))


def test_a_drift_of_the_machine_during_a_prompt_does_not_move_its_ratio():
    steady, drifting = (judge([speeds(noise=noise)] * 3, None, QUIET) for noise in (0.0, 0.2))
    one, other = (verdict.rows[-1].ratios["auto"] for verdict in (steady, drifting))
    assert one.value == pytest.approx(other.value, rel=0.01)
    assert other.error > 3 * one.error


def test_the_table_has_each_figure_once_and_fits_80_columns():
    measured = pair(1.1, 1.3)
    lines = verdict_table(judge(measured, DRAFT_MODEL, QUIET), DRAFT_MODEL).splitlines()
    assert [line.split()[0] for line in lines[2:]] == ["edit", "chat", "all"]
    assert "by prompt lookup  with this draft model" in lines[0]
    assert lines[1].split() == ["tokens/s", "times", "plain", "times", "plain"]
    assert lines[-1].split() == ["all", "10.0", "1.10", "±", "0.01", "1.30", "±", "0.01"]
    many = {f"draft-model:{depth}": 1 + depth / 100 for depth in range(10, 16)}
    wide = verdict_table(judge([speeds(**many)] * 3, None, QUIET), None).splitlines()
    assert all(len(line) <= 80 for line in (*lines, *wide))
    assert "draft-model:15" in wide[0]
    assert "draft-model:11" not in wide[0]


def test_the_load_of_others_is_what_the_processors_did_beside_us():
    readings = iter([ProcessorTimes(100.0, 50.0, 10.0), ProcessorTimes(102.0, 58.0, 15.0)])
    copied = iter([7e9, 9e9])
    watch = LoadWatch(lambda: next(readings), lambda: next(copied))
    assert watch.load() == MachineLoad(0.5, 0.3, (7e9, 9e9))
    still = iter([ProcessorTimes(1.0, 1.0, 1.0)] * 2)
    assert LoadWatch(lambda: next(still), lambda: 1.0).load() == MachineLoad(copied=(1.0, 1.0))


def test_this_machines_processor_times_can_be_read():
    assert 0 <= LoadWatch().load().others <= 1
