"""GGUF headers that cannot be read: each is refused by one line, at once."""

from __future__ import annotations

import os
import random
import struct
import sys
import time
from pathlib import Path

import pytest

from localspec.base.errors import ModelFileError
from localspec_llamacpp.backend import inspect
from tests.backends.gguf_files import (
    encoded,
    model,
    refusal,
    text,
)

MANY = 1 << 62


def started(tensors: int, keys: int, rest: bytes = b"") -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, tensors, keys) + rest


def array(kind: int, count: int) -> bytes:
    return text("a") + struct.pack("<IIQ", 9, kind, count)


FORMATS = {
    "is empty: it has 0 of at least 24 bytes": b"",
    "is cut short: it has 6 of at least 24 bytes": b"GGUF\3\0",
    "is cut short: it has 3 of at least 24 bytes": b"GGU",
    "is not GGUF: it starts with b'some', not b'GGUF'": b"some\n",
    "is not GGUF: it starts with 5 zero bytes": bytes(5),
    "is a git-lfs pointer, not the weights": b"version https://git-lfs.github.com/spec/v1\noid x",
    "is a safetensors file": struct.pack("<Q", 20) + b'{"__metadata__":{}}   ',
    "is a zip archive": b"PK\3\4" + bytes(40),
    "is a web page": b"\n<!DOCTYPE html><html><head><title>Sign in",
    "is a GGML file from before GGUF": b"tjgg" + bytes(40),
    "it starts with 64 zero bytes": bytes(100),
    "it starts with b'\\x89PNG', not b'GGUF'": b"\x89PNG" + bytes(40),
    "is big endian": b"GGUF" + struct.pack(">IQQ", 3, 0, 0),
    "is GGUF version 1,": b"GGUF" + struct.pack("<IQQ", 1, 0, 0),
    "is GGUF version 4;": b"GGUF" + struct.pack("<IQQ", 4, 0, 0),
}
COUNTS = {
    "promises 4,611,686,018,427,387,904 keys, it has room for 2": started(0, MANY, bytes(40)),
    "promises 4,611,686,018,427,387,904 tensors, it has room for 2": started(MANY, 0, bytes(40)),
    "promises 20,000 keys, at most 16,384 are read": started(0, 20_000, bytes(400_000)),
    "it has a key of 4,611,686,018,427,387,904 bytes": started(0, 1, struct.pack("<QQ", MANY, 0)),
    "is cut short: its header promises 4,611,686,018,427,387,949 bytes or more, the file has 61": (
        started(0, 1, text("a") + struct.pack("<IQ", 8, MANY) + bytes(16))
    ),
    "promises 36,893,488,147,419,103,281 bytes or more": started(0, 1, array(8, MANY)),
    "promises 18,446,744,073,709,551,665 bytes or more": started(0, 1, array(4, MANY)),
    "promises 4,611,686,018,427,387,961 bytes": started(
        0, 1, array(8, 1) + struct.pack("<Q", MANY)
    ),
    "a is an array of arrays": started(0, 1, array(9, 1) + bytes(40)),
    "a is an array of kind 13": started(0, 1, array(13, 1) + bytes(40)),
    "a is of kind 77": started(0, 1, text("a") + struct.pack("<IQ", 77, 0)),
    "is broken: it has the key a twice": started(0, 2, 2 * (text("a") + encoded(1))),
    "a key is not UTF-8 at byte 1 of 2": started(0, 1, text(b"a\xff") + encoded(1)),
}


def entry(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    axes = struct.pack(f"<I{len(shape)}Q", len(shape), *shape)
    return text(name) + axes + struct.pack("<IQ", kind, offset)


def record(name: str, shape: tuple[int, ...], kind: int = 0, offset: int = 0) -> bytes:
    return started(1, 0, entry(name, shape, kind, offset) + bytes(64))


WEIGHTS = {
    "tensor a has 5 dimensions; 1 to 4 are read": record("a", (1, 1, 1, 1, 1)),
    "tensor a has 0 dimensions": record("a", ()),
    "is cut short: its header promises 73,786,976,294,838,206,560 bytes": record(
        "a", (1 << 32, 1 << 32)
    ),
    "is cut short: its header promises 4,398,046,511,200 bytes": record("a", (8,), 0, 1 << 42),
    "a tensor name of 2,000 bytes; at most 1,024 are read": record("a" * 2000, (8,)),
    "is broken: a tensor name is not UTF-8": started(1, 0, text(b"\xff") + bytes(64)),
    "is broken: it has the tensor a twice": started(2, 0, 2 * entry("a", (8,)) + bytes(64)),
    "aligns its weights to 0 bytes": model({"/general.alignment": 0}),
    "aligns its weights to 24 bytes": model({"/general.alignment": 24}),
    "is a LoRA adapter, not a model": model({"/general.type": "adapter"}),
    "is a vision projector, not a model": model({"/general.type": "mmproj"}),
    "a vision projector, not a model: give": model({"/general.architecture": "clip"}),
}


BROKEN = FORMATS | COUNTS | WEIGHTS


@pytest.mark.parametrize("message", BROKEN)
def test_a_broken_file_is_refused_at_once_by_what_is_wrong(message: str, tmp_path: Path) -> None:
    began = time.thread_time()
    assert message in refusal(tmp_path, BROKEN[message])
    assert time.thread_time() - began < 1


def test_more_strings_than_any_vocabulary_has_are_not_even_counted(tmp_path: Path) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(started(0, 1, array(8, 5_000_000)))
    os.truncate(path, 50_000_000)
    with pytest.raises(ModelFileError, match="it has more than 4,194,304 strings, at a"):
        inspect(path)


def test_more_text_than_any_header_has_is_not_kept(tmp_path: Path) -> None:
    pairs = [text(f"a{key}") + encoded("a" * (1 << 20)) for key in range(17)]
    assert "more than 16,777,216 bytes of text, at a16" in refusal(
        tmp_path, started(0, 17, b"".join(pairs))
    )


def test_a_truncated_file_says_both_sizes_and_what_to_do(tmp_path: Path) -> None:
    content = model()
    assert refusal(tmp_path, content[:-100]) == (
        f"model.gguf is cut short: its header promises {len(content):,} bytes, "
        f"the file has {len(content) - 100:,}: download it again"
    )


def test_a_path_that_is_no_file_says_what_it_is(tmp_path: Path) -> None:
    cases = [(".", "is a directory: give the path of a .gguf file"), ("none.gguf", "not exist")]
    if sys.platform != "win32":
        os.mkfifo(tmp_path / "pipe.gguf")
        (tmp_path / "file").touch()
        cases += [("pipe.gguf", "is not a regular file"), ("file/model.gguf", "cannot be read")]
    for name, message in cases:
        with pytest.raises(ModelFileError, match=message):
            inspect(tmp_path / name)


def test_a_damaged_header_is_read_or_refused_but_never_worse(tmp_path: Path) -> None:
    chance = random.Random(4)
    whole = model({"expert_count": 8, "attention.head_count_kv": [2, 2]})
    path = tmp_path / "model.gguf"
    refusals = []
    for _ in range(2000):
        content = bytearray(whole[: chance.choice([len(whole), chance.randrange(len(whole))])])
        for _ in range(chance.randrange(4)):
            if content:
                content[chance.randrange(min(len(content), 1200))] = chance.choice([0, 1, 9, 255])
        path.write_bytes(content)
        began = time.thread_time()
        try:
            inspect(path)
        except ModelFileError as error:
            refusals.append(str(error))
        assert time.thread_time() - began < 1
    assert all(line.isprintable() for line in refusals)
    assert 100 < len(refusals) < 1900
