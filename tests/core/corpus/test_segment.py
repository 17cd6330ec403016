"""Segments: every run is found, by the index and by brute force alike, and no file is trusted."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.base.tokens import tokens_of
from localspec.core.corpus.match import longest_match
from localspec.core.corpus.segment import GRAM, MAX_MATCH, Segment, open_segment, pack, write

texts = st.lists(st.lists(st.integers(0, 2), max_size=60), min_size=1, max_size=4)


def segment(*texts):
    return Segment(pack([((str(at), 1, 1), tokens_of(t)) for at, t in enumerate(texts)]))


def searched(texts, newest):
    """Find the length of the longest run at the end of `newest` by brute force."""
    for length in range(min(MAX_MATCH, len(newest)), GRAM - 1, -1):
        run = newest[-length:]
        if any(text[at : at + length] == run for text in texts for at in range(len(text))):
            return length
    return 0


@given(texts, st.lists(st.integers(0, 2), max_size=20), st.integers(0, 40))
def test_the_longest_run_is_the_one_that_a_search_finds(texts, other, size):
    newest = other + texts[0][:size]
    parts = [segment(text) for text in texts]
    for segments in ([segment(*texts)], parts):
        match = longest_match(segments, tokens_of(newest))
        assert (match.length if match else 0) == searched(texts, newest)


@given(texts, st.integers(GRAM, 40), st.integers(1, 9))
def test_what_follows_followed_in_a_text(texts, size, limit):
    newest = texts[0][:size]
    match = longest_match([segment(*texts)], tokens_of(newest))
    steps = list(match.steps(limit, 3)) if match else []
    assert len(steps) <= limit
    tokens = [token for token, *_ in steps]
    run = newest[-match.length :] + tokens if match else []
    assert any(text[at : at + len(run)] == run for text in texts for at in range(len(text) + 1))
    assert all(0 < seen <= total for _, _, seen, total in steps)


def test_the_most_frequent_continuation_is_followed_and_of_equals_the_last():
    run = list(range(10, 20))
    match = longest_match([segment([*run, 1, 2], [*run, 3, 4], [*run, 3, 5])], tokens_of(run))
    assert list(match.steps(3, 99)) == [(3, 10, 2, 3), (5, 11, 1, 2)]
    match = longest_match([segment([*run, 1], [*run, 2])], tokens_of(run))
    assert next(match.steps(1, 99))[0] == 2


def test_no_draft_goes_beyond_a_text_or_the_vocabulary():
    run = list(range(10, 20))
    part = segment([*run, 1, 98, 2], [7, 7])
    match = longest_match([part], tokens_of(run))
    assert [token for token, *_ in match.steps(9, 99)] == [1, 98, 2]
    assert [token for token, *_ in match.steps(9, 98)] == [1]
    text, place = match.stretch(64, 64, 99)
    assert (text.tolist(), place) == ([*run, 1, 98, 2], 10)


def test_a_file_is_what_was_written(tmp_path):
    array = pack([(("é\udcff", 3, 2), tokens_of(range(40))), (("b", 1, 1), tokens_of([]))])
    write(tmp_path / "one.npy", array)
    assert (tmp_path / "one.npy").stat().st_mode & 0o77 == 0
    part = open_segment(tmp_path / "one.npy")
    assert [(key, tokens.tolist()) for key, tokens in part.texts()] == [
        (("é\udcff", 3, 2), list(range(40))),
        (("b", 1, 1), []),
    ]
    assert longest_match([part], tokens_of(range(20))).length == 20


@pytest.mark.parametrize("cut", [0, 1, 60, 200, -4])
def test_a_file_that_is_cut_short_is_none(tmp_path, cut):
    write(tmp_path / "one.npy", pack([(("a", 1, 1), tokens_of(range(40)))]))
    data = (tmp_path / "one.npy").read_bytes()
    (tmp_path / "one.npy").write_bytes(data[:cut])
    assert open_segment(tmp_path / "one.npy") is None
    assert open_segment(tmp_path / "two.npy") is None


def test_whatever_a_file_says_a_draft_is_of_tokens(tmp_path):
    """Also one whose numbers were changed, which fits its header or is not taken."""
    whole = pack([(("a", 1, 1), tokens_of(list(range(20)) * 4))])
    random, drafts, texts = np.random.default_rng(1), 0, 0
    for _ in range(150):
        array = whole.copy()
        for at in random.integers(0, len(array), 4):
            array[at] = random.choice([-(2**31), -9, -1, 0, 7, 40, 2**31 - 1, array[at]])
        write(tmp_path / "one.npy", array)
        part = open_segment(tmp_path / "one.npy")
        for size in range(GRAM, 40) if part else ():
            match = longest_match([part], tokens_of((list(range(20)) * 3)[:size]))
            if match:
                drafts += 1
                assert all(0 <= token < 20 for token, *_ in match.steps(9, 20))
                text, place = match.stretch(64, 64, 20)
                assert 0 <= place <= len(text)
        texts += len(list(part.texts())) if part else 0
    assert drafts > 100
    assert texts > 10
