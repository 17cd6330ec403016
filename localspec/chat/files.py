"""Files that are put into a message."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path

from localspec.errors import UsageError

LARGEST = 4 << 20  # bytes
MENTION = re.compile(r"(?<!\S)@(\"[^\"]+\"|\S+)")
MARKS = ".,;:!?)'\""  # that may follow a path in a sentence


def place(path: str) -> Path:
    return Path(os.path.expanduser(path))  # which leaves a ~NAME that is nobody's as it is


def text_of(path: str) -> str:
    """Read a file, which must be text."""
    file = place(path)
    try:
        if not file.is_file():
            raise UsageError(f"{path} {'is no file' if file.exists() else 'is not there'}")
        if (size := file.stat().st_size) > LARGEST:
            raise UsageError(f"{path} has {size:,} bytes; at most {LARGEST:,} are read")
        text = file.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8: see its byte {error.start:,}") from error
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error
    except ValueError as error:
        raise UsageError(f"{path!r} cannot be read: {error}") from error
    if "\0" in text:
        raise UsageError(f"{path} is no text: it has a zero byte")
    return text


def quoted(path: str, text: str) -> str:
    """Fence the text of a file with more backticks than it contains."""
    ticks = max((len(run) for run in re.findall(r"`{3,}", text)), default=2) + 1
    fence = "`" * ticks
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{path}:\n{fence}\n{text}{end}{fence}"


def mentioned(question: str) -> list[str]:
    """List the paths of existing files that a question names as @path."""
    return list(dict.fromkeys(_named(question)))


def _named(question: str) -> Iterator[str]:
    for mention in MENTION.findall(question):
        for path in (mention.strip('"'), mention.rstrip(MARKS)):
            if _is_there(path):
                yield path
                break


def _is_there(path: str) -> bool:
    try:
        return place(path).is_file()
    except (OSError, ValueError):  # what cannot even be a path
        return False
