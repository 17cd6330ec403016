"""Servers side by side, with scripted servers in their places."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from contextlib import contextmanager, suppress
from pathlib import Path

import psutil
import pytest

from benchmarks.comparison.asking import AT_ONCE_SECONDS, AskingError, ask, reply_of
from benchmarks.comparison.drafts import Drafts
from benchmarks.comparison.measure import PeersRun
from benchmarks.comparison.plan import Setting
from benchmarks.comparison.questions import body
from benchmarks.comparison.sides import Side
from benchmarks.comparison.task_sets import PeerPrompt
from benchmarks.comparison.ties import gap, near_ties
from benchmarks.serving.process import running
from tests import tiny
from tests.apps.bench.scripted_server import LEAD
from tests.rpc_devices import free_port
from tests.waiting import until

ROOT = Path(__file__).parents[3]
SCRIPTED = Path(__file__).with_name("scripted_server.py")
SIDES = [Side(name, "llama-server") for name in ("first", "second", "third")]
LIGHT = "one two three four"


class Stage:
    """Starts scripted servers and remembers which ran when."""

    def __init__(self, folder):
        self.folder, self.started, self.busy, self.most_busy = folder, [], 0, 0

    @contextmanager
    def start(self, side, streams, context):
        port = free_port()
        command = [sys.executable, str(SCRIPTED), "--port", str(port), *side.options]
        log = self.folder / f"{side.name}.log"
        with running(side.name, command, log, lambda: f"http://127.0.0.1:{port}") as server:
            self.started.append(side.name)
            self.busy += 1
            self.most_busy = max(self.most_busy, self.busy)
            yield server
            self.busy -= 1


@pytest.fixture
def stage(tmp_path):
    return Stage(tmp_path)


def setting(*sections, streams=1):
    parts = [[PeerPrompt("qa", prompt) for prompt in section] for section in sections]
    return Setting("a setting", streams, 0.0, 2048, parts)


def measured(stage, wanted, rounds=1, together=True, sides=SIDES):
    comparison = PeersRun(sides, stage.start, rounds, 8, together)
    return list(comparison.measure(wanted))


def test_every_side_is_asked_everything_in_turn_another_one_first_each_time(stage):
    volleys = measured(stage, setting([LIGHT], [LIGHT], [LIGHT]), rounds=2)
    order = [each.side for each in volleys]
    assert order[:9] == [
        *("first", "second", "third"),
        *("second", "third", "first"),
        *("third", "first", "second"),
    ]
    assert order[9:12] == ["second", "third", "first"]
    assert [(each.round, each.section) for each in volleys[::3]] == [
        (number, at) for number in range(2) for at in range(3)
    ]


def test_every_round_begins_with_servers_that_were_just_started(stage):
    measured(stage, setting([LIGHT]), rounds=2)
    assert stage.started == ["first", "second", "third"] * 2


def test_where_memory_is_short_one_server_is_loaded_at_a_time(stage):
    volleys = measured(stage, setting([LIGHT], [LIGHT]), rounds=2, together=False)
    assert stage.most_busy == 1
    assert len(volleys) == 2 * 2 * 3


def test_more_prompts_than_streams_are_answered_in_their_order(stage):
    prompts = [f"a b c {number}" for number in range(7)]
    [volley] = measured(stage, setting(prompts, streams=3), sides=SIDES[:1])
    assert [reply.text for reply in volley.replies] == [f"{prompt} " for prompt in prompts]
    assert volley.seconds >= max(reply.first_seconds for reply in volley.replies)


def test_all_sides_hear_the_same_and_so_say_the_same(stage):
    volleys = measured(stage, setting(["x"]))
    assert len({volley.replies[0].text for volley in volleys}) == 1
    assert "(1.1.1) x" in volleys[0].replies[0].text


def test_a_server_that_dies_is_an_error_with_its_name_and_the_end_of_its_log(stage):
    with pytest.raises(SystemExit) as error:
        measured(stage, setting([LIGHT], ["DIE"]))
    assert "second did not answer and ended with 3" in str(error.value)
    assert "the disk is on fire" in str(error.value)


@pytest.mark.parametrize(
    ("prompt", "reason"),
    [
        ("REFUSE", "status 400: no such field"),
        ("a BREAK", "ended before its usage"),
        ("a FAULT", "out of memory"),
    ],
)
def test_a_reply_that_is_none_is_an_error_with_its_reason(stage, prompt, reason):
    with stage.start(SIDES[0], 1, 2048) as server, pytest.raises(AskingError, match=reason):
        ask(server.address, body(PeerPrompt("qa", prompt), "1", 8, 0.0), "qa")


def test_a_reply_is_told_with_its_times_and_counts(stage):
    with stage.start(SIDES[0], 1, 2048) as server:
        reply = ask(server.address, body(PeerPrompt("qa", LIGHT), "1", 8, 0.0), "qa")
    assert (reply.text, reply.tokens) == ("one two three four ", 4)
    assert reply.first_tokens + reply.decoded == 4
    assert (reply.prompt_tokens, reply.cached_tokens) == (12, 3)
    assert reply.first_seconds > 0.003
    # On a busy machine two pieces may be read at once.
    assert sum(reply.gaps) == pytest.approx(reply.decoding_seconds, abs=3 * AT_ONCE_SECONDS)


def events(*timed, usage=True):
    """Lines of a reply: when each came, and the text it brought."""
    lines = [
        (came, b"data: " + json.dumps({"choices": [{"delta": delta}]}).encode())
        for came, delta in timed
    ]
    counted = {"choices": [], "usage": {"completion_tokens": 9, "prompt_tokens": 5}}
    return [*lines, (99.0, b"data: " + json.dumps(counted).encode())] if usage else lines


def test_tokens_of_one_round_that_come_one_by_one_are_one_piece():
    timed = [(2.0, {"content": "a"}), (3.0, {"content": "b"}), (3.0001, {"content": "c"})]
    reply = reply_of(events(*timed, (4.0001, {"content": "d"})), 1.5, "qa")
    assert reply.gaps == pytest.approx((1.0, 1.0))
    assert (reply.first_seconds, reply.decoding_seconds) == pytest.approx((0.5, 2.0001))


def test_tokens_that_come_with_the_first_one_are_not_counted_as_decoded():
    timed = [(1.0, {"content": "abcd"}), (1.0001, {"content": "ef"}), (2.0, {"content": "ghi"})]
    reply = reply_of(events(*timed), 0.5, "qa")
    assert (reply.tokens, reply.first_tokens, reply.decoded) == (9, 6, 3)
    assert reply.seconds == pytest.approx(1.5)


def test_roles_and_empty_pieces_are_no_first_token_and_thoughts_are():
    timed = [(1.0, {"role": "assistant", "content": None}), (2.0, {"reasoning_content": "hm"})]
    reply = reply_of(events(*timed, (3.0, {"content": "so"})), 0.0, "qa")
    assert (reply.text, reply.first_seconds, reply.cached_tokens) == ("hmso", 2.0, 0)


def test_no_two_requests_of_a_run_begin_alike_and_seeds_follow_the_mark():
    one, other = (body(PeerPrompt("qa", "x"), mark, 8, 1.0) for mark in ("1.1.1", "1.1.2"))
    assert one["messages"] != other["messages"]
    assert one["seed"] != other["seed"]
    assert one == body(PeerPrompt("qa", "x"), "1.1.1", 8, 1.0)
    assert "seed" not in body(PeerPrompt("qa", "x"), "1.1.1", 8, 0.0)


@pytest.fixture
def peer(tmp_path):
    """A program that is started as llama-server is."""
    program = tmp_path / "llama-server"
    program.write_text(f"#!{sys.executable}\n{SCRIPTED.read_text(encoding='utf-8')}")
    program.chmod(0o755)
    return program


def peers(peer, *options):
    model = peer.with_name("model.gguf")
    tiny.write(model, "llama")
    arguments = ("--llama-server", str(peer), "--modes", "ngram-mod", *options)
    command = [sys.executable, "-m", "benchmarks", "peers", str(model), *arguments]
    path = os.pathsep.join(map(str, (ROOT, ROOT / "backends", ROOT / "scripts")))
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        env={**os.environ, "PYTHONPATH": path},
        text=True,
    )


@pytest.mark.skipif(os.name != "posix", reason="a script is no program there")
def test_the_command_prints_tables_and_writes_everything_it_measured(peer, tmp_path):
    kept = tmp_path / "found.json"
    with peers(peer, "--quick", "--streams", "1,2", "--json", str(kept)) as process:
        output, _ = process.communicate(timeout=120)
    assert process.returncode == 0, output
    assert "peer       version: 7 (scripted)" in output
    assert output.count("| llama-server | ") == 3
    record = json.loads(kept.read_text(encoding="utf-8"))
    names = [each["setting"] for each in record["settings"]]
    assert names == [
        "one stream, T=0",
        "2 streams, T=0",
        "one stream, prompts of 4,000 tokens, T=0",
    ]
    assert {each["side"] for each in record["settings"][0]["figures"]} == {
        "llama-server",
        "ngram-mod",
    }
    [figures] = [each for each in record["settings"][1]["figures"] if each["side"] == "ngram-mod"]
    assert figures["same_texts"] == 1
    assert figures["cached"] == 0.25
    assert len(record["settings"][1]["volleys"]) == 2


def listening(parent):
    """List those of its processes that have begun to serve."""
    with suppress(psutil.NoSuchProcess):  # one that tells its version ends
        return [process for process in parent.children() if process.net_connections()]
    return []


@pytest.mark.skipif(os.name != "posix", reason="a script is no program there")
def test_an_interrupt_ends_the_servers_that_were_started(peer):
    with peers(peer, "--per-category", "50", "--rounds", "50") as process:
        bench = psutil.Process(process.pid)
        until(lambda: len(listening(bench)) == 2)
        children = bench.children()
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=60)
    assert process.returncode == 1
    assert "stopped; the servers have ended" in output
    assert not any(child.is_running() for child in children)


def parted(stage, *sections):
    """Replies of a side without drafts and of one whose last word is another one where it parts."""
    sides = [Side("plain", "llama-server"), Side("drafts", "llama-server", ("--spec-type", "x"))]
    part = setting(*sections)
    return part, measured(stage, part, sides=sides)


def test_texts_that_part_where_two_tokens_are_nearly_as_likely_are_near_ties(stage):
    part, volleys = parted(stage, ["PART one two"], [LIGHT])
    assert near_ties(part, volleys, stage.start) == {("drafts", 0, 0, 0): LEAD}
    assert stage.started == ["plain", "drafts", "llama-server"]


def test_no_server_is_asked_about_texts_that_are_the_same(stage):
    part, volleys = parted(stage, [LIGHT])
    assert near_ties(part, volleys, stage.start) == {}
    assert stage.started == ["plain", "drafts"]


def test_a_side_with_drafts_tells_how_many_were_accepted(stage):
    _, (plain, drafts) = parted(stage, [LIGHT])
    assert plain.replies[0].drafts == Drafts()
    assert drafts.replies[0].drafts == Drafts(6, 3)


@pytest.mark.parametrize(
    ("one", "other", "lead"),
    [
        ([1], [2], 0.25),
        ([1], [9], float("inf")),
        ([2], [3], 1.0),  # neither is the likeliest
        ([], [1], 0.25),  # a text that ended, where the other goes on with the likeliest
        ([], [3], 1.0),
        ([], [], 0.0),
    ],
)
def test_a_lead_is_that_of_the_likeliest_over_the_further_of_two_tokens(one, other, lead):
    assert gap({1: -1.0, 2: -1.25, 3: -2.0}, one, other) == lead
