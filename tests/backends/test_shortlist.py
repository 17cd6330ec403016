"""Which tokens a draft model scores, and when."""

from __future__ import annotations

import ctypes
from contextlib import closing

import numpy as np
import pytest

from localspec.base.tokens import tokens_of
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Options, Roll, Row
from localspec_llamacpp import loading, shortlist
from localspec_llamacpp.bindings import products
from tests import engines

TEXT = tokens_of([3, 1, 4, 1, 5])
CHOOSE = "localspec_products_choose"


class FakeLibrary:
    """Notes the panels that it is to compute, as often as it is told."""

    def __init__(self, *, chooses: bool = True) -> None:
        self.chooses, self.choices = chooses, []

    def call(self, function, _, *arguments):
        if function == "localspec_products":
            return b"AVX2"
        if function == CHOOSE:
            if not self.chooses:
                raise AttributeError(function)
            place, count = arguments
            self.choices.append(ctypes.string_at(place, count.value) if place else None)
        return None


@pytest.fixture
def library_of(monkeypatch):
    def put(**facts):
        fake = FakeLibrary(**facts)
        monkeypatch.setattr(products, "library_answer", fake.call)
        monkeypatch.setattr(shortlist, "FREQUENT", 16)
        monkeypatch.setattr(shortlist, "LAST", 16)
        forget()
        return fake

    yield put
    forget()


def forget():
    products.answered.cache_clear()
    products.chooses.cache_clear()


@pytest.fixture
def model():
    options = Options(threads=1, context=64, slots=2, gpu_layers=0)
    with closing(loading.load(engines.tiny("llama"), options)) as model:
        yield model


def roll(slot, text=TEXT):
    return Roll(Row(slot, TEXT), 3, Sampler(GREEDY, 0, TEXT), len(TEXT), text=text)


def test_frequent_tokens_and_those_of_the_text_are_scored():
    text = tokens_of([40_000, 100_003, *range(62), 100_003, 151_645])
    kept = np.flatnonzero(shortlist.shortlist(151_936, [roll(0, text)]).repeat(16))
    assert {0, 32_767, 40_000, 100_003, 151_645, 151_935} <= set(kept.tolist())
    assert len(kept) == 32_768 + 1_024 + 2 * 16


def test_pictures_and_what_a_long_text_began_with_are_not_scored():
    text = tokens_of([90_000, *[5] * 2_040, 40_000, *range(-1030, -1024), 7])
    panels = shortlist.shortlist(151_936, [roll(0, text)])
    assert panels.sum() == (32_768 + 1_024) // 16 + 1
    assert panels[40_000 // 16]


@pytest.mark.parametrize(("new", "length", "listed"), [(4, 48, 1), (5, 48, 0), (5, 49, 1)])
def test_all_tokens_are_scored_after_many_that_were_new(new, length, listed):
    text = tokens_of([*range(40_000, 40_000 + 16 * new, 16), *[5] * (length - new)])
    assert (shortlist.shortlist(151_936, [roll(0, text)]) is not None) == listed


@pytest.mark.parametrize(("vocabulary", "text"), [(151_936, None), (65_536, TEXT), (151_937, TEXT)])
def test_all_tokens_are_scored_where_few_would_not_be(vocabulary, text):
    assert shortlist.shortlist(vocabulary, [roll(0, text)]) is None


def test_a_draft_of_one_text_chooses_for_as_long_as_it_takes(library_of, model):
    fake = library_of()
    model.roll([roll(0)])
    *_, panels, end = fake.choices
    assert panels == shortlist.shortlist(model.vocabulary, [roll(0)]).tobytes()
    assert end is None


def test_a_choice_ends_with_a_draft_that_fails(library_of, model):
    fake = library_of()
    with pytest.raises(Exception, match="no tokens"):
        model.roll([Roll(Row(0, TEXT[:0]), 3, Sampler(GREEDY, 0, TEXT), 5, text=TEXT)])
    assert len(fake.choices) == 3
    assert fake.choices[-1] is None


def test_a_head_chooses_for_as_long_as_its_draft_takes(library_of):
    fake = library_of()
    with closing(engines.target("qwen35-mtp")) as model:
        model.forward([Row(0, TEXT)])
        text = np.append(TEXT, TEXT[:1])
        sampler = Sampler(GREEDY, 0, text)
        model.head.roll([Roll(Row(0, text[-1:]), 3, sampler, len(text), text=text)])
    assert [choice is not None for choice in fake.choices[-2:]] == [True, False]


def test_texts_beside_one_another_and_other_forwards_score_all_tokens(library_of, model):
    fake = library_of()
    model.roll([roll(0), roll(1)])
    model.forward([Row(0, TEXT[:1])])
    model.truncate(0, 0)
    model.roll([roll(0, None)])
    assert not fake.choices


def test_a_library_that_cannot_choose_scores_all_tokens(library_of, model):
    fake = library_of(chooses=False)
    assert len(model.roll([roll(0)])[0]) == 3
    assert not fake.choices
