"""The tables a terminal prints."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from localspec.apps.bench.report import Setup, as_json, report, text
from localspec.apps.bench.summary import sections, trials
from localspec.apps.bench.table import DRAFTS, SPEED, TABLES, THEORY, printed
from localspec.apps.bench.timed_run import Outcome
from tests.apps.bench.invented import (
    ALL_RIGHT,
    HEADING,
    MODES,
    PLAIN_ROUND,
    QUIET,
    plain,
    prompt,
    reply,
    run,
)

SETUP = Setup(HEADING, MODES)


def reported(replies=None):
    return report(SETUP, Outcome(tuple(replies or run()), QUIET))


def lines(table, replies=None):
    replies = replies or run()
    return printed(sections(trials(replies, MODES), MODES), table).splitlines()


def row(table, section, mode):
    written = lines(table)
    start = next(at for at, line in enumerate(written) if line.startswith(section))
    [line] = [line for line in written[start + 1 : start + 3] if line.split()[0] == mode]
    return line.split()[1:]


def test_speed_shows_each_mode_against_plain():
    assert row(SPEED, "all:", "plain") == ["100.0", "0.50", "10.0", "10.0", "10.0", "3/3"]
    cells = row(SPEED, "all:", "ngram:4")
    assert cells[:5] == ["207.1", "2.00", "1.50", "2.50", "2.07"]
    assert cells[5:] == ["0.50", "4.0", "6.7", "6.7", "2/3"]


def test_speed_shows_the_slow_tokens():
    slow = [replace(PLAIN_ROUND, seconds=seconds) for seconds in (0.03, 0.03, 0.03, 0.03, 0.5, 0.5)]
    replies = [*plain(*[PLAIN_ROUND] * 94, *slow), reply("ngram:4", ALL_RIGHT)]
    assert any(line.split()[-4:-1] == ["10.0", "30.0", "500.0"] for line in lines(SPEED, replies))


def test_drafts_show_what_became_of_them():
    assert row(DRAFTS, "all:", "ngram:4") == "4.00 3.14 79% 100 100 57 57 6".split()  # noqa: SIM905
    assert not any(line.split()[:1] == ["plain"] for line in lines(DRAFTS))


def test_theory_stands_beside_what_was_measured():
    chance, tokens, predicted, forward, overhead, measured, promised = row(
        THEORY, "all:", "ngram:4"
    )
    assert (chance, tokens, forward, overhead, measured) == ("0.88", "4.14", "1.70", "0.30", "2.07")
    assert float(promised) == round(float(predicted) / 2, 2)


def test_sections_name_what_loops_and_how_much_there_is():
    assert "chat: 2 replies; looping: chat 2" in lines(SPEED)
    assert "edit: 1 reply" in lines(SPEED)


def test_a_single_reply_has_no_least_and_most():
    assert row(SPEED, "edit:", "ngram:4")[1:5] == ["1.50", "-", "-", "1.50"]


def test_cells_stand_under_their_headings():
    for table in TABLES:
        groups, names, *body = lines(table)
        cells = [line for line in body if line.startswith("  ") and len(line) > 30]
        assert cells
        assert all(len(line) == len(names) for line in cells)
        assert len(groups) <= len(names)


def test_tables_fit_a_terminal_of_100_columns():
    """Tables fit with the longest names and numbers that are to be expected."""
    modes = ("plain", "draft-model:16", "plain again")
    long = [
        reply(mode, *[rounds] * 3000, asked=prompt("summarise", number))
        for number in range(12)
        for mode, rounds in zip(modes, (PLAIN_ROUND, ALL_RIGHT, PLAIN_ROUND), strict=True)
    ]
    parts = sections(trials(long, modes), modes)
    assert all(len(line) <= 100 for table in TABLES for line in printed(parts, table).splitlines())


def test_many_positions_are_cut():
    eleven = reply("ngram:4", type(ALL_RIGHT)(11, 11, 12, 0.02, 0.017))
    written = lines(DRAFTS, [*plain(PLAIN_ROUND), eleven])
    assert any("100 " * 8 + "..." in line for line in written)
    assert not any("..." in line for line in lines(DRAFTS))


def test_a_report_begins_with_its_verdict_and_ends_with_the_way_to_more():
    first, second, *lines = text(reported(), details=False).splitlines()
    assert first == "The fastest of these is ngram:4: 1.76 times plain (chat 2.00, edit 1.50), 3.5"
    assert second == "tokens a round."
    assert lines[-1].startswith("--details shows more")
    assert any("3 prompts" in line for line in lines)
    assert all(len(line) <= 80 for line in lines)
    assert not any("Chance" in line for line in lines)


def test_the_share_of_memorys_speed_is_told_where_the_host_reads_all_weights():
    outcome = Outcome(tuple(run()), QUIET)
    with_speed = report(replace(SETUP, read_bytes=81_000_000), outcome, lambda: 10e9)
    shown = "Plain decoding reads weights at 81% of what memory allows (10.0 GB/s)."
    assert shown in text(with_speed, details=False).splitlines()
    assert json.loads(as_json(with_speed))["read_share"] == pytest.approx(0.81)
    for setup in (SETUP, replace(SETUP, read_bytes=1, on_host=False)):
        unknown = report(setup, outcome, lambda: pytest.fail("nobody asks"))
        assert "memory allows" not in text(unknown, details=False)
        assert json.loads(as_json(unknown))["read_share"] is None


def test_details_end_with_what_forwards_cost():
    shown = text(reported(), details=True).splitlines()
    assert "command    localspec bench MODEL" in shown
    assert shown[-1].endswith("in plain rounds: 0: 0.90, 4: 1.70")


def test_replies_that_loop_do_not_count_and_are_counted():
    shown = text(reported(), details=False)
    assert "1 of the prompts was answered in a loop, which does not count." in shown
    assert "loop" not in text(reported(run()[:3]), details=False)


def test_a_report_of_nothing_says_so():
    assert text(reported(run()[:1]), details=False) == (
        "There is nothing to compare: no prompt was answered by all modes in time; other programs "
        "took 0% of the processors. Repeat it, or give it more --seconds."
    )


def test_json_holds_every_reply_round_by_round():
    record = json.loads(as_json(reported()))
    assert record["verdict"]["rows"][-1]["ratios"]["ngram:4"]["value"] > 1
    assert record["heading"]["model"] == "tiny, Q4_1"
    assert [section["title"] for section in record["sections"]][-1] == "all without loops"
    assert len(record["replies"]) == 9
    second = record["replies"][2]
    assert (second["mode"], second["prompt"], second["looping"]) == ("ngram:4", "chat 1", False)
    assert record["replies"][3]["looping"]
    named = dict(zip(record["round_fields"], second["rounds"][1], strict=True))
    assert (named["drafted"], named["accepted"], named["emitted"]) == (4, 2, 3)
    assert (named["seconds"], named["checking"]) == (0.020, 0.017)
    assert second["tokens_per_second"] == 200


def test_the_energy_of_a_token_is_said_where_the_machine_counts_it():
    replies = [replace(one, joules=len(one.tokens) - 1.0) for one in run()]
    shown = " ".join(text(reported(replies), details=False).split())
    assert "Joules a token, of all that ran on the machine: plain 1.00, ngram:4 1.00." in shown
    assert "Joules" not in text(reported(), details=False)
