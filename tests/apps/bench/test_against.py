"""A run compared with an earlier one: what is told of, and what is only noise."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace
from statistics import fmean

import pytest

from localspec.apps.bench.against import compare, jackknife
from localspec.apps.bench.earlier_run import BenchRun, read, require_comparable
from localspec.apps.bench.reply import Round
from localspec.apps.bench.report import as_json, report
from localspec.apps.bench.setup import Setup
from localspec.apps.bench.timed_run import Outcome
from localspec.base.errors import UsageError
from localspec.base.system.machine_load import MachineLoad
from tests.apps.bench.invented import HEADING, prompt, reply

GIGABYTE = 1e9
MODES = ("plain", "auto", "plain again")
SETUP = Setup((*HEADING, ("versions", "Python 3.12.1, engine 1.0")), MODES, weights=(("ab12",),))
JITTER = (0.0, 0.03, -0.02, 0.01, -0.03, 0.02, 0.0, -0.01)  # of the prompts' seconds


def run(plain=0.010, drafts=0.020, right=3, setup=SETUP, jitter=JITTER, **load):
    """Eight prompts: seconds of a plain round, and of one of four drafts of which so many hold."""
    replies = []
    for number, moved in enumerate(jitter):
        asked, factor = prompt("chat", number + 1), 1 + moved
        plain_rounds = [Round(0, 0, 1, plain * factor, 0.009)] * 12
        rounds = [Round(4, right, right + 1, drafts / factor, 0.017)] * 4
        replies += [reply(mode, *plain_rounds, asked=asked) for mode in ("plain", "plain again")]
        replies.append(reply(setup.modes[1], *rounds, asked=asked, tokens=tuple(range(13))))
    load = {"own": 0.9, "others": 0.0, "copied": (10 * GIGABYTE,) * 2} | load
    return report(setup, Outcome(tuple(replies), MachineLoad(**load)))


def compared(before, now):
    return compare("base.json", BenchRun.of(before), BenchRun.of(now), None)


def falls(before, now):
    return [change.figure for change in compared(before, now).falls]


OTHER_NOISE = tuple(-moved for moved in JITTER)


def test_a_run_like_the_one_before_it_fell_in_nothing():
    assert falls(run(), run(jitter=OTHER_NOISE)) == []
    assert falls(run(), run(plain=0.0102, drafts=0.0206, jitter=OTHER_NOISE)) == []


@pytest.mark.parametrize(("loss", "fewest", "most"), [(0.0, 0, 2), (0.2, 97, 100)])
def test_of_a_hundred_runs_those_fell_that_lost_a_fifth(loss, fewest, most):
    rng, fell = random.Random(1), 0
    for _ in range(100):
        draws = [(rng.gauss(0, 0.07), rng.gauss(math.log(1 - loss), 0.07)) for _ in range(14)]
        moved, noise = jackknife(draws, lambda pairs: fmean(now - old for old, now in pairs))
        fell += moved < -noise
    assert fewest <= fell <= most


def test_prompts_that_all_moved_alike_by_a_hundredth_may_have_lain_elsewhere_in_memory():
    assert falls(run(), run(drafts=0.0203)) == []


def test_drafts_may_lose_against_plain_where_the_whole_machine_slowed_down():
    slow = {"plain": 0.020, "drafts": 0.046}
    assert falls(run(), run(**slow, copied=(5 * GIGABYTE,) * 2)) == []
    assert "with drafts: times plain" in falls(run(), run(**slow))


def test_a_prompt_that_is_answered_in_a_loop_does_not_count_for_speed():
    now = run()
    loop = [
        replace(one, text="over and over, " * 8, rounds=one.rounds[:1] + one.rounds[1:] * 9)
        for one in now.outcome.replies[:3]
    ]
    looping = replace(now.outcome, replies=(*loop, *now.outcome.replies[3:]))
    speeds = [change.now for change in compared(now, report(SETUP, looping)).changes[:2]]
    assert speeds == [change.now for change in compared(run(), run(jitter=JITTER[1:])).changes[:2]]


def test_drafts_that_lost_a_fifth_of_their_gain_fell():
    comparison = compared(run(), run(drafts=0.025, jitter=OTHER_NOISE))
    [fall] = comparison.falls
    assert str(fall).startswith("with drafts: times plain 1.60 (2.00 before; -20%, noise ± ")
    assert "fell" in comparison.text()


def test_drafts_that_are_accepted_more_seldom_fell():
    changes = {change.figure: change for change in compared(run(), run(right=2)).changes}
    accepted = changes["with drafts: accepted"]
    assert (accepted.before, accepted.now, accepted.change) == ("75%", "67%", "-8")
    assert accepted.fell


def test_drafts_that_are_longer_and_pay_may_be_accepted_more_seldom():
    assert falls(run(), run(right=2, drafts=0.012)) == []


def test_at_a_fixed_depth_acceptance_counts_on_every_machine():
    fixed = replace(SETUP, modes=("plain", "ngram:4", "plain again"))
    elsewhere = replace(fixed, heading=(*SETUP.heading, ("machine", "another")))
    now = run(right=2, setup=elsewhere)
    assert falls(run(setup=fixed), now) == ["ngram:4: accepted"]


def test_texts_that_are_plains_no_more_fell():
    now = run()
    replies = [
        replace(one, tokens=(7,)) if one.mode == "auto" else one for one in now.outcome.replies
    ]
    other = report(SETUP, replace(now.outcome, replies=tuple(replies)))
    changes = {change.figure: change for change in compared(now, other).changes}
    texts = changes["with drafts: text of plain"]
    assert (texts.before, texts.now, texts.fell) == ("8/8", "0/8", True)
    one_near_tie = replies[:2] + list(now.outcome.replies[2:])
    assert falls(now, report(SETUP, replace(now.outcome, replies=tuple(one_near_tie)))) == []


def test_plain_decoding_that_lost_a_fifth_fell_but_not_where_memory_lost_as_much():
    slower = {"plain": 0.0125, "drafts": 0.025}
    assert falls(run(), run(**slower)) == ["plain tokens/s"]
    assert falls(run(), run(**slower, copied=(8 * GIGABYTE,) * 2)) == []


def test_a_day_on_which_the_machine_is_a_third_as_fast_accuses_nobody():
    slow_day = {"plain": 0.035, "drafts": 0.070, "copied": (3 * GIGABYTE,) * 2}
    assert falls(run(), run(**slow_day)) == []


def test_memory_that_became_faster_accuses_no_version():
    assert falls(run(), run(copied=(20 * GIGABYTE,) * 2)) == []


def test_memory_that_changed_its_speed_during_a_run_makes_plain_speeds_unsure():
    unsteady = run(plain=0.0125, drafts=0.025, copied=(7 * GIGABYTE, 14 * GIGABYTE))
    assert falls(run(), unsteady) == []
    erratic = run(plain=0.0125, drafts=0.025, copied=(2 * GIGABYTE, 40 * GIGABYTE))
    assert "unsteady" in compared(run(), erratic).text()


def test_on_a_gpu_the_hosts_memory_is_no_excuse():
    gpu = replace(SETUP, on_host=False)
    slower = run(plain=0.0125, drafts=0.025, setup=gpu, copied=(8 * GIGABYTE,) * 2)
    assert falls(run(setup=gpu), slower) == ["plain tokens/s"]


@pytest.mark.parametrize(
    ("now", "reason"),
    [
        (
            {"setup": replace(SETUP, heading=(*SETUP.heading, ("machine", "another")))},
            "the file is of another machine (a machine), and this is another",
        ),
        ({"setup": replace(SETUP, on_host=False)}, "one run was on the processor alone"),
        ({"others": 0.4}, "other programs took 40% of the processors in this run"),
    ],
)
def test_speeds_that_cannot_be_compared_are_left_out(now, reason):
    comparison = compared(run(), run(plain=0.1, drafts=0.5, right=1, **now))
    assert [change.figure for change in comparison.changes] == [
        "with drafts: accepted",
        "with drafts: text of plain",
    ]
    assert comparison.falls == []  # drafts are chosen by what they cost there
    assert f"Speeds are not compared: {reason}" in comparison.text().replace("\n", " ")


def test_versions_that_changed_are_named():
    newer = replace(SETUP, heading=(*HEADING, ("versions", "Python 3.12.1, engine 2.0")))
    assert "Changed since: engine 2.0 (was 1.0)." in compared(run(), run(setup=newer)).text()
    assert "No version has changed since." in compared(run(), run()).text()
    strange = replace(SETUP, heading=(*HEADING, ("versions", "what")))
    assert "Python 3.12.1 (was absent)" in compared(run(setup=strange), run()).text()


def test_too_few_common_prompts_are_no_comparison():
    with pytest.raises(UsageError, match=r"2 prompts are in both this run and base.json, and 3"):
        compared(run(), run(jitter=JITTER[:2]))


def written(tmp_path, change=lambda record: None):
    path = tmp_path / "base.json"
    record = json.loads(as_json(run()))
    change(record)
    path.write_text(json.dumps(record), encoding="utf-8")
    return path


def test_a_run_is_read_from_its_file_as_it_was(tmp_path):
    earlier = read(written(tmp_path))
    assert compare("base.json", earlier, BenchRun.of(run()), None) == compared(run(), run())
    assert earlier.weights == (("ab12",),)
    require_comparable(earlier, SETUP)


def test_other_weights_and_another_sampling_are_refused(tmp_path):
    earlier = read(written(tmp_path))
    with pytest.raises(UsageError, match=r"another model: tiny, Q4_1 \(sha256 ab12.*cd34"):
        require_comparable(earlier, replace(SETUP, weights=(("cd34",),)))
    with_draft = replace(SETUP, heading=(*HEADING, ("draft", "some, Q8_0")))
    with_draft = replace(with_draft, weights=(("ab12",), ("ef56",)))
    adapted = replace(SETUP, heading=(*SETUP.heading, ("adapters", "poet.gguf at 1 (ab)")))
    with pytest.raises(UsageError, match=r"adapters none; here they are poet.gguf at 1"):
        require_comparable(earlier, adapted)
    with pytest.raises(UsageError, match=r"another draft: none; here it is some, Q8_0 \(sha256 ef"):
        require_comparable(earlier, with_draft)
    warm = replace(SETUP, heading=(*SETUP.heading, ("sampling", "temperature 1, seed 0")))
    with pytest.raises(UsageError, match="give the same --temperature and --seed"):
        require_comparable(earlier, warm)


BREAKS = {
    "newer": lambda record: record.update(format=2),
    "no format": lambda record: record.pop("format"),
    "format": lambda record: record.update(format="x"),
    "no machine": lambda record: record["heading"].pop("machine"),
    "heading": lambda record: record.update(heading=[]),
    "no replies": lambda record: record.update(replies=[]),
    "replies": lambda record: record.update(replies=[1]),
    "no rounds": lambda record: record["replies"][0].update(rounds=[]),
    "rounds": lambda record: record["replies"][0].update(rounds=[[4, 9, 1, 0.1, 0.1]]),
    "seconds": lambda record: record["replies"][0].update(rounds=[[0, 0, 1, 0, 0]]),
    "endless": lambda record: record["replies"][0].update(tokens=[float("inf")]),
    "no number": lambda record: record["replies"][0].update(prompt="chat"),
    "still memory": lambda record: record["load"].update(copied=[0, 1]),
    "one copy": lambda record: record["load"].update(copied=[1]),
    "weights": lambda record: record.update(weights=7),
}


@pytest.mark.parametrize("change", BREAKS.values(), ids=BREAKS)
def test_a_file_that_is_no_run_is_refused_in_one_line(change, tmp_path):
    with pytest.raises(UsageError, match=r"base.json cannot be compared: .*; write it again") as no:
        read(written(tmp_path, change))
    assert "\n" not in str(no.value)


@pytest.mark.parametrize("text", ["", "{", "[]", "\0", "[" * 100_000, "{}", '{"format": 1'])
def test_a_file_that_was_half_written_or_is_something_else_is_refused(text, tmp_path):
    path = tmp_path / "base.json"
    path.write_text(text)
    with pytest.raises(UsageError, match="cannot be compared"):
        read(path)
