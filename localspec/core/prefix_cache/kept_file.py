"""The form of a file that holds a text.

It is one text, as `text_form` has it, and its KV cache in the engine's form, under the sums of all.
Engines hardly check the data they restore, so a file must be whole and our own.
"""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from io import BufferedReader
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from localspec.base.interruption import check_patience
from localspec.base.system.fresh_memory import allocated
from localspec.base.tokens import Tokens
from localspec.core.prefix_cache import text_form
from localspec.core.prefix_cache.stored_text import StoredText
from localspec.interfaces.adapter import Scales
from localspec.interfaces.backend import Saved

MAGIC = b"localspec text 1"
# The sum of everything after it but the data, the sum of the data, the identity, whether it serves
# as a whole only, the number of tokens, and the bytes of data. Then come the text and the data.
HEAD = struct.Struct("<16s32s32s32s?QQ")
SUMMED_FROM = 48  # bytes of the head that its own sum leaves out
PIECE_BYTES = 4 << 20  # of data, which are summed while the processor's cache has them


@dataclass(frozen=True, slots=True, eq=False)
class DiskText(StoredText):
    path: Path
    data_bytes: int
    data_sum: bytes


class ReadText(NamedTuple):
    """A text from disk, with its KV cache."""

    text: DiskText
    data: NDArray[np.uint8]


def digest_of(text: bytes) -> str:
    """Compute the part of a file's name that stands for its text."""
    return hashlib.sha256(text).hexdigest()[:32]


def pack(identity: bytes, tokens: Tokens, saved: Saved, adapters: Scales) -> list[bytes]:
    """Pack the head of a file, before the data."""
    data_sum = hashlib.sha256(saved.data.data).digest()
    fields = (data_sum, identity, saved.whole, len(tokens), len(saved.data))
    text = text_form.pack(tokens, adapters)
    own_sum = hashlib.sha256(HEAD.pack(MAGIC, b"", *fields)[SUMMED_FROM:] + text).digest()
    return [HEAD.pack(MAGIC, own_sum, *fields), text]


def identity_digest(identity: str) -> bytes:
    return hashlib.sha256(identity.encode()).digest()


def parse_named(file: BufferedReader, path: Path, identity: bytes) -> DiskText:
    """Read a file up to its data; raise a ValueError if it was not written under its name."""
    text = parse(file, path, identity)
    if digest_of(text_form.pack(text.tokens, text.adapters)) not in path.name:
        raise ValueError("it is damaged")
    return text


def parse(file: BufferedReader, path: Path, identity: bytes) -> DiskText:
    """Read a file up to its data; raise a ValueError if it is not whole, or of another model."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    head = file.read(HEAD.size)
    if len(head) < HEAD.size:
        raise ValueError("it is not whole")
    magic, own_sum, data_sum, whose, whole, count, data_bytes = HEAD.unpack(head)
    beside = size - (HEAD.size + 4 * count + data_bytes)
    if (magic, whose) != (MAGIC, identity) or not 0 <= beside <= text_form.MAX_BYTES:
        raise ValueError("it is not whole, or of another model")
    text = file.read(4 * count + beside)
    if hashlib.sha256(head[SUMMED_FROM:] + text).digest() != own_sum:
        raise ValueError("it is damaged")
    tokens, adapters = text_form.unpack(text, count)
    return DiskText(tokens, whole, path, data_bytes, data_sum, adapters=adapters)


def read_file(path: Path, identity: bytes, most: int) -> ReadText | None:
    """Read a text that may have so many bytes of data; raise a ValueError if it is damaged."""
    with path.open("rb") as file:
        text = parse_named(file, path, identity)
        data = read_data(file, text, most)
    return None if data is None else ReadText(text, data)


def read_data(file: BufferedReader, text: DiskText, most: int) -> NDArray[np.uint8] | None:
    """Read the data of a file that was parsed; None if there is no room for so much."""
    data = allocated(text.data_bytes) if 0 < text.data_bytes <= most else None
    if data is None:
        return None
    place, data_sum = data.data, hashlib.sha256()
    for at in range(0, len(place), PIECE_BYTES):
        check_patience()
        piece = place[at : at + PIECE_BYTES]
        file.readinto(piece)
        data_sum.update(piece)
    if data_sum.digest() != text.data_sum:
        raise ValueError("it is damaged")
    return data
