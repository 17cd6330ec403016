"""A run ends in its time, and keeps whole prompts."""

from __future__ import annotations

from itertools import count

from localspec.apps.bench.budget import FEWEST, LONGEST
from localspec.apps.bench.timed_run import planned, run
from localspec.core.requests.settings import Settings
from tests.apps.bench.test_measure import Slow, lineup, question

OPEN = Settings(max_tokens=None)


def ticking(seconds):
    """A clock that goes on by so many seconds each time it is read."""
    ticks = count()
    return lambda: next(ticks) * seconds


def test_a_slow_run_ends_at_its_deadline_with_whole_prompts_or_soon_after_without():
    asked = [question() for _ in range(10)]
    late = run(lineup(Slow()), asked, 1, deadline=25.0, clock=ticking(2.0))
    assert len(late.replies) == 4 * FEWEST
    too_late = run(lineup(Slow()), asked, 1, deadline=20.0, clock=ticking(9.0))
    assert len(too_late.replies) == 5  # one of the four to the second prompt
    in_time = run(lineup(Slow()), asked, 1, deadline=1e6, clock=ticking(0.0))
    assert len(in_time.replies) == 4 * 10


def test_the_first_prompt_is_answered_by_all_modes_however_late_it_is():
    late = run(lineup(Slow()), [question()] * 10, 1, deadline=0.0, clock=ticking(1000.0))
    assert [reply.mode for reply in late.replies] == [mode.name for mode in lineup(Slow()).modes]


def test_replies_are_as_long_as_there_is_time_for_where_that_is_left_open():
    asked = [question(settings=OPEN), question("cab", OPEN)]
    by_speed, least = planned(lineup(Slow()), asked, seconds=1e6)
    assert [each.settings.max_tokens for each in by_speed] == [LONGEST] * 2
    assert least > 0
    named, _ = planned(lineup(Slow()), [question(settings=Settings(max_tokens=5))], 1e6)
    assert [each.settings.max_tokens for each in named] == [5]
