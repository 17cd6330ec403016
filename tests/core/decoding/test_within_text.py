"""Drafts end with the text."""

from __future__ import annotations

from localspec.base.tokens import History, tokens_of
from localspec.core.decoding.generation import Ending, Generation
from localspec.core.decoding.round import within_text
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.draft import Draft

END = 9


def cut(tokens):
    prompt = tokens_of([1])
    g = Generation(
        History(prompt), Sampler(GREEDY, 0, prompt), Ending(99, frozenset({END})), lambda _: b"x"
    )
    return within_text(g, Draft(tokens_of(tokens), "who", (0.9,) * len(tokens)))


def test_behind_the_end_of_the_text_nothing_is_verified():
    draft = cut([4, 5, END, 6, END, 7])
    assert draft.tokens.tolist() == [4, 5, END]
    assert len(draft.confidences) == 3


def test_a_draft_that_reaches_no_end_stays_whole():
    assert cut([4, 5, 6]).tokens.tolist() == [4, 5, 6]


def test_a_draft_ends_before_a_picture():
    assert cut([4, 5, -1024, -1025, 6]).tokens.tolist() == [4, 5]
    assert len(cut([-1024, 4])) == 0
    assert len(cut([4, -1024]).confidences) == 1
