"""Text grows by whole characters, and ends exactly before a stop text."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.core.decoding.growing_text import GrowingText


def grow(pieces, stops=()):
    """Return the text that each piece made certain, and that the end added."""
    text = GrowingText(stops)
    shown = []
    for piece in pieces:
        done = text.add(piece)
        shown.append(text.take_text())
        if done:
            break
    text.close()
    return shown, text.take_text(), text.stopped_by


def test_a_character_split_over_tokens_appears_when_it_is_whole():
    shown, held, _ = grow([b"caf", b"\xc3", b"\xa9 ", b"\xf0\x9f", b"\x98", b"\x80!"])
    assert shown == ["caf", "", "é ", "", "", "😀!"]
    assert held == ""


def test_half_a_character_at_the_end_is_never_shown():
    shown, held, _ = grow([b"ok", b"\xf0\x9f\x98"])
    assert "".join(shown) + held == "ok"


def test_bytes_that_are_no_text_become_replacement_characters():
    shown, held, _ = grow([b"a\xff", b"b"])
    assert "".join(shown) + held == "a�b"


@pytest.mark.parametrize(
    ("pieces", "stops", "expected"),
    [
        ([b"one STOP two"], ("STOP",), "one "),
        ([b"one S", b"T", b"OP two"], ("STOP",), "one "),
        ([b"one ST", b"ART"], ("STOP",), "one START"),
        ([b"aaab"], ("aab",), "a"),
        ([b"aa", b"ab"], ("aab",), "a"),
        ([b"x</s", b"></end>"], ("</end>", "</s>"), "x"),
        ([b"ab", b"c"], ("c", "bc"), "a"),  # the one that begins first
        ([b"caf\xc3", b"\xa9"], ("é",), "caf"),
        ([b"no stop "], ("stop!",), "no stop "),
    ],
)
def test_the_text_ends_before_the_stop_text(pieces, stops, expected):
    shown, held, stopped = grow(pieces, stops)
    assert "".join(shown) + held == expected
    assert (stopped is not None) == (expected != b"".join(pieces).decode())


def test_what_may_become_a_stop_text_is_held_back_and_no_more():
    shown, held, _ = grow([b"one ST", b"O", b"NE"], ("STOP",))
    assert shown == ["one ", "", "STONE"]
    assert held == ""


@given(
    st.text("ab", max_size=30),
    st.lists(st.text("ab", min_size=1, max_size=4), max_size=3),
    st.lists(st.integers(1, 3), min_size=30, max_size=30),
)
def test_cutting_into_tokens_changes_nothing(whole, stops, sizes):
    pieces, left = [], whole
    for size in sizes:
        pieces.append(left[:size].encode())
        left = left[size:]
    shown, last, stopped = grow(pieces, tuple(stops))
    # A stop text counts as soon as it is complete: the earliest end, then the earliest start.
    ends = [(whole.index(s) + len(s), whole.index(s)) for s in stops if s in whole]
    text = "".join(shown) + last
    assert (stopped is not None) == bool(ends)
    assert whole.startswith(text)
    if not ends:
        assert text == whole
    else:
        assert not any(s in text for s in stops)
