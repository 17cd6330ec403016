"""The times of a reply: between its tokens, and of drafts that were wrong."""

from __future__ import annotations

import pytest

from localspec.core.requests.figures import Clockwork
from localspec.core.requests.settings import Settings
from tests.core.requests.test_plain_rounds import Running, chunks
from tests.runs import scripted


def test_the_slowest_gaps_show_in_the_timings_of_a_reply():
    clock = Clockwork(submitted=0.0)
    for now in [*range(98), 107, 127]:
        clock.note(float(now), 1)
    timings = clock.report(130.0)
    assert timings.between_tokens_p50 == timings.between_tokens_p95 == 1
    assert timings.between_tokens_p99 == pytest.approx(10.2)
    assert timings.gaps == (*[1.0] * 97, 10.0, 20.0)
    assert Clockwork(submitted=0.0).report(1.0).between_tokens_p99 is None


def test_tokens_of_a_round_share_its_time():
    clock = Clockwork(submitted=0.0)
    for now, tokens in ((5.0, 3), (6.0, 1), (10.0, 4)):
        clock.note(now, tokens)
    assert clock.report(11.0).gaps == (1.0,) * 5  # none before the first tokens


def test_tokens_that_are_published_together_have_a_round_between_each_two():
    running = Running(scripted(), 0.01, ([1, 2, 3], [2, 3, 1, 1]))
    for events in running.run():
        assert len(chunks(events)) < 30
        assert events[-1].timings.gaps == pytest.approx([0.01] * 40)
        assert events[-1].speculation.tokens_per_round == 1


def test_a_text_has_longer_gaps_while_the_prompt_of_another_is_read():
    running = Running(scripted(), 0.01)
    for _ in range(5):
        running.engine.step()
    running.ask([3, 2, 1] * 60)  # in pieces of 64 tokens less one for each reply
    before = running.clock.forwards
    first, _ = running.heard[0], running.run()
    assert running.clock.forwards > before + 40
    assert sum(first[-1].timings.gaps) == pytest.approx(first[-1].timings.total - 0.01)


def test_a_reply_that_is_cancelled_or_stopped_has_the_times_up_to_then():
    running = Running(scripted(), 0.01, ([1, 2, 3], [2, 3, 1]))
    for _ in range(4):
        running.engine.step()
    cancelled, _ = running.engine.jobs
    cancelled.cancelled = True
    running.run()
    result = running.heard[0][-1]
    assert result.finish_reason == "cancelled"
    assert result.timings.gaps == pytest.approx([0.01] * (len(result.tokens) - 1))
    assert running.heard[1][-1].timings.gaps == pytest.approx([0.01] * 40)
    whole = running.heard[1][-1].text
    stopping = Settings(max_tokens=41, ignore_end=True, stop=(whole[9:12],))
    [[*_, stopped]] = Running(scripted(), 0.01, ([2, 3, 1],), stopping).run()
    assert stopped.finish_reason == "stop"
    assert stopped.timings.gaps == pytest.approx([0.01] * (len(stopped.tokens) - 1))
