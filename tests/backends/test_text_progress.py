"""A head reads every token with the state it belongs to, whatever became of the text."""

from __future__ import annotations

import random

import pytest

from localspec.base.tokens import tokens_of
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import MAX_HEAD_LAG, Roll, Row
from localspec.interfaces.text_progress import HeadProgress, TextProgress, drafts_of

ORDERS = [(0, 1), (1, 1), (0, 0), (1, 0)]  # shift and lag of an entry


class ListedRows:
    """States in a list."""

    def __init__(self):
        self.rows = []

    def append(self, states, start):
        self.rows += ["zeros"] * (start < 0) + states[max(start, 0) :]

    def first(self, count):
        return self.rows[:count]

    def drop(self, count):
        self.rows = self.rows[count:]

    def keep(self, count):
        self.rows = self.rows[:count]

    def copied(self):
        twin = ListedRows()
        twin.rows = self.rows.copy()
        return twin


class Target:
    """A text whose state at a token is all that was read up to it, and a head that follows it."""

    def __init__(self, shift, lag):
        self.shift, self.lag = shift, lag
        self.text = []
        self.owed = []  # tokens to read again
        self.progress = TextProgress(shift, lag, ListedRows)
        self.entries = []

    def state(self, position):
        return tuple(self.text[: position + 1]) if position >= 0 else "zeros"

    def read(self, tokens, piece=9):
        tokens = self.owed + tokens
        self.owed = []
        for at in range(0, len(tokens), piece):
            self.read_piece(tokens[at : at + piece])

    def read_piece(self, tokens):
        position = len(self.text)
        self.text += tokens
        states = [self.state(at) for at in range(position, len(self.text))]
        self.progress.append(tokens_of(tokens), position, states)
        del self.entries[self.progress.read :]

    def truncate(self, length):
        """Go back, and read the rest again before anything else."""
        kept = max(self.progress.enough(length), 0)
        self.progress.truncate(length if kept else 0)
        self.text, self.owed = self.text[:kept], self.text[kept:length]
        del self.entries[self.progress.read :]

    def catch_up(self, count):
        tokens, states = self.progress.unread(min(self.progress.behind, count))
        self.entries += zip(tokens.tolist(), states, strict=True)
        self.progress.advance(len(tokens))

    def entry(self, number):
        at = number + self.shift
        return self.text[at], self.state(at - self.lag)

    def check(self):
        if self.owed:
            return
        assert self.entries == [self.entry(number) for number in range(len(self.entries))]
        if self.progress.follows(len(self.text)):
            behind = self.progress.behind
            assert self.progress.read + behind == len(self.text) - self.shift
            tokens, states = self.progress.unread()
            assert tokens.tolist() == self.text[len(self.text) - behind :]
            assert states[-1:] == ([self.state(len(self.text) - 1)] if self.lag else states[-1:])
            assert len(states) == behind + self.lag


@pytest.mark.parametrize(("shift", "lag"), ORDERS)
@pytest.mark.parametrize("seed", range(40))
def test_every_token_is_read_with_its_state_whatever_became_of_the_text(shift, lag, seed):
    chance = random.Random(seed)
    target = Target(shift, lag)
    for _ in range(300):
        act = chance.choice(["read", "read", "truncate", "catch up", "anchor", "copy"])
        if act == "read":
            tokens = [chance.randrange(2) for _ in range(chance.randint(1, 5))]
            target.read(tokens, piece=chance.randint(1, 6))
        elif act == "truncate":
            target.truncate(chance.randint(0, len(target.text)))
        elif act == "catch up" and target.progress.follows(len(target.text)):
            target.catch_up(chance.randint(0, 4))
        elif act == "anchor" and target.text:
            end = len(target.text)
            target.progress.anchors[end] = [target.state(end - 1)]
        elif act == "copy":
            target.progress = target.progress.copied()
        target.check()
    target.truncate(0)
    target.read([1, 0, 1])
    assert target.progress.follows(3)
    target.catch_up(9)
    target.check()
    assert len(target.entries) == 3 - shift


@pytest.mark.parametrize(("shift", "lag"), ORDERS)
def test_a_target_reads_the_last_token_again_if_its_state_is_gone(shift, lag):
    target = Target(shift, lag)
    target.read([5, 6, 7, 8])
    assert target.progress.enough(3) == 3
    target.catch_up(9)
    assert target.progress.enough(3) == 3 - lag
    target.progress.anchors[3] = [target.state(2)]
    assert target.progress.enough(3) == 3
    target.truncate(3)
    assert target.progress.follows(3)
    target.read([9])
    target.catch_up(9)
    target.check()


def test_a_token_whose_state_is_gone_for_good_is_read_with_zeros():
    target = Target(0, 1)
    target.read([1, 2, 3, 4])
    target.catch_up(9)
    target.truncate(2)
    assert target.owed == [2]
    target.owed = []  # the text is another one than was expected
    target.read([7, 8, 9])
    tokens, states = target.progress.unread()
    assert tokens.tolist() == [7, 8, 9]
    assert states == ["zeros", (1, 7), (1, 7, 8), (1, 7, 8, 9)]


def test_a_text_that_was_left_is_followed_from_before_what_was_read():
    target = Target(0, 1)
    target.read([1, 2, 3, 4])
    target.catch_up(3)
    target.progress.leave()
    assert not target.progress.follows(4)
    target.read([5, 6])
    assert not target.progress.follows(6)
    assert target.progress.states.first(9) == []  # they would take memory for nothing
    assert target.progress.behind == 0
    target.truncate(3)
    assert target.progress.lost
    target.truncate(2)
    target.read([7, 8])
    assert target.progress.follows(len(target.text))
    target.catch_up(9)
    target.check()


def test_a_text_that_was_given_up_is_followed_from_its_start_alone():
    target = Target(0, 1)
    target.read([1, 2, 3, 4])
    target.catch_up(3)
    target.progress.give_up()
    target.entries.clear()
    target.truncate(1)
    target.read([2])
    assert target.progress.lost
    target.truncate(0)
    target.read([1, 2])
    assert target.progress.follows(2)


def test_a_text_goes_on_from_what_was_saved():
    target = Target(1, 1)
    target.read([1, 2, 3, 4, 5])
    target.catch_up(2)
    _, states = target.progress.unread()
    target.progress = TextProgress(1, 1, ListedRows)
    target.progress.resume(tokens_of(target.text), states, len(states))
    target.check()
    target.read([6])
    target.catch_up(9)
    target.check()
    assert len(target.entries) == 5


def progress_of(*lengths):
    progress = HeadProgress(len(lengths), 0, 1, ListedRows)
    for text, length in zip(progress.texts, lengths, strict=True):
        text.append(tokens_of([7] * length), 0, [None] * length)
    return progress


def test_a_text_is_read_late_only_once_it_is_settled():
    progress = progress_of(MAX_HEAD_LAG, MAX_HEAD_LAG + 1, MAX_HEAD_LAG + 1, MAX_HEAD_LAG + 4)
    rows = [Row(0, tokens_of([7])), Row(1, tokens_of([7]))]
    rows += [Row(slot, tokens_of([7] * 3), 3, 2) for slot in (2, 3)]
    assert progress.late(rows) == {1: 0, 3: 3}


def test_a_batch_is_shared_by_the_slots_that_read():
    progress = progress_of(10, 3, 9)
    read = list(progress.portions({0: 0, 1: 1, 2: 9}, batch=12))
    assert read == [{0: 4, 1: 2}, {0: 4}, {0: 2}]
    assert [text.behind for text in progress.texts] == [0, 1, 9]
    assert [progress.behind(slot) for slot in range(3)] == [0, 1, 9]


def test_what_could_not_be_read_counts_as_unread():
    progress = progress_of(10)
    for _ in progress.portions({0: 0}, batch=4):
        break
    assert progress.behind(0) == 10


def test_only_texts_that_are_followed_are_drafted_for():
    progress = progress_of(4, 5, 4)
    progress.give_up([2], ValueError("no memory"))
    assert progress.behind(2) is None
    sampler = Sampler(GREEDY, 0, tokens_of([7]))
    rolls = [Roll(Row(slot, tokens_of([7])), 9, sampler, 5) for slot in range(3)]
    [able] = progress.able(rolls, limit=6)
    assert (able.row.slot, able.depth) == (0, 6)
    drafts = drafts_of(rolls, {}, "mtp")
    assert [len(draft.tokens) for draft in drafts] == [0, 0, 0]
    assert {draft.by for draft in drafts} == {"mtp"}


def test_a_copy_shares_nothing_with_its_original():
    text = progress_of(4).texts[0]
    twin = text.copied()
    twin.anchors[3] = [None]
    twin.truncate(2)
    twin.append(tokens_of([8]), 2, [None])
    assert len(text.unread()[0]) == 4
    assert len(text.unread()[1]) == 5
    assert text.anchors == {}
    assert twin.tokens.tolist() == [7, 7, 8]


def test_nothing_is_drafted_for_a_text_without_a_token_to_read():
    assert not TextProgress(1, 0, ListedRows).follows(0)
