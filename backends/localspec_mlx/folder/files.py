"""Read the small files of a model folder, within bounds.

A hostile or broken file costs one error that names it, and neither memory nor time.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NoReturn

from localspec.base.errors import ModelFileError, one_line

TOKENIZER, INDEX = "tokenizer.json", "model.safetensors.index.json"
AGAIN = "download it again"
MOST_BYTES = 8 << 20  # the largest settings seen have 1.2 million
MOST_TOKENIZER_BYTES = 64 << 20  # the largest tokenizer.json seen has 34 million
MOST_INDEX_BYTES = 32 << 20  # that of 200,000 tensors has 20 million
LIMITS = {TOKENIZER: MOST_TOKENIZER_BYTES, INDEX: MOST_INDEX_BYTES}
MOST_VALUES = 1 << 22  # in one file; 262,144 tokens and 514,906 merges are 1.8 million

Object = Mapping[str, object]


def read(path: Path) -> Object:
    """Read an object from a JSON file; an empty one where there is no file."""
    return read_object(path) or {}


def read_object(path: Path) -> Object | None:
    text = read_text(path)
    return None if text is None else parse(path, text)


def parse(path: Path, text: str) -> Object:
    values = text.count(",") + text.count("[") + text.count("{")
    if values > MOST_VALUES:
        refuse(path, f"has about {values:,} values; at most {MOST_VALUES:,} are read: {AGAIN}")
    try:
        content = json.loads(text, object_pairs_hook=_once if path.name == TOKENIZER else None)
    except (ValueError, RecursionError) as error:
        refuse(path, f"is cut short, or no JSON ({error}): {AGAIN}")
    return as_object(path, "its content", content)


def _once(pairs: list[tuple[str, object]]) -> Object:
    """Refuse an object with a name twice: two readers could read it differently."""
    values = dict(pairs)
    if len(values) < len(pairs):
        raise ValueError(f"{len(pairs) - len(values):,} names come twice")
    return values


def read_text(path: Path) -> str | None:
    """Read a file as text; None where there is none."""
    raw = _read_bytes(path)
    if raw is None:
        return None
    refuse_pointer(path, raw)
    try:
        return raw.decode()
    except UnicodeDecodeError as error:
        refuse(path, f"is not UTF-8 at byte {error.start:,} of {len(raw):,}: {AGAIN}")


def _read_bytes(path: Path) -> bytes | None:
    most = LIMITS.get(path.name, MOST_BYTES)
    try:
        if not path.is_file():  # what could be opened and never end is none either
            return None
        check_size(path, most)
        with path.open("rb") as file:
            return file.read(most)
    except OSError as error:
        refuse(path, f"cannot be read: {error.strerror or error}")


def check_size(path: Path, most: int) -> None:
    size = path.stat().st_size
    if size > most:
        refuse(path, f"has {size:,} bytes; at most {most:,} are read: {AGAIN}")


def refuse_pointer(path: Path, start: bytes) -> None:
    if start.startswith(b"version https://git-lfs"):
        refuse(path, "is a git-lfs pointer, not the file: run `git lfs pull` where it came from")


def as_object(path: Path, name: str, value: object) -> Object:
    if not isinstance(value, dict):
        refuse(path, f"has {kind_of(value)} as {name}, not an object: {AGAIN}")
    return value


def kind_of(value: object) -> str:
    """Name the JSON kind of a value."""
    kinds = {dict: "an object", list: "a list", str: "a text", bool: "true or false"}
    return "nothing" if value is None else kinds.get(type(value), "a number")


def refuse(path: Path, fault: str) -> NoReturn:
    """Refuse a file in a model's folder."""
    raise ModelFileError(one_line(f"{path.parent.name}/{path.name} {fault}")) from None


def refuse_folder(path: Path, fault: str) -> NoReturn:
    """Refuse a folder, by the path that a user gave."""
    raise ModelFileError(one_line(f"{path} {fault}")) from None
