"""Files that are put into a message: texts and pictures."""

from __future__ import annotations

import base64
import os
import re
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import unquote

from localspec.base.errors import UsageError
from localspec.formats.pictures.decoding import size_of
from localspec.formats.pictures.kinds import kind_of
from localspec.running.runtime.message_media import file_data

LARGEST = 4 << 20  # bytes of a text
MENTION = re.compile(r"(?<!\S)@(\"[^\"]+\"|\S+)")
PATHLIKE = re.compile(r"^(\.{0,2}|~)[/\\]|\.\w{1,4}$")  # begins or ends as one, unlike @somebody
MARKS = ".,;:!?)'\""  # that may follow a path in a sentence
# A path as terminals paste it where a file is dropped: in quotes, with backslashes, as an address.
START = r"(?:file://|~?[/\\]|[A-Za-z]:[/\\])"
PASTED = re.compile(rf"(?<!\S)(?:'({START}[^']+)'|\"({START}[^\"]+)\"|({START}(?:\\ |\S)+))")
HEAD_BYTES = 32  # of a file, which show whether it is a picture


def expand_home(path: str) -> Path:
    return Path(os.path.expanduser(path))  # which leaves a ~NAME that is nobody's as it is


def text_of(path: str) -> str:
    """Read a file, which must be text."""
    file = expand_home(path)
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


def is_picture(path: str) -> bool:
    """Return whether a file is there and begins as pictures do."""
    try:
        if not _is_there(path):  # to open a pipe or a terminal would wait for it
            return False
        with expand_home(path).open("rb") as file:
            return kind_of(file.read(HEAD_BYTES)) is not None
    except OSError:
        return False


def picture_of(path: str) -> str:
    """Read a picture; return it in base64."""
    data = file_data(expand_home(path))
    size_of(data)  # which refuses what is none
    return base64.b64encode(data).decode()


def data_url(picture: str) -> str:
    """Return a picture, given in base64, as requests have it."""
    kind = kind_of(base64.b64decode(picture[:64])) or "PNG"
    return f"data:image/{kind.lower()};base64,{picture}"


def quote(path: str, text: str) -> str:
    """Fence the text of a file with more backticks than it contains."""
    ticks = max((len(run) for run in re.findall(r"`{3,}", text)), default=2) + 1
    fence = "`" * ticks
    end = "" if text.endswith("\n") or not text else "\n"
    return f"{path}:\n{fence}\n{text}{end}{fence}"


def mentioned_files(question: str) -> list[str]:
    """List the paths of existing files that a question names as @path."""
    return list(dict.fromkeys(_mentions(question)))


def missing(question: str) -> list[str]:
    """List what a question names as @path and looks like one, and where no file is."""
    mentions = (mention.rstrip(MARKS).strip('"') for mention in MENTION.findall(question))
    alike = (path for path in mentions if PATHLIKE.search(path) and not _is_there(path))
    return [path for path in dict.fromkeys(alike) if path not in mentioned_files(question)]


def pasted_pictures(question: str) -> list[str]:
    """List the paths of pictures that stand in a question as a terminal pastes them."""
    return [path for path in dict.fromkeys(_pasted_paths(question)) if is_picture(path)]


def _pasted_paths(question: str) -> Iterator[str]:
    for single, double, bare in PASTED.findall(question):
        path = single or double or bare.rstrip(MARKS)
        if path.startswith("file://"):
            path = unquote(path.removeprefix("file://"))
        yield path
        if bare and os.sep == "/":
            yield re.sub(r"\\(.)", r"\1", path)


def _mentions(question: str) -> Iterator[str]:
    for mention in MENTION.findall(question):
        for path in (mention.strip('"'), mention.rstrip(MARKS)):
            if _is_there(path):
                yield path
                break


def _is_there(path: str) -> bool:
    try:
        return expand_home(path).is_file()
    except (OSError, ValueError):  # what cannot even be a path
        return False
