"""Files in which slots are saved by name."""

from __future__ import annotations

import os
import stat

import numpy as np
import pytest

from localspec.base.errors import UsageError
from localspec.base.tokens import tokens_of
from localspec.core.prefix_cache.slot_files import SlotFiles
from localspec.interfaces.backend import Saved

TOKENS = tokens_of([3, 1, 4, 1, 5])
SAVED = Saved(np.arange(100, dtype=np.uint8), whole=False)


@pytest.fixture
def files(tmp_path):
    return SlotFiles(tmp_path / "slots", 900, "a model")


def test_what_is_written_is_read_again(tmp_path, files):
    count = files.write("chat one.bin", TOKENS, SAVED)
    path = tmp_path / "slots" / "chat one.bin"
    assert path.stat().st_size == count > 120
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    text, data = SlotFiles(tmp_path / "slots", 900, "a model").read("chat one.bin")
    assert (text.tokens.tolist(), data.tolist()) == (TOKENS.tolist(), SAVED.data.tolist())


@pytest.mark.parametrize(
    "name",
    [
        *("", ".", "..", "../x", "a/b", "/etc/passwd", "a\\b", "a\0b", ".hidden", "x" * 200, "a\n"),
        *("größe", "C:x", "kept-1.part"),
    ],
)
def test_a_name_is_no_path(tmp_path, files, name):
    for act in (lambda: files.write(name, TOKENS, SAVED), lambda: files.read(name)):
        with pytest.raises(UsageError, match="is no name of a file"):
            act()
    assert not list((tmp_path / "slots").iterdir())


def test_the_folder_is_bounded_and_loses_nothing_for_it(tmp_path, files):
    for name in "abc":
        files.write(name, TOKENS, SAVED)
    files.write("c", TOKENS, SAVED)  # in place of the other
    with pytest.raises(UsageError, match="which may have 900: delete some"):
        files.write("d", TOKENS, SAVED)
    assert sorted(os.listdir(tmp_path / "slots")) == ["a", "b", "c"]


def test_what_is_not_whole_or_of_another_model_is_refused(tmp_path, files):
    with pytest.raises(UsageError, match="there is no a in"):
        files.read("a")
    files.write("a", TOKENS, SAVED)
    with pytest.raises(UsageError, match="of another model"):
        SlotFiles(tmp_path / "slots", 900, "another model").read("a")
    path = tmp_path / "slots" / "a"
    whole = path.read_bytes()
    for data in (b"", whole[:50], whole[:-1], whole + b"x"):
        path.write_bytes(data)
        with pytest.raises(UsageError, match=r"cannot be restored: it is (not whole|damaged)"):
            files.read("a")
    for at in (20, len(whole) - 110, len(whole) - 1):  # a sum, a token, the data
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
        with pytest.raises(UsageError, match="it is damaged"):
            files.read("a")
    path.write_bytes(whole)
    with pytest.raises(UsageError, match="100 bytes; 50 may be"):
        SlotFiles(tmp_path / "slots", 50, "a model").read("a")


def test_a_folder_in_place_of_a_file_is_refused(tmp_path, files):
    (tmp_path / "slots" / "a").mkdir()
    with pytest.raises(UsageError, match="cannot be restored"):
        files.read("a")
    with pytest.raises(UsageError, match="could not be kept"):
        files.write("a", TOKENS, SAVED)
