"""What is asked of a model that is to fill in a middle, token by token."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import pytest

from localspec.base.errors import UsageError
from localspec.base.tokenizer import Infill
from localspec.base.tokens import tokens_of
from localspec.formats.templates.fill_in_middle import middle
from localspec.interfaces.testing import Alphabet

PIECES = [b"", b"", b"", b"", b"", *(bytes([each]) for each in range(256))]
PRE, SUF, MID, SEP, REP = range(5)
PLAIN = Infill(PRE, SUF, MID)
NAMES = {PRE: "<P>", SUF: "<S>", MID: "<M>", SEP: "<F>", REP: "<R>"}


class Bytes(Alphabet):
    """Quicker than to look for the longest match."""

    def encode(self, text, *, special=False):
        return tokens_of([5 + byte for byte in text.encode("utf-8", "replace")])


def model(infill=PLAIN):
    return Bytes(PIECES, infill=infill)


def shown(tokens):
    return "".join(NAMES.get(token) or chr(token - 5) for token in tokens)


def asked(*texts, infill=PLAIN, **wishes):
    return shown(middle(model(infill), *texts, **wishes))


def test_the_prefix_comes_first_then_the_suffix_then_the_middle():
    assert asked("def f(", "):\n") == "<P>def f(<S>):\n<M>"


def test_a_model_trained_the_other_way_round_is_asked_that_way():
    assert asked("ab", "cd", infill=replace(PLAIN, suffix_first=True)) == "<S>cd<P>ab<M>"
    codestral = Infill(PRE, SUF, None, suffix_first=True)
    assert asked("ab", "cd", infill=codestral) == "<S>cd<P>ab"


def test_what_was_begun_ends_the_prefix():
    assert asked("ab\n", "cd", prompt="  x") == "<P>ab\n  x<S>cd<M>"


@pytest.mark.parametrize(("prefix", "suffix"), [("", "cd"), ("ab", ""), ("", "")])
def test_either_side_may_be_empty(prefix, suffix):
    assert asked(prefix, suffix) == f"<P>{prefix}<S>{suffix}<M>"


def test_a_text_that_should_begin_with_a_token_begins_with_it():
    tokenizer = model()
    tokenizer.bos = SEP
    assert shown(middle(tokenizer, "ab", "c")) == "<P>ab<S>c<M>"
    tokenizer.starts = True
    assert shown(middle(tokenizer, "ab", "c", [("n", "t")])) == "<F>n\nt\n<P>ab<S>c<M>"


def test_other_files_come_before_with_their_names():
    marks = replace(PLAIN, separator=SEP, repository=REP)
    extra = [("a.py", "x"), ("b.py", "y")]
    whole = "<R>project\n<F>a.py\nx\n<F>b.py\ny\n<F>current\n<P>ab<S>c<M>"
    assert asked("ab", "c", extra, infill=marks) == whole
    assert (
        asked("ab", "c", extra, infill=replace(marks, repository=None))
        == whole[len("<R>project\n") :]
    )
    assert asked("ab", "c", extra) == "a.py\nx\nb.py\ny\n<P>ab<S>c<M>"
    assert asked("ab", "c", infill=marks) == "<P>ab<S>c<M>"


def test_a_model_without_such_tokens_is_not_asked():
    with pytest.raises(UsageError, match="no tokens to fill in"):
        asked("ab", "c", infill=None)


def test_where_room_is_short_the_first_files_go_and_then_what_is_far_from_the_middle():
    extra = [("a", "first"), ("b", "second")]
    whole = asked("prefix", "suffix", extra)
    assert asked("prefix", "suffix", extra, limit=31) == asked("prefix", "suffix", extra[1:])
    assert asked("prefix", "suffix", extra, limit=24) == asked("prefix", "suffix", extra[1:])
    assert asked("prefix", "suffix", extra, limit=32) == whole
    assert asked("prefix", "suffix", extra, limit=23) == "<P>prefix<S>suffix<M>"
    assert asked("prefix", "suffix", extra, limit=14) == "<P>prefix<S>suffi<M>"
    assert asked("0123456789", "suffix", limit=11) == "<P>456789<S>su<M>"


def test_a_short_side_leaves_its_room_to_the_other():
    assert asked("p" * 90, "s", limit=43) == f"<P>{'p' * 36}<S>s<M>"
    assert asked("p", "s" * 90, limit=43) == f"<P>p<S>{'s' * 39}<M>"


@pytest.mark.parametrize("limit", [4, 5, 7, 20, 100, 1000, 5000])
@pytest.mark.parametrize("before", [0, 3, 2000])
@pytest.mark.parametrize("after", [0, 3, 2000])
def test_nothing_is_longer_than_there_is_room_for(limit, before, after):
    marks = replace(PLAIN, separator=SEP, repository=REP)
    extra = [("n", "t" * 10), ("n", "t" * 400)]
    completed = middle(model(marks), "p" * before, "s" * after, extra, "", limit)
    assert len(completed) <= limit
    kept = shown(completed)
    if before > 3 and after > 3 and limit >= 20:
        assert kept.count("p") >= limit // 2 > kept.count("s") >= limit // 8 or limit == 5000


@pytest.mark.parametrize("repository", [None, REP])
def test_files_and_their_heads_never_take_more_room_than_is_left(repository):
    marks = replace(PLAIN, separator=SEP, repository=repository)
    extra = [("n", "t" * size) for size in (3, 1, 2)]
    whole = len(middle(model(marks), "ab", "c", extra))
    sizes = [len(middle(model(marks), "ab", "c", extra, "", most)) for most in range(6, whole + 1)]
    assert all(size <= most for most, size in enumerate(sizes, start=6))
    assert len(set(sizes)) == 4


def test_while_someone_types_the_beginning_stays_the_same():
    text = "".join(chr(32 + at * at % 90) for at in range(3000))
    beginnings = [middle(model(), text[:size], "", limit=2000)[:1000] for size in range(2500, 2600)]
    assert sum(a != b for a, b in pairwise(beginnings)) == 1


@pytest.mark.parametrize("limit", [-1, 0, 3])
def test_without_any_room_it_is_an_error(limit):
    with pytest.raises(UsageError, match="room for"):
        asked("ab", "c", limit=limit)


class Spaced(Bytes):
    """Begins every text with a space, as some vocabularies do."""

    def encode(self, text, *, special=False):
        return super().encode(f" {text}" if text else "", special=special)


@pytest.mark.parametrize("suffix", ["cd", " cd", "\ncd", ""])
def test_a_suffix_does_not_begin_with_a_space_of_the_tokenizers_own(suffix):
    completed = middle(Spaced(PIECES, infill=PLAIN), "ab", suffix)
    assert shown(completed) == f"<P> ab<S>{suffix}<M>"


class Merging(Spaced):
    """Has a token for two line ends, of which it makes no two."""

    def encode(self, text, *, special=False):
        plain = bytes(token - 5 for token in super().encode(text).tolist())
        return tokens_of([5 + byte for byte in plain.replace(b"\n\n", b"\xff")])

    def token_bytes(self, token):
        return b"\n\n" if token == 5 + 0xFF else super().token_bytes(token)


def test_but_a_suffix_that_cannot_be_parted_from_what_is_put_before_it_is_taken_as_it_is():
    completed = middle(Merging(PIECES, infill=PLAIN), "ab", "\ncd")
    assert shown(completed) == "<P> ab<S> \ncd<M>"


def test_any_text_at_all_is_taken():
    for text in ("\ud800", "\0", "é" * 10, "\U0001f600", "<P><S><M>"):
        completed = middle(model(), text, text, [(text, text)], text)
        assert [token for token in completed if token <= MID] == [PRE, SUF, MID]
    assert len(tokens_of(completed)) == len(completed)


class Counting(Bytes):
    """Counts the letters that it is asked to tokenise."""

    letters = 0

    def encode(self, text, *, special=False):
        self.letters += len(text)
        return super().encode(text, special=special)


def test_what_is_far_from_the_middle_takes_no_time():
    tokenizer = Counting(PIECES, infill=PLAIN)
    far, limit = "x" * 3_000_000, 200
    text = shown(middle(tokenizer, far + "near", "next" + far, [("a", far)], limit=limit))
    assert "near<S>next" in text
    assert len(text) <= limit + 3 * len("<P>")
    assert tokenizer.letters < 200_000


def test_a_prefix_without_an_end_keeps_its_start_while_someone_types():
    tokenizer, limit = model(), 2000
    text = "".join(map(chr, range(97, 123))) * 40_000
    starts = [
        shown(middle(tokenizer, text[:at], "", limit=limit))[:200] for at in range(900_000, 900_020)
    ]
    assert len(set(starts)) <= 2
