"""Files in messages: those of text are read, as the words they hold."""

from __future__ import annotations

import re
from base64 import b64decode
from typing import Annotated, Literal
from urllib.parse import unquote_to_bytes

from pydantic import BeforeValidator, model_validator
from pydantic_core import PydanticCustomError

from localspec.server.requests.leniency import RequestPart

DATA = re.compile(r"data:(?P<kind>[^,;]*)(?P<more>[^,]*),", re.IGNORECASE)
TOLD = 80  # letters of a name in an error
MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


def as_words(given: object) -> object:
    """Decode base64 or a data URL."""
    return words(given) if isinstance(given, str) else given


def words(data: str) -> str:
    """Decode a file of text, given in base64 or as a data URL."""
    found = DATA.match(data)
    rest = data[found.end() :] if found else data
    if found and not found["more"].lower().endswith(";base64"):
        return as_text(unquote_to_bytes(rest))
    try:
        return as_text(b64decode("".join(rest.split()) + "=" * (-len(rest) % 4), altchars=b"-_"))
    except ValueError as error:
        raise unread("its data is neither base64 nor a data URL") from error


def as_text(data: bytes) -> str:
    """Read bytes as the text they are, or refuse them."""
    coding = next((each for mark, each in MARKS.items() if data.startswith(mark)), "utf-8")
    try:
        found = data.decode(coding)
    except UnicodeDecodeError as error:
        raise unread("it is no text") from error
    if "\0" in found or data.startswith(b"%PDF-"):
        raise unread("it is no text")
    return found


def unread(why: str) -> PydanticCustomError:
    message = "a file cannot be read: {why}; models here read text only, so send its words"
    return PydanticCustomError("unread", message, {"why": why})


class FileData(RequestPart):
    filename: str = ""
    file_data: Annotated[str, BeforeValidator(as_words)] = ""

    @property
    def text(self) -> str:
        return "\n\n".join(filter(None, (self.filename, self.file_data)))


class FilePart(FileData):
    """A file, in an object of its own as chats have it, or without one as items have it."""

    type: Literal["file", "input_file"]

    @model_validator(mode="before")
    @classmethod
    def flat(cls, given: object) -> object:
        if not isinstance(given, dict):
            return given
        within = given.get("file")
        flat = {**given, **within} if isinstance(within, dict) else dict(given)
        flat.pop("file", None)
        if not isinstance(flat.get("file_data"), str):
            raise unread("its data is not in the request")
        return flat
