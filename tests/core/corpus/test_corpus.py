"""A corpus as it changes: indexed once, kept up to date, shared, and never in the way."""

from __future__ import annotations

import errno
import logging
import os
import threading

import pytest

from localspec.base.errors import LocalSpecError, UsageError
from localspec.base.tokens import NONE, tokens_of
from localspec.core.corpus import replies, segment_files, stored
from localspec.core.corpus.corpus import Corpus, Source, open_corpus
from localspec.core.corpus.replies import KeptReplies
from tests.apps.server.scripted import Bytes
from tests.waiting import until

TEXT = "the quick brown fox jumps over the lazy dog"


@pytest.fixture
def root(tmp_path, monkeypatch):
    for name in ("CACHE", "DATA"):
        monkeypatch.setenv(f"XDG_{name}_HOME", str(tmp_path / name))
    (tmp_path / "root").mkdir()
    return tmp_path / "root"


class Counting(Bytes):
    """Counts the texts that it encodes; may wait before each."""

    def __init__(self):
        super().__init__(None)
        self.texts = []
        self.gate = threading.Event()
        self.gate.set()

    def encode(self, text, *, special=False):
        self.gate.wait(30)
        self.texts.append(text)
        return super().encode(text, special=special)


def follows(corpus, text):
    """Return what is found behind a text."""
    match = corpus.longest_match(tokens_of(list(text.encode())))
    return bytes(t for t, *_ in match.steps(99, 256)).decode() if match else ""


def source(root, **options):
    return Source(root, stored.index_folder(root, "v"), pause_seconds=0.0, **options)


def test_a_text_is_found_and_indexed_once(root):
    (root / "a.txt").write_text(TEXT)
    tokenizer = Counting()
    for _ in range(2):
        corpus = Corpus([source(root)], tokenizer)
        until(lambda corpus=corpus: follows(corpus, "quick brown") == TEXT[15:])
        corpus.close()
    assert tokenizer.texts == [TEXT]
    [folder] = stored.index_folders()
    assert folder.stat().st_mode & 0o77 == 0
    assert all(file.stat().st_mode & 0o77 == 0 for file in folder.iterdir())


def test_what_is_on_disk_is_there_at_once(root):
    (root / "a.txt").write_text(TEXT)
    tokenizer = Counting()
    corpus = Corpus([source(root)], tokenizer)
    until(lambda: follows(corpus, "quick brown"))
    corpus.close()
    tokenizer.gate.clear()
    (root / "b.txt").write_text("another text, which takes its time")
    corpus = Corpus([source(root)], tokenizer)
    assert follows(corpus, "quick brown") == TEXT[15:]
    tokenizer.gate.set()
    corpus.close()


def test_changes_are_noticed_when_a_request_comes_and_only_they_are_read(root):
    for at in range(3):
        (root / f"{at}.txt").write_text(f"{at} {TEXT}")
    tokenizer = Counting()
    corpus = Corpus([source(root)], tokenizer)
    until(lambda: len(tokenizer.texts) == 3 and follows(corpus, "quick brown"))
    (root / "1.txt").write_text("a quick brown cat, and nothing else")
    (root / "2.txt").unlink()
    corpus.look_for_changes()
    until(lambda: follows(corpus, "a quick brown") == " cat, and nothing else")
    assert len(tokenizer.texts) == 4
    (root / "0.txt").unlink()
    (root / "1.txt").unlink()
    corpus.look_for_changes()
    until(lambda: not corpus.segments)
    corpus.close()
    assert stored.stored().index_bytes == 0


def test_a_corpus_of_many_bytes_has_several_segments(root, monkeypatch):
    monkeypatch.setattr(segment_files, "SEGMENT_BYTES", 100)
    for at in range(40):
        (root / f"{at}.txt").write_text(f"file {at}: {TEXT} and {at}")
    tokenizer = Counting()
    corpus = Corpus([source(root)], tokenizer)
    until(lambda: len(tokenizer.texts) == 40 and len(corpus.segments) > 8)
    until(lambda: all(follows(corpus, f"file {n}: the").endswith(f"{n}") for n in range(40)))
    [folder] = stored.index_folders()
    before = {file.name for file in folder.iterdir()}
    corpus.close()
    (root / "7.txt").write_text("a text that is new")
    corpus = Corpus([source(root)], tokenizer)
    until(lambda: follows(corpus, "a text that") == " is new")
    corpus.close()
    assert len(before - {file.name for file in folder.iterdir()}) == 1
    assert len(tokenizer.texts) == 41


def test_two_at_once_share_what_they_make(root):
    for at in range(20):
        (root / f"{at}.txt").write_text(f"{at} {TEXT}")
    both = [Corpus([source(root)], Counting()) for _ in range(2)]
    for corpus in both:
        until(lambda corpus=corpus: follows(corpus, "19 the quick") == TEXT[9:])
        corpus.close()
    [folder] = stored.index_folders()
    assert len(list(folder.iterdir())) == 1


def test_what_a_process_that_was_killed_left_is_removed_and_damage_is_mended(root):
    (root / "a.txt").write_text(TEXT)
    corpus = Corpus([source(root)], Counting())
    until(lambda: follows(corpus, "quick brown"))
    corpus.close()
    [folder] = stored.index_folders()
    [file] = folder.iterdir()
    file.write_bytes(file.read_bytes()[:100])
    (folder / "x.part").touch()
    os.utime(folder / "x.part", (1, 1))
    corpus = Corpus([source(root)], Counting())
    until(lambda: follows(corpus, "quick brown"))
    until(lambda: len(list(folder.iterdir())) == 1)
    corpus.close()


def test_a_full_disk_is_logged_once_and_changes_nothing_else(root, monkeypatch, caplog):
    def full(*_):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(segment_files, "write", full)
    (root / "a.txt").write_text(TEXT)
    tokenizer = Counting()
    with caplog.at_level(logging.WARNING, "localspec"):
        corpus = Corpus([source(root)], tokenizer)
        for count in (1, 2, 3):
            until(lambda count=count: len(tokenizer.texts) >= count)
            corpus.look_for_changes()
        corpus.close()
    assert [record.message for record in caplog.records] == [
        f"{root} cannot be indexed: [Errno 28] No space left on device"
    ]
    assert follows(corpus, "quick brown") == ""


def test_an_index_leaves_some_of_the_disk_free(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    keys = [(str(tmp_path / "a.txt"), len(TEXT), 1)]
    made = segment_files.update(tmp_path / "index", {}, keys, lambda _: NONE, 1 << 60)
    with pytest.raises(LocalSpecError, match="make room, or name fewer files"):
        list(made)
    assert not list((tmp_path / "index").iterdir())


def test_closing_waits_for_no_long_work(root):
    for at in range(50):
        (root / f"{at}.txt").write_text(TEXT)
    tokenizer = Counting()
    tokenizer.gate.clear()
    corpus = Corpus([source(root)], tokenizer)
    closing = threading.Thread(target=corpus.close)
    closing.start()
    until(lambda: corpus._patience.over)
    tokenizer.gate.set()
    closing.join(30)
    assert not closing.is_alive()
    assert len(tokenizer.texts) <= 1


def test_replies_are_kept_privately_and_found_by_the_end_of_their_prompt(root):
    tokenizer = Bytes(None)
    corpus = open_corpus([], tokenizer, learns=True)
    asked, reply = "tell me of the dog: <|im_start|>", f"{TEXT}. " * 3
    prompt = tokenizer.encode(asked, special=True).tolist()
    corpus.learn(prompt, list(reply.encode()))
    corpus.learn(prompt, list(b"short"))
    corpus.close()
    [(_, _, file)] = replies.replies(replies.kept_folder())
    assert file.read_text() == asked + reply
    assert {place.stat().st_mode & 0o77 for place in (file, *list(file.parents)[:2])} == {0}
    corpus = open_corpus([], tokenizer, learns=True)
    until(lambda: corpus.longest_match(tokens_of(prompt)))
    assert next(corpus.longest_match(tokens_of(prompt)).steps(1, 300))[0] == ord(reply[0])
    corpus.close()


def test_without_learning_no_reply_is_kept(root):
    corpus = open_corpus([root], Bytes(None), learns=False)
    corpus.learn([1], list(TEXT.encode()))
    corpus.close()
    assert not replies.kept_folder().exists()


def test_the_oldest_replies_go_first_and_one_that_is_given_again_is_new(tmp_path):
    folder = tmp_path / "kept"

    def keep(text):
        KeptReplies(folder, most=3, most_bytes=100).keep(text)  # one that tidies at once

    def kept():
        return {path.read_text() for _, _, path in replies.replies(folder)}

    for at, text in enumerate(("one", "two", "three")):
        keep(text)
        for _, _, path in replies.replies(folder):
            if path.read_text() == text:
                os.utime(path, (at, at))
    keep("one")
    keep("four")
    assert kept() == {"one", "three", "four"}
    keep("x" * 99)
    assert kept() == {"x" * 99}


def test_a_folder_that_others_can_write_to_keeps_no_replies(tmp_path):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept").chmod(0o777)
    with pytest.raises(UsageError, match="others can write"):
        KeptReplies(tmp_path / "kept").keep("text")


def test_models_of_one_vocabulary_share_an_index_and_others_do_not():
    class Other(Bytes):
        def token_text(self, token):
            return f"<{token}>"

    assert stored.vocabulary_id(Bytes(None)) == stored.vocabulary_id(Bytes("{{ template }}"))
    assert stored.vocabulary_id(Bytes(None)) != stored.vocabulary_id(Other(None))


def test_an_index_that_was_not_used_for_long_is_removed(root):
    for name in ("old", "new", "own"):
        (stored.indexes() / name).mkdir(parents=True)
        if name != "new":
            os.utime(stored.indexes() / name, (1, 1))
    stored.drop_unused([stored.indexes() / "own"])
    assert {path.name for path in stored.index_folders()} == {"new", "own"}


def test_all_of_it_can_be_forgotten(root):
    (root / "a.txt").write_text(TEXT)
    corpus = open_corpus([root], Bytes(None), learns=True)
    corpus.learn([1], list(TEXT.encode()))
    until(lambda: follows(corpus, "quick brown"))
    corpus.close()
    gone = stored.forget()
    assert gone.replies == gone.indexes == 1 or gone.indexes == 2
    assert not replies.kept_folder().exists()
    assert not stored.indexes().exists()
    assert (root / "a.txt").exists()
    assert stored.forget() == stored.NOTHING
