"""The files of a corpus: texts alone, within bounds, and no link is followed."""

from __future__ import annotations

import os

from localspec.corpus import files


def named(root, **bounds):
    listing = files.listing(root, **bounds)
    return sorted(os.path.relpath(path, root) for path, *_ in listing.keys), listing.left_out


def test_hidden_and_needless_folders_and_links_are_left_out(tmp_path):
    for name in ("a.py", ".env", ".git/b", "node_modules/c.js", "src/d.py", "src/.e", "build/f"):
        (tmp_path / name).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / name).write_text("text")
    (tmp_path / "src" / "loop").symlink_to(tmp_path)
    (tmp_path / "src" / "link").symlink_to(tmp_path / ".env")
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "empty").touch()
    assert named(tmp_path) == (["a.py", os.path.join("src", "d.py")], {})


def test_one_file_may_be_the_corpus(tmp_path):
    (tmp_path / ".a").write_text("text")
    assert [key[:2] for key in files.listing(tmp_path / ".a").keys] == [(str(tmp_path / ".a"), 4)]
    assert files.listing(tmp_path / "gone").keys == []


def test_large_files_and_those_changed_first_are_left_out_and_counted(tmp_path):
    for at in range(5):
        (tmp_path / str(at)).write_text("x" * 10)
        os.utime(tmp_path / str(at), (at, at))
    (tmp_path / "large").write_bytes(b"x" * (files.MAX_FILE_BYTES + 1))
    left_out = {"larger than 1 MiB": 1, "beyond the bound": 3}
    assert named(tmp_path, most_bytes=29) == (["3", "4"], left_out)


def test_what_is_no_text_is_read_as_an_empty_one(tmp_path):
    (tmp_path / "text").write_text("naïve")
    (tmp_path / "binary").write_bytes(b"a\0b")
    (tmp_path / "latin").write_bytes(b"na\xefve")
    texts = [files.text_of((str(tmp_path / name), 1, 1)) for name in ("text", "binary", "latin")]
    assert texts == ["naïve", "", ""]
    assert files.text_of((str(tmp_path / "gone"), 1, 1)) == ""
