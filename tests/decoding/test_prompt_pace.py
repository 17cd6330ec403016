"""The prompt tokens that are read beside replies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from localspec.decoding.prompt_pace import LEAST, MAX_GAP, Pace

Taking = Callable[[int], float]  # seconds that tokens of a prompt add to a round


def settled(taking: Taking, base: float = 0.03, max_gap: float = MAX_GAP) -> tuple[Pace, list[int]]:
    """A pace that met a machine of such costs, and the pieces that it read there."""
    pace, pieces = Pace(max_gap), []
    pace.note(0, base)
    for _ in range(60):
        pieces.append(pace.allowance)
        pace.note(pieces[-1], base + taking(pieces[-1]))
        pace.note(0, base)
    return pace, pieces


def flat_from(size: int) -> Taking:
    """Tokens take half a millisecond in wide batches, and twice that in narrow ones."""
    return lambda read: 0.0005 * read * (1 if read >= size else 2)


@pytest.mark.parametrize(("size", "chosen"), [(64, 128), (128, 128), (256, 256), (512, 512)])
def test_pieces_are_as_large_as_makes_them_fast_and_no_larger(size, chosen):
    assert settled(flat_from(size), max_gap=1.0)[0].allowance == chosen


def test_no_piece_holds_replies_up_for_longer_than_is_allowed():
    for max_gap in (0.1, 0.5, 2.0):
        pace, pieces = settled(lambda read: 0.004 * read / (1 + read / 1000), max_gap=max_gap)
        late = [read for read in pieces[2:] if 0.03 + 0.004 * read / (1 + read / 1000) > max_gap]
        assert not late
        assert pace.allowance >= LEAST


def test_a_longer_gap_lets_larger_pieces_be_read():
    sizes = [settled(lambda read: 0.002 * read**0.8, max_gap=gap)[0] for gap in (0.1, 0.5, 2.0)]
    allowances = [pace.allowance for pace in sizes]
    assert allowances == sorted(set(allowances))


def test_some_of_a_prompt_is_read_however_slow_that_is():
    assert settled(lambda read: 0.1 * read)[0].allowance == LEAST


def test_a_stall_is_soon_forgotten():
    pace, _ = settled(flat_from(128))
    pace.note(128, 30.0)
    for _ in range(130):
        pace.note(pace.allowance, 0.03 + flat_from(128)(pace.allowance))
    assert pace.allowance == 128


def test_what_was_not_seen_for_long_is_measured_anew():
    pace, _ = settled(flat_from(256))
    assert pace.allowance == 256
    for _ in range(200):  # narrow batches are as fast now
        pace.note(pace.allowance, 0.03 + 0.0005 * pace.allowance)
    assert pace.allowance == 128
