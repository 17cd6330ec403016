"""The prompt tokens that are read beside replies."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from localspec.core.decoding.prompt_pace import MAX_GAP, MIN_PIECE, Pace

Taking = Callable[[int], float]  # seconds that tokens of a prompt add to a round


def settled(taking: Taking, base: float = 0.03, max_gap: float = MAX_GAP) -> tuple[Pace, list[int]]:
    """A pace that met a machine of such costs, and the pieces that it read there."""
    pace, pieces = Pace(max_gap), []
    pace.note(0, base)
    for _ in range(60):
        pieces.append(pace.allowance())
        pace.note(pieces[-1], base + taking(pieces[-1]))
        pace.note(0, base)
    return pace, pieces


def flat_from(size: int) -> Taking:
    """Tokens take half a millisecond in wide batches, and twice that in narrow ones."""
    return lambda read: 0.0005 * read * (1 if read >= size else 2)


@pytest.mark.parametrize(("max_gap", "least"), [(0.1, 112), (0.25, 320), (0.5, 768), (1.0, 1600)])
def test_pieces_are_as_large_as_the_gap_allows(max_gap, least):
    pace, pieces = settled(flat_from(64), max_gap=max_gap)
    assert least <= pace.allowance() <= (max_gap - 0.03) / 0.0005
    assert len(set(pieces[10:])) == 1, "what was learnt is not kept"


def test_pieces_are_no_larger_where_wide_ones_are_slow():
    pace, _ = settled(lambda read: 0.0005 * read * (1 if read <= 300 else 3))
    assert 256 <= pace.allowance() <= 300


def test_pieces_grow_to_what_fits_by_doubling():
    assert settled(flat_from(64), max_gap=10.0)[1][:5] == [128, 256, 512, 1024, 2048]


def test_no_piece_holds_replies_up_for_longer_than_is_allowed():
    for max_gap in (0.1, 0.5, 2.0):
        pace, pieces = settled(lambda read: 0.004 * read / (1 + read / 1000), max_gap=max_gap)
        late = [read for read in pieces[2:] if 0.03 + 0.004 * read / (1 + read / 1000) > max_gap]
        assert not late
        assert pace.allowance() >= MIN_PIECE


def test_a_longer_gap_lets_larger_pieces_be_read():
    sizes = [settled(lambda read: 0.002 * read**0.8, max_gap=gap)[0] for gap in (0.1, 0.5, 2.0)]
    allowances = [pace.allowance() for pace in sizes]
    assert allowances == sorted(set(allowances))


def test_some_of_a_prompt_is_read_however_slow_that_is():
    assert settled(lambda read: 0.1 * read)[0].allowance() == MIN_PIECE


def test_a_stall_is_soon_forgotten():
    pace, _ = settled(flat_from(128))
    before = pace.allowance()
    pace.note(before, 30.0)
    for _ in range(130):
        pace.note(pace.allowance(), 0.03 + flat_from(128)(pace.allowance()))
    assert pace.allowance() == before


def test_what_was_not_seen_for_long_is_measured_anew():
    pace, _ = settled(lambda read: 0.0005 * read * (1 if read <= 256 else 10))
    assert pace.allowance() < 400
    for _ in range(200):  # wide batches are as fast now
        pace.note(pace.allowance(), 0.03 + 0.0005 * pace.allowance())
    assert pace.allowance() > 700


def test_pieces_are_smaller_the_more_tokens_are_before_them():
    pace, rounds = Pace(MAX_GAP), []
    pace.note(0, 0.02)
    for _ in range(12):  # prompts of 3,000 tokens, each of which takes longer than the last
        before = 0
        while before < 3000:
            read = min(pace.allowance(before), 3000 - before)
            seconds = 0.02 + read * (0.0016 + 1e-6 * (before + read / 2))
            pace.note(read, seconds, before)
            rounds.append((before, read, seconds))
            before += read
    later = [each for each in rounds[len(rounds) // 2 :] if each[0] + each[1] < 3000]
    assert all(0.38 < seconds < MAX_GAP for _, _, seconds in later)
    first = [read for before, read, _ in later if before == 0]
    last = [read for before, read, _ in later if before > 2500]
    assert min(first) > 1.8 * max(last)


def test_a_size_between_a_small_and_a_large_one_is_tried():
    pace = Pace(MAX_GAP)
    pace.note(0, 0.02)
    for read in (128, 512):  # the second is a prompt that was read beside no replies
        pace.note(read, 0.02 + 0.0016 * read)
    assert 240 <= pace.allowance() <= 270
