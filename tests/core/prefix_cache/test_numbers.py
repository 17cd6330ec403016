"""The numbers of pictures in texts."""

from __future__ import annotations

import pytest

from localspec.base.errors import LocalSpecError
from localspec.core.proposers import automaton
from localspec.interfaces.media import Medium, RunName
from localspec.interfaces.media_positions import LOWEST, Numbers


def test_a_run_keeps_its_numbers_and_no_other_goes_on_in_them():
    numbers, names = Numbers(), [RunName(b"a", piece, 5) for piece in range(3)]
    firsts = [numbers.first(name) for name in names]
    assert [numbers.first(name) for name in names] == firsts
    assert [numbers.name(first) for first in firsts] == names
    taken = [first - place for first in firsts for place in range(5)]
    assert len(set(taken)) == 15
    assert not set(firsts) & {number - 1 for number in taken}


def test_a_run_is_another_by_its_file_its_piece_and_its_length():
    names = [RunName(b"a", 0, 5), RunName(b"b", 0, 5), RunName(b"a", 1, 5), RunName(b"a", 0, 6)]
    assert len({Numbers().first(name) for name in names}) == 1
    numbers = Numbers()
    assert len({numbers.first(name) for name in names}) == 4
    assert Medium("image", b"x").digest != Medium("audio", b"x").digest


def test_no_number_is_a_mark_of_the_code_that_looks_texts_up():
    marks = (automaton.NOWHERE, automaton.BREAK)
    assert Numbers().first(RunName(b"a", 0, 1)) < min(marks)


def test_there_are_no_numbers_beyond_what_a_text_can_hold():
    numbers = Numbers()
    numbers.first(RunName(b"a", 0, -LOWEST - 3000))
    with pytest.raises(LocalSpecError, match="restart it"):
        numbers.first(RunName(b"b", 0, 3000))
    assert numbers.first(RunName(b"c", 0, 100)) - 99 >= LOWEST
