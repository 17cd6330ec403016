"""The texts of a training: what is kept, cut and held out, and what a model writes."""

from __future__ import annotations

import os
import threading
from contextlib import closing
from itertools import islice

import numpy as np

import localspec
from localspec.apps.training.record import Text
from localspec.apps.training.texts import (
    FILED,
    HELD_OUT,
    LEAST_PIECE,
    PIECE,
    WRITTEN,
    TextStore,
    kept_replies,
    pieces,
    read_texts,
)
from localspec.apps.training.writing import Assignment, topics, write
from localspec.base.tokens import tokens_of
from localspec.core.corpus import replies
from tests import engines

ONE = Text(tokens_of([1, 2, 3]), 2)
TWO = Text(tokens_of([4, 5]), 0, held_out=True)


def plain(texts):
    return [(text.tokens.tolist(), text.begin, text.held_out) for text in texts]


def test_texts_stay_in_their_order_and_one_that_was_cut_short_is_gone(tmp_path):
    store = TextStore(tmp_path / "new" / "texts.jsonl")
    store.add(ONE, WRITTEN)
    store.add(TWO, FILED)
    whole = store.path.read_bytes()
    store.add(ONE, WRITTEN)
    store.path.write_bytes(store.path.read_bytes()[:-5])
    again = TextStore(store.path)
    assert plain(again.texts) == plain([ONE, TWO])
    assert plain(again.from_source(FILED)) == plain([TWO])
    assert store.path.read_bytes() == whole
    again.add(ONE, WRITTEN)
    assert plain(TextStore(store.path).texts) == plain([ONE, TWO, ONE])


def test_a_piece_of_a_file_is_taken_once_and_what_a_model_writes_each_time(tmp_path):
    store = TextStore(tmp_path / "texts.jsonl")
    for source in (FILED, WRITTEN, WRITTEN):
        store.add(TWO, source)
    again = TextStore(store.path)
    again.add(TWO, FILED)
    assert len(again.texts) == 3


def test_a_folder_gives_its_texts_without_what_is_hidden_or_no_text(tmp_path):
    folder = tmp_path / "notes"
    (folder / "deep").mkdir(parents=True)
    (folder / ".git").mkdir()
    (folder / "deep" / "a.txt").write_text("one")
    (folder / "b.md").write_text("two")
    (folder / ".git" / "c").write_text("hidden")
    (folder / ".d").write_text("hidden")
    (folder / "picture").write_bytes(b"PNG\0\1")
    (folder / "empty").touch()
    assert sorted(filter(None, read_texts(folder))) == ["one", "two"]
    assert list(read_texts(folder / "b.md")) == ["two"]


def test_replies_that_were_kept_are_read_the_newest_first(tmp_path, monkeypatch):
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    assert list(kept_replies()) == []
    kept = replies.KeptReplies(replies.kept_folder())
    for at, text in enumerate(("older", "newer")):
        kept.keep(text)
        for path in replies.kept_folder().glob("*.txt"):
            if path.read_text() == text:
                os.utime(path, (at, at))
    assert list(kept_replies()) == ["newer", "older"]


def test_files_are_cut_into_pieces_behind_the_first_token_of_a_text():
    numbers = np.arange(PIECE + LEAST_PIECE + 1, dtype=np.int32)
    cut = list(
        pieces(["first", "second"], {"first": numbers, "second": numbers[:5]}.get, ONE.tokens)
    )
    assert [text.tokens.tolist() for text in cut] == [
        [1, 2, 3, *range(PIECE)],
        [1, 2, 3, *range(PIECE, len(numbers))],
    ]


def test_topics_that_are_held_out_never_occur_in_what_is_trained_on():
    assignments = [Assignment.numbered(number) for number in range(40 * HELD_OUT)]
    held_out = {each.topic for each in assignments if each.held_out}
    assert sum(each.held_out for each in assignments) == 40
    assert len(held_out) > 5
    assert held_out.isdisjoint(each.topic for each in assignments if not each.held_out)
    assert {each.topic for each in assignments} == set(topics())
    assert len(topics()) > 200


def test_each_topic_is_asked_about_in_each_form_and_answered_greedily_and_sampled():
    by_topic = {}
    for number in range(9 * len(topics())):
        one = Assignment.numbered(number)
        if not one.held_out:
            by_topic.setdefault(one.topic, set()).add((one.form, one.greedy))
    assert all(len(ways) == 8 for ways in by_topic.values())


def loaded(slots):
    options = localspec.Options(slots=slots, context=slots * 1024, shared=True, threads=1)
    loading = localspec.Loading(options, proposer="none")
    return localspec.load(engines.tiny("llama"), loading=loading)


def test_writing_goes_on_where_it_stopped_with_the_same_texts():
    with loaded(1) as runtime:
        with closing(write(runtime, 0, lambda: None)) as texts:
            first = plain(islice(texts, 4))
        with closing(write(runtime, 2, lambda: None)) as texts:
            following = plain(islice(texts, 2))
    assert first[2:] == following
    assert all(0 < begin < len(tokens) for tokens, begin, _ in first)


def test_a_model_without_a_chat_template_goes_on_from_a_topic(tmp_path):
    from tests.backends.gguf_copies import copied

    bare = copied(engines.tiny("llama"), tmp_path / "bare.gguf", {"tokenizer.chat_template": None})
    with localspec.load(bare, loading=localspec.Loading(proposer="none")) as runtime:
        with closing(write(runtime, 0, lambda: None)) as texts:
            text = next(texts)
        topic = Assignment.numbered(0).topic
        assert text.tokens[: text.begin].tolist() == runtime.encode(f"{topic}\n\n")


def test_writing_pauses_between_rounds_for_as_long_as_it_is_told():
    with loaded(2) as runtime:
        calls = []

        def breathe():
            calls.append(runtime.slots)

        threads = set(threading.enumerate())
        with closing(write(runtime, 0, breathe)) as texts:
            next(texts)
        assert set(threading.enumerate()) <= threads  # none tokenises for a model that is freed
    assert calls
