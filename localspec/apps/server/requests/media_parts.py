"""Pictures and sounds in messages, by the names that APIs and clients give them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from localspec.apps.server.requests.leniency import RequestPart
from localspec.interfaces.media import Kind

IMAGES = ("image_url", "input_image", "image")  # types of parts
SOUNDS = ("input_audio", "audio_url", "audio")
# Fields that have a file, or an object with one of them.
FILE_FIELDS = (*IMAGES, *SOUNDS, "url", "data", "base64", "source")


@dataclass(frozen=True, slots=True)
class MediaReference:
    """A picture or a sound as a request names it: by its bytes in base64, or by an address."""

    kind: Kind | None  # None: the file shows it
    text: str  # base64, a data URL or an address
    field: str


def file_in(part: Mapping[str, object]) -> tuple[str, Mapping[str, object]]:
    """Return the file of a part, and its other fields, those of an object around the file too."""
    name = next((name for name in FILE_FIELDS if part.get(name)), "")
    others = {key: value for key, value in part.items() if key not in FILE_FIELDS}
    match part.get(name):
        case str(text):
            return text, others
        case dict(within):
            text, more = file_in(within)
            return text, {**more, **others}
    return "", others


def without_file(kind: object, *, is_kept: bool) -> PydanticCustomError:
    why = "no files are kept here" if is_kept else "there is none in the request"
    message = "a part of type {kind} has no file: {why}; send it as base64 or as a data URL"
    return PydanticCustomError("no_file", message, {"kind": repr(kind)[:80], "why": why})


class MediumPart(RequestPart):
    """A picture or a sound, with its file under one name, wherever a client puts it."""

    type: Literal["image_url", "input_image", "image", "input_audio", "audio_url", "audio"]
    image_url: str = ""
    input_audio: str = ""
    format: str = ""  # of a sound; shown by the file itself

    @model_validator(mode="before")
    @classmethod
    def flat(cls, part: object) -> object:
        if not isinstance(part, dict):
            return part
        text, others = file_in(part)
        if not text:
            raise without_file(part.get("type"), is_kept=bool(others.get("file_id")))
        return {**others, "image_url" if part.get("type") in IMAGES else "input_audio": text}

    @property
    def pieces(self) -> list[MediaReference]:
        kind: Kind = "image" if self.image_url else "audio"
        return [MediaReference(kind, self.image_url or self.input_audio, self.type)]


def as_file(value: object) -> object:
    """Read a file that may stand in an object."""
    return file_in(value)[0] if isinstance(value, dict) else value


# Pictures beside a text, as Ollama has them.
Images = list[Annotated[str, Field(min_length=1), BeforeValidator(as_file)]]


def image_references(images: Iterable[str] | None) -> list[MediaReference]:
    return [MediaReference("image", image, "images") for image in images or ()]
