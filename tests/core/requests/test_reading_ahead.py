"""Prompts that are read while nobody waits for an answer."""

from __future__ import annotations

from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from tests.core.requests.test_engine import Harness
from tests.runs import Want, replies, scripted

AHEAD = Settings(max_tokens=1, ahead=True)
PROMPT = [1, 2, 3, 4, 5] * 60
SHORT = Settings(max_tokens=3, ignore_end=True)


def test_what_was_read_ahead_is_not_read_again_and_changes_no_text():
    harness = Harness()
    _, ahead = harness.ask(PROMPT, AHEAD)
    harness.finish()
    assert ahead[-1].finish_reason == "length"
    _, events = harness.ask([*PROMPT, 2, 2], SHORT)
    harness.finish()
    assert events[-1].usage.cached_tokens == len(PROMPT)
    [alone] = replies(scripted(), Silent(), [Want([*PROMPT, 2, 2], SHORT)])
    assert events[-1].tokens == alone.tokens


def test_reading_ahead_ends_within_a_piece_when_somebody_asks_and_is_kept():
    harness = Harness()
    _, ahead = harness.ask(PROMPT, AHEAD)
    harness.engine.step()
    harness.engine.step()
    _, events = harness.ask([6, 6], SHORT)
    harness.engine.step()
    assert ahead[-1].finish_reason == "cancelled"
    harness.finish()
    assert len(events[-1].tokens) == 3
    _, events = harness.ask(PROMPT, SHORT)
    harness.finish()
    assert events[-1].usage.cached_tokens == 2 * harness.model.batch


def test_reading_ahead_begins_only_where_nobody_waits():
    harness = Harness()
    _, events = harness.ask([6, 6], SHORT)
    _, ahead = harness.ask(PROMPT, AHEAD)
    harness.finish()
    assert ahead[-1].finish_reason == "cancelled"
    assert ahead[-1].usage.cached_tokens == 0
    assert len(events[-1].tokens) == 3


def test_a_piece_that_is_read_ahead_is_no_longer_than_one_beside_replies():
    model, sizes = scripted(), []
    model.batch = 256
    forward = model.forward
    model.forward = lambda rows: (sizes.append(len(rows[0].tokens)), forward(rows))[1]
    harness = Harness(model)
    harness.ask(PROMPT, AHEAD)
    harness.engine.step()
    assert sizes == [128]
