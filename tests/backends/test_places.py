"""Positions of a text behind pictures, and what of it can be forgotten."""

from __future__ import annotations

import numpy as np
import pytest

from localspec.base.tokens import tokens_of
from localspec.interfaces.backend import Next, Row
from localspec.interfaces.mixed_rows import is_mixed, parts
from localspec_llamacpp.bindings.places import Places, Stretch


@pytest.fixture
def places():
    """Two tokens, a picture of 12 that counts 4, a token, one of 6 that counts 6, a token."""
    places = Places()
    places.append(0, Stretch(2, 12, 4))
    places.append(0, Stretch(15, 6, 6))
    return places


def test_behind_a_picture_positions_are_fewer_than_tokens(places):
    lengths = [0, 1, 2, 3, 13, 14, 15, 16, 20, 21, 22]
    positions = [places.position(0, length) for length in lengths]
    assert positions == [0, 1, 2, 2, 2, 6, 7, 7, 7, 13, 14]
    assert places.position(1, 20) == 20  # another sequence has no picture


def test_a_picture_is_forgotten_as_a_whole(places):
    assert [places.edge(0, length) for length in (1, 2, 3, 13, 14, 15, 18, 21, 30)] == [
        *(1, 2, 2, 2, 14, 15, 15, 21, 30)
    ]


def test_what_is_forgotten_counts_no_more(places):
    places.copy(0, 0, 15)
    assert places.position(0, 21) == 13
    places.copy(0, 0, 2)
    assert places.position(0, 21) == 21


def test_a_copy_has_the_pictures_of_what_was_copied(places):
    places.copy(0, 1, 14)
    places.copy(0, 2, -1)
    assert [places.position(sequence, 21) for sequence in (1, 2)] == [13, 13]
    assert places.edge(1, 18) == 18  # it has no second picture there
    assert places.edge(2, 18) == 15
    places.clear(1)
    assert places.position(1, 21) == 21


def test_what_was_saved_is_restored_behind_other_data(places):
    data = np.arange(7, dtype=np.uint8)
    saved = np.concatenate([data, places.save(0)])
    other = Places()
    assert (other.restore(3, saved) == data).all()
    assert [other.position(3, length) for length in (14, 15, 22)] == [6, 7, 14]
    nothing = np.concatenate([data, places.save(5)])
    assert (other.restore(4, nothing) == data).all()
    assert other.position(4, 22) == 22


def test_a_row_is_cut_where_texts_and_pictures_meet():
    hint = Next(None, 9)
    row = Row(3, tokens_of([5, 6, -9, -10, -11, -13, -14, 7, 8]), 5, tentative=1, next=hint)
    cut = parts(row, 8)
    assert [part.tokens.tolist() for part in cut] == [[5, 6], [-9, -10, -11], [-13, -14], [7, 8]]
    assert [part.outputs for part in cut] == [0, 1, 2, 2]
    assert [part.tentative for part in cut] == [0, 0, 0, 1]
    assert [part.next for part in cut] == [None, None, None, hint]
    assert [is_mixed(part) for part in cut] == [False, True, True, False]
    assert all(part.slot == 3 for part in cut)


def test_runs_are_told_apart_in_any_order():
    assert [p.tokens.tolist() for p in parts(Row(0, tokens_of([-20, -21, -9, -10])), 8)] == [
        [-20, -21],
        [-9, -10],
    ]
    [part] = parts(Row(0, tokens_of([4, 5])), 8)
    assert part.tokens.tolist() == [4, 5]


def test_a_run_that_is_longer_than_a_batch_is_read_in_several():
    row = Row(0, tokens_of([4, *range(-9, -14, -1), 5]), outputs=4)
    cut = parts(row, 2)
    assert [part.tokens.tolist() for part in cut] == [[4], [-9, -10], [-11, -12], [-13], [5]]
    assert [part.outputs for part in cut] == [0, 0, 2, 1, 1]
