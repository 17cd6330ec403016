"""The files of a corpus: texts alone, within bounds, and no link is followed."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from localspec.base.interruption import Interrupted, Patience
from localspec.core.corpus import files, repository


def named(root, **bounds):
    listing = files.listing(root, **bounds)
    return sorted(os.path.relpath(path, root) for path, *_ in listing.keys), listing.left_out


def test_hidden_and_needless_folders_and_links_are_left_out(tmp_path):
    for name in ("a.py", ".env", ".cache/b", "node_modules/c.js", "src/d.py", "src/.e", "build/f"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("text")
    (tmp_path / "src" / "loop").symlink_to(tmp_path)
    (tmp_path / "src" / "link").symlink_to(tmp_path / ".env")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    assert named(tmp_path) == (["a.py", os.path.join("src", "d.py")], {})


def git(folder, *arguments):
    subprocess.run(("git", *arguments), cwd=folder, check=True, capture_output=True)


def written(root, *names, text="text"):
    for name in names:
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text(text)


def test_what_a_repository_ignores_is_left_out_and_nothing_else_that_is_in_sight(tmp_path):
    root = tmp_path / "repository"
    written(root, "a.py", "b.log", "build/c", "own/d.py", "own/keep.log", "own/x/e.o", ".hidden/f")
    written(
        root, "deps/g.js", "made/h.c", "made/kept.c", "inner/i.py", "inner/j.tmp", "inner/k.log"
    )
    written(root, ".gitignore", text="*.log\n/deps/\n!keep.log\nmade/\n")
    written(root, "own/.gitignore", text="x\n")
    written(root, "inner/.gitignore", text="*.tmp\n")
    git(root, "init")
    git(root, "add", "-f", "made/kept.c")
    git(root / "inner", "init")
    own, inner = ["own/d.py", "own/keep.log"], ["inner/i.py", "inner/k.log"]
    names = ["a.py", "build/c", *inner, "made/kept.c", *own]
    assert named(root) == ([*map(os.path.normpath, names)], {})
    assert named(root / "own") == (["d.py", "keep.log"], {})
    assert named(tmp_path)[0] == [os.path.join("repository", name) for name in named(root)[0]]


def test_a_folder_that_is_named_is_read_though_its_repository_ignores_it(tmp_path):
    written(tmp_path, "made/a.py", "made/build/b")
    written(tmp_path, ".gitignore", text="made\n")
    git(tmp_path, "init")
    assert named(tmp_path / "made") == (["a.py"], {})


def test_a_folder_may_be_named_from_where_one_is(tmp_path, monkeypatch):
    written(tmp_path, "own/a.py", "own/b.log", "own/made/c")
    written(tmp_path, ".gitignore", text="*.log\nmade\n")
    git(tmp_path, "init")
    monkeypatch.chdir(tmp_path)
    assert named(Path("own")) == (["a.py"], {})
    monkeypatch.chdir(tmp_path / "own")
    assert named(Path()) == (["a.py"], {})


def test_where_git_has_no_answer_needless_folders_are_left_out_and_that_is_told(tmp_path):
    written(tmp_path, "a.py", "build/b", ".git/HEAD")
    reason = "repositories of which git does not tell what it ignores"
    assert named(tmp_path) == (["a.py"], {reason: 1})


def test_a_repository_cannot_have_git_run_a_program(tmp_path):
    written(tmp_path, "a.py", "program", text="#!/bin/sh\ntouch ran\n")
    (tmp_path / "program").chmod(0o755)
    git(tmp_path, "init")
    git(tmp_path, "config", "core.fsmonitor", "./program")
    assert repository.ignored_paths(str(tmp_path)) == set()
    assert not (tmp_path / "ran").exists()


def test_a_repository_that_has_git_wait_for_ever_is_given_up(tmp_path):
    written(tmp_path, "a.py")
    git(tmp_path, "init")
    os.mkfifo(tmp_path / ".gitignore")
    assert repository.ignored_paths(str(tmp_path), seconds=0.2) is None
    patience = Patience(over=True)
    with patience.lent(), pytest.raises(Interrupted):
        repository.ignored_paths(str(tmp_path))


def test_of_too_many_files_not_all_are_looked_at(tmp_path):
    written(tmp_path, "a", "b", "c")
    names, left_out = named(tmp_path, most_seen=2)
    assert len(names) == 2
    assert left_out == {"folders with more than 2 files, so not all of it": 1}


def test_what_has_become_a_pipe_or_a_link_is_not_read(tmp_path):
    written(tmp_path, "secret")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to(tmp_path / "secret")
    assert [files.text_of((str(tmp_path / name), 1, 1)) for name in ("pipe", "link")] == ["", ""]


@pytest.mark.parametrize("text", ["", "\n", "a" * 40_000, "line\n" * 9_000, "\n" + "数" * 40_000])
def test_pieces_of_a_text_are_short_and_make_it_up(text):
    pieces = list(files.pieces(text))
    assert "".join(pieces) == text
    assert all(len(piece) <= files.PIECE for piece in pieces)
    assert all(piece.endswith("\n") for piece in pieces[:-1]) or "\n" not in text[1:]


def test_one_file_may_be_the_corpus(tmp_path):
    (tmp_path / ".a").write_text("text")
    assert [key[:2] for key in files.listing(tmp_path / ".a").keys] == [(str(tmp_path / ".a"), 4)]
    assert files.listing(tmp_path / "gone").keys == []


def test_large_files_and_those_changed_first_are_left_out_and_counted(tmp_path):
    for at in range(5):
        (tmp_path / str(at)).write_text("x" * 10)
        os.utime(tmp_path / str(at), (at, at))
    (tmp_path / "large").write_bytes(b"x" * (files.MAX_FILE_BYTES + 1))
    left_out = {"files larger than 1 MiB": 1, "older files, beyond 100,000 or 1 GiB": 3}
    assert named(tmp_path, most_bytes=29) == (["3", "4"], left_out)


def test_what_is_no_text_is_read_as_an_empty_one(tmp_path):
    (tmp_path / "text").write_text("naïve")
    (tmp_path / "binary").write_bytes(b"a\0b")
    (tmp_path / "latin").write_bytes(b"na\xefve")
    texts = [files.text_of((str(tmp_path / name), 1, 1)) for name in ("text", "binary", "latin")]
    assert texts == ["naïve", "", ""]
    assert files.text_of((str(tmp_path / "gone"), 1, 1)) == ""
