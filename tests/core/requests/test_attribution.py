"""The attribution of characters to target and proposers."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from localspec.core.requests.attribution import Trail
from localspec.core.requests.figures import TARGET
from localspec.core.requests.job import Chunk


def chunk(*tokens: str, accepted: int = 0, by: str = "ngram") -> Chunk:
    return Chunk(
        "".join(tokens), tuple(range(len(tokens))), accepted, by, lengths=tuple(map(len, tokens))
    )


def test_accepted_tokens_are_the_proposers_and_the_rest_the_targets():
    trail = Trail()
    trail.note(chunk("ab", "cd", "e", accepted=2))
    assert trail.attribute("abcde") == [(2, "ngram"), (2, "ngram"), (1, TARGET)]


def test_what_a_reader_left_out_is_passed_over():
    trail = Trail()
    trail.note(chunk("<think>", "why", "</think>", accepted=1))
    trail.note(chunk("so", accepted=1, by="suffix"))
    assert trail.attribute("why") == [(3, TARGET)]
    assert trail.attribute("so") == [(2, "suffix")]


def test_what_was_put_in_other_words_is_the_targets_and_takes_nothing_away():
    trail = Trail()
    trail.note(chunk("abc", accepted=1))
    assert trail.attribute("other") == [(5, TARGET)]
    assert trail.attribute("abc") == [(3, "ngram")]


@given(st.lists(st.lists(st.text("ab", max_size=3), min_size=1, max_size=4), max_size=5), st.data())
def test_the_spans_of_a_text_that_is_read_in_pieces_cover_it(chunks, data):
    trail = Trail()
    text = ""
    for tokens in chunks:
        trail.note(chunk(*tokens, accepted=data.draw(st.integers(0, len(tokens)))))
        text += "".join(tokens)
    while text:
        count = data.draw(st.integers(1, len(text)))
        assert sum(length for length, _ in trail.attribute(text[:count])) == count
        text = text[count:]
