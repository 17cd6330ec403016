"""Read the header of a GGUF file: what is in it and where, never the weights.

Nothing the file says of its own sizes is believed before it is compared with the bytes that are
there, so a hostile file costs one error, and neither memory nor time.
"""

from __future__ import annotations

import math
import mmap
import stat
import struct
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

from localspec.base.errors import ModelFileError
from localspec_llamacpp.ggml import TensorType, tensor_type
from localspec_llamacpp.headers.metadata import (
    ARRAY,
    FORMATS,
    LENGTH,
    LONGEST_TEXT,
    STRING,
    UINT32,
    UINT64,
    FileRange,
    Header,
    Tensor,
    Value,
    refusal,
)

SCALARS = {kind: struct.Struct(form) for kind, form in FORMATS.items()}
AGAIN = "download it again"
LEAST_BYTES = 24  # magic, version and two counts
MOST_KEYS = 16_384  # the largest seen has about 100
MOST_TENSORS = 65_536  # the largest seen has about 3,000
MOST_STRINGS = 4_194_304  # in all arrays together; a 262,144-token vocabulary needs 0.8 million
MOST_TEXT = 16 << 20  # bytes of all strings that are kept
LONGEST_KEY = 1024
LONGEST_NAME = 1024  # of a tensor; llama.cpp takes 63 bytes
MOST_ALIGNED = 1 << 20  # bytes
OLD_MAGICS = (b"lmgg", b"tjgg", b"fmgg", b"algg")


def read(path: Path) -> Header:
    """Parse the header of a GGUF file, refusing whatever the engine could choke on."""
    try:
        status = path.stat()
        if not stat.S_ISREG(status.st_mode):
            kind = "a directory" if stat.S_ISDIR(status.st_mode) else "not a regular file"
            raise ModelFileError(f"{path} is {kind}: give the path of a .gguf file")
        with path.open("rb") as file:
            refuse_other_formats(path, file.read(64), status.st_size)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
                return HeaderReader(path, data).header()
    except FileNotFoundError:
        raise ModelFileError(f"{path} does not exist: check the path") from None
    except OSError as error:
        raise ModelFileError(f"{path} cannot be read: {error.strerror or error}") from None


def refuse_other_formats(path: Path, start: bytes, size: int) -> None:
    """Refuse a file that is not GGUF, and name what it looks like."""
    if start.startswith(b"GGUF") and size >= LEAST_BYTES:
        return
    if size < LEAST_BYTES and b"GGUF".startswith(start[:4]):
        least = "is empty" if not size else "is cut short"
        raise refusal(path, f"{least}: it has {size} of at least {LEAST_BYTES} bytes: {AGAIN}")
    lowered = start.lstrip().lower()
    if start.startswith(b"version https://git-lfs"):
        kind = "a git-lfs pointer, not the weights: run `git lfs pull` where it came from"
    elif start[8:9] == b"{" and size >= LEAST_BYTES and LENGTH(start)[0] < size:
        kind = "a safetensors file, not GGUF: give its folder to MLX, or convert it with llama.cpp"
    elif start.startswith(b"PK\x03\x04"):
        kind = "a zip archive (PyTorch weights are), not GGUF: unpack it or convert it"
    elif lowered.startswith((b"<!doctype", b"<html", b"<?xml")):
        kind = "a web page, not GGUF: the download was answered with a page; log in and try again"
    elif start[:4] in OLD_MAGICS:
        kind = "a GGML file from before GGUF: download a GGUF version of the model"
    elif not start.strip(b"\0"):
        kind = f"not GGUF: it starts with {len(start)} zero bytes, as unfinished downloads do"
    else:
        kind = f"not GGUF: it starts with {start[:4]!r}, not b'GGUF'"
    raise refusal(path, f"is {kind}")


class HeaderReader:
    """Walks one header from front to back."""

    def __init__(self, path: Path, data: mmap.mmap) -> None:
        self.path = path
        self.data = data
        self.size = len(data)
        self.at = 4
        self.strings = MOST_STRINGS
        self.text_bytes_left = MOST_TEXT

    def header(self) -> Header:
        self.check_version()
        tensors = self.count("tensors", MOST_TENSORS, 24)
        keys = self.count("keys", MOST_KEYS, 14)
        values: dict[str, Value] = {}
        for _ in range(keys):
            self.read_pair(values)
        header = Header(self.path, values, (), self.size)
        alignment = header.number("general.alignment", 32)
        if not 0 < alignment <= MOST_ALIGNED or alignment & (alignment - 1):
            self.broken(f"is broken: it aligns its weights to {alignment:,} bytes")
        read = tuple(self.read_tensors(tensors).values())
        start = -(-self.at // alignment) * alignment
        for tensor in read:
            if tensor.offset + tensor.size > self.size - start:
                self.cut_short(f"{start + tensor.offset + tensor.size:,} bytes")
        return replace(header, tensors=read, weights_start=start)

    def broken(self, fault: str) -> NoReturn:
        raise refusal(self.path, f"{fault}: {AGAIN}")

    def cut_short(self, promised: str) -> NoReturn:
        self.broken(f"is cut short: its header promises {promised}, the file has {self.size:,}")

    def need(self, end: int) -> None:
        if end > self.size:
            self.cut_short(f"{end:,} bytes or more")

    def check_version(self) -> None:
        version = self.number(UINT32)
        if version in (2, 3):
            return
        if not version & 0xFFFF:
            self.broken("is big endian, which this computer cannot read")
        if version == 1:
            self.broken("is GGUF version 1, which llama.cpp no longer reads; 2 and 3 are")
        self.broken(f"is GGUF version {version}; versions 2 and 3 are read")

    def count(self, items: str, most: int, least_bytes: int) -> int:
        count = self.number(UINT64)
        fitting = (self.size - self.at) // least_bytes
        if count > min(most, fitting):
            limit = f"at most {most:,} are read"
            if fitting <= most:
                limit = f"it has room for {fitting:,}"
            self.broken(f"is broken: its header promises {count:,} {items}, {limit}")
        return count

    def number(self, kind: int) -> int:
        form = SCALARS[kind]
        self.need(self.at + form.size)
        value = form.unpack_from(self.data, self.at)[0]
        self.at += form.size
        return value  # type: ignore[no-any-return]

    def raw(self, item: str, most: int) -> bytes:
        """Read a short string, which its length precedes."""
        length = self.number(UINT64)
        if length > most:
            self.broken(f"is broken: it has {item} of {length:,} bytes; at most {most:,} are read")
        self.need(self.at + length)
        self.at += length
        return self.data[self.at - length : self.at]

    def name(self, item: str, most: int) -> str:
        raw = self.raw(item, most)
        try:
            return raw.decode()
        except UnicodeDecodeError as error:
            self.broken(f"is broken: {item} is not UTF-8 at byte {error.start} of {len(raw)}")

    def read_pair(self, values: dict[str, Value]) -> None:
        key = self.name("a key", LONGEST_KEY)
        if key in values:
            self.broken(f"is broken: it has the key {key} twice")
        kind = self.number(UINT32)
        if kind == STRING:
            values[key] = self.read_text(key)
        elif kind == ARRAY:
            values[key] = Value(kind, place=self.read_array(key))
        elif kind in SCALARS:
            values[key] = Value(kind, self.number(kind))
        else:
            self.broken(f"is broken: {key} is of kind {kind}; kinds 0 to 12 exist")

    def read_text(self, key: str) -> Value:
        length = self.number(UINT64)
        start, self.at = self.at, self.at + length
        self.need(self.at)
        if length > LONGEST_TEXT:
            return Value(STRING)  # which nobody needs
        self.text_bytes_left -= length
        if self.text_bytes_left < 0:
            self.broken(f"is broken: it has more than {MOST_TEXT:,} bytes of text, at {key}")
        return Value(STRING, text=self.data[start : self.at].decode(errors="replace"))

    def read_array(self, key: str) -> FileRange:
        kind, count = self.number(UINT32), self.number(UINT64)
        start = self.at
        if kind == STRING:
            self.need(start + 8 * count)
            self.skip_strings(key, count)
        elif kind in SCALARS:
            self.at += SCALARS[kind].size * count
            self.need(self.at)
        elif kind == ARRAY:
            self.broken(f"is broken: {key} is an array of arrays, which llama.cpp does not read")
        else:
            self.broken(f"is broken: {key} is an array of kind {kind}; kinds 0 to 12 exist")
        return FileRange(kind, count, start, self.at)

    def skip_strings(self, key: str, count: int) -> None:
        self.strings -= count
        if self.strings < 0:
            self.broken(f"is broken: it has more than {MOST_STRINGS:,} strings, at {key}")
        data, at = self.data, self.at
        try:
            for _ in range(count):
                at += 8 + LENGTH(data, at)[0]
        except (struct.error, OverflowError):
            self.need(at + 8)
        self.need(at)
        self.at = at

    def read_tensors(self, count: int) -> dict[str, Tensor]:
        tensors: dict[str, Tensor] = {}
        for tensor in (self.read_tensor() for _ in range(count)):
            if tensor.name in tensors:
                self.broken(f"is broken: it has the tensor {tensor.name} twice")
            tensors[tensor.name] = tensor
        return tensors

    def read_tensor(self) -> Tensor:
        name = self.name("a tensor name", LONGEST_NAME)
        axes = self.number(UINT32)
        if not 1 <= axes <= 4:
            self.broken(f"is broken: tensor {name} has {axes} dimensions; 1 to 4 are read")
        shape = tuple(self.number(UINT64) for _ in range(axes))
        kind = tensor_type(self.number(UINT32))
        return Tensor(name, shape, kind.name, stored(shape, kind), self.number(UINT64))


def stored(shape: tuple[int, ...], kind: TensorType) -> int:
    """Compute the bytes of a tensor; 0 of a type that the engine does not know."""
    return math.prod(shape) // kind.block * kind.bytes
