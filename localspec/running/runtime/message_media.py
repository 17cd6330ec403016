"""Pictures and sounds in messages, as callers from Python give them."""

from __future__ import annotations

import io
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Protocol, cast, runtime_checkable

from localspec.base.errors import UsageError
from localspec.formats.pictures.encoded import file_bytes
from localspec.formats.pictures.limits import MAX_BYTES
from localspec.formats.templates.message import Message
from localspec.interfaces.media import Kind, Medium
from localspec.running.runtime.messages import GivenMessage, shorten

FORMS = "a path, bytes, a data URL or an image of Pillow's"


@runtime_checkable
class Savable(Protocol):
    """An image of Pillow's, as far as it is needed here."""

    def save(self, fp: io.BytesIO, format: str, /) -> None: ...


def with_media(messages: Sequence[GivenMessage]) -> tuple[list[Message], list[Medium]]:
    """Take the media out of messages: a part of each message says where one belongs.

    Those under `images` come before the text of their message.
    """
    media: list[Medium] = []
    return [_without(message, media) for message in messages], media


def _without(message: GivenMessage, media: list[Medium]) -> Message:
    images, content = message.get("images") or (), message.get("content")
    if isinstance(images, str | bytes) or not isinstance(images, Sequence):
        images = (images,)
    media += [Medium("image", data_of(image)) for image in images]
    parts: list[object] = [{"type": "image"} for _ in images]
    match content:
        case str() if not images:
            return cast(Message, message)
        case str():
            parts.append({"type": "text", "text": content})
        case [*given]:
            parts += [_part(part, media) for part in given]
        case _ if not images:
            return cast(Message, message)
    others = {name: value for name, value in message.items() if name != "images"}
    return cast(Message, {**others, "content": parts})


def _part(part: object, media: list[Medium]) -> object:
    kind: Kind = "image"
    match part:
        case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
            data = data_of(url)
        case {"type": "input_image", "image_url": str(url)}:
            data = data_of(url)
        case {"type": "image", "image": picture}:
            data = data_of(picture)
        case {"type": "input_audio", "input_audio": {"data": str(encoded)}}:
            kind, data = "audio", decode(encoded)
        case _:
            return part
    media.append(Medium(kind, data))
    return {"type": kind}


def data_of(picture: object) -> bytes:
    """Return the file of a picture, however it is given."""
    match picture:
        case bytes() | bytearray():
            return bytes(picture)
        case str() if picture.startswith("data:"):
            return decode(picture)
        case str() if picture.startswith(("http://", "https://")):
            raise UsageError(f"{picture[:80]} is not fetched: download it and give its path")
        case str() | os.PathLike():
            return file_data(Path(picture))
    if isinstance(picture, Savable):
        file = io.BytesIO()
        picture.save(file, "PNG")
        return file.getvalue()
    raise UsageError(f"an image is {shorten(picture)}; it must be {FORMS}")


def file_data(path: Path) -> bytes:
    try:
        if not path.is_file():
            raise UsageError(f"{path} {'is no file' if path.exists() else 'is not there'}")
        if (size := path.stat().st_size) > MAX_BYTES:
            raise UsageError(f"{path} has {size:,} bytes; a picture may have {MAX_BYTES:,}")
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path} cannot be read: {error.strerror or error}") from error


def decode(encoded: str) -> bytes:
    try:
        return file_bytes(encoded)
    except ValueError as error:
        raise UsageError(f"{encoded[:60]!r} is neither base64 nor a data URL: {error}") from error
