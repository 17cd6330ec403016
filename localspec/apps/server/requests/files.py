"""Files in messages: texts and pictures are read, others refused."""

from __future__ import annotations

from base64 import b64encode
from typing import Annotated, Literal

from pydantic import BeforeValidator, field_serializer, model_validator
from pydantic_core import PydanticCustomError

from localspec.apps.server.requests.leniency import RequestPart
from localspec.formats.pictures.encoded import DATA, file_bytes
from localspec.formats.pictures.kinds import kind_of

BEGINNING = 64  # characters, in which a picture shows its kind
BYTE_ORDER_MARKS = {b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16", b"\xef\xbb\xbf": "utf-8-sig"}


def as_file_text(value: object) -> object:
    """Decode a file of text, given in base64 or as a data URL."""
    try:
        return as_text(file_bytes(value)) if isinstance(value, str) else value
    except ValueError as error:
        raise unreadable("its data is neither base64 nor a data URL") from error


def is_picture(data: object) -> bool:
    """Return whether a file in base64, or as a data URL, is a picture that can be read."""
    if not isinstance(data, str):
        return False
    header = DATA.match(data[:BEGINNING])
    start = header.end() if header else 0
    letters = "".join(data[start : start + BEGINNING].split())
    try:
        return kind_of(file_bytes(letters[: len(letters) // 4 * 4])) is not None
    except ValueError:
        return False


def as_picture(part: object) -> object:
    """Read a file that is a picture as one."""
    if not isinstance(part, dict) or part.get("type") not in ("file", "input_file"):
        return part
    within = part.get("file")
    data = (within if isinstance(within, dict) else part).get("file_data")
    return {"type": "image", "image_url": data} if is_picture(data) else part


def as_text(data: bytes) -> str:
    """Decode a text; refuse what is none."""
    encoding = next(
        (name for mark, name in BYTE_ORDER_MARKS.items() if data.startswith(mark)), "utf-8"
    )
    try:
        text = data.decode(encoding)
    except UnicodeDecodeError as error:
        raise unreadable("it is no text") from error
    if "\0" in text or data.startswith(b"%PDF-"):
        raise unreadable("it is no text")
    return text


def unreadable(why: str) -> PydanticCustomError:
    message = "a file cannot be read: {why}; send its words, or a picture of it"
    return PydanticCustomError("unread", message, {"why": why})


class FilePart(RequestPart):
    """A file, in an object as in chats, or without one as in items."""

    type: Literal["file", "input_file"]
    filename: str = ""
    file_data: Annotated[str, BeforeValidator(as_file_text)] = ""

    @property
    def pieces(self) -> list[str]:
        return ["\n\n".join(filter(None, (self.filename, self.file_data)))]

    @model_validator(mode="before")
    @classmethod
    def flat(cls, part: object) -> object:
        if not isinstance(part, dict):
            return part
        within = part.get("file")
        flat = {**part, **within} if isinstance(within, dict) else dict(part)
        flat.pop("file", None)
        if not isinstance(flat.get("file_data"), str):
            raise unreadable("its data is not in the request")
        return flat

    @field_serializer("file_data")
    def encoded(self, text: str) -> str:
        """Encode it as it was sent: a kept request is read again."""
        return b64encode(text.encode()).decode()
