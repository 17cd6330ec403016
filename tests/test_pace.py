"""How much of a prompt is read while others are being answered."""

from __future__ import annotations

import pytest

from localspec.pace import HELD_SECONDS, LEAST, Pace


def settled(base: float, per_token: float, rounds: int = 60) -> tuple[int, float]:
    """What a machine of such costs comes to read in a round, and what the round then takes."""
    pace = Pace()
    pace.note(0, base)
    for _ in range(rounds):
        read = pace.allowance
        pace.note(read, base + read * per_token)
    return pace.allowance, base + pace.allowance * per_token


@pytest.mark.parametrize("base", [0.001, 0.01, 0.04])
@pytest.mark.parametrize("per_token", [1e-5, 1e-4, 1e-3])
def test_a_round_with_prompts_in_it_takes_a_tenth_of_a_second(base, per_token):
    _, seconds = settled(base, per_token)
    assert seconds == pytest.approx(HELD_SECONDS, rel=0.1)


def test_where_rounds_are_slow_one_with_prompts_takes_twice_as_long():
    _, seconds = settled(base=0.5, per_token=0.002)
    assert seconds == pytest.approx(1.0, rel=0.1)


def test_some_of_a_prompt_is_read_however_slow_that_is():
    assert settled(base=0.05, per_token=0.1)[0] == LEAST


def test_a_stall_is_soon_forgotten():
    pace = Pace()
    for _ in range(20):
        pace.note(100, 0.1)
    before = pace.allowance
    pace.note(100, 30.0)
    assert pace.allowance > before / 2
    for _ in range(10):
        pace.note(100, 0.1)
    assert pace.allowance > 0.95 * before
