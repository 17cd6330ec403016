"""Files that are put into a message."""

from __future__ import annotations

import re
from pathlib import Path

from localspec.errors import UsageError

LARGEST = 4 << 20  # bytes
MENTION = re.compile(r"(?<!\S)@(\"[^\"]+\"|\S+)")


def text_of(path: str) -> str:
    """What a file says, if it is text."""
    place = Path(path).expanduser()
    try:
        if not place.is_file():
            there = "is no file" if place.exists() else "is not there"
            raise UsageError(f"{path} {there}")
        if (size := place.stat().st_size) > LARGEST:
            raise UsageError(f"{path} has {size:,} bytes; at most {LARGEST:,} are read")
        text = place.read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(f"{path} is no text in UTF-8") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"{path} cannot be read: {error}") from error
    if "\0" in text:
        raise UsageError(f"{path} is no text")
    return text


def quoted(path: str, text: str) -> str:
    """A file as a part of a message, fenced by more than it has of that itself."""
    ticks = max((len(each) for each in re.findall(r"`{3,}", text)), default=2) + 1
    fence = "`" * ticks
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{path}:\n{fence}\n{text}{end}{fence}"


def mentioned(question: str) -> list[str]:
    """The paths that a question names as @path, if there are such files."""
    found = [each.strip('"') for each in MENTION.findall(question)]
    return list(dict.fromkeys(path for path in found if Path(path).expanduser().is_file()))
