"""Pictures and sounds in a conversation: marks in its text, for what stands for each in tokens."""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import get_args

import numpy as np

from localspec.base.errors import UsageError
from localspec.formats.templates.message import Json, Message
from localspec.interfaces.media import Kind, Medium, Run, Sight
from localspec.interfaces.media_positions import positions
from localspec.running.runtime.model_text import ModelText

# A mark has letters and digits only, which templates leave as they are. Nobody can guess it.
SECRET = secrets.token_hex(12)
MARK = re.compile(f"medium{SECRET}n([0-9]+)e")


@dataclass(frozen=True, slots=True)
class MediaText:
    """A text in pieces, and the media between these."""

    texts: Sequence[str]  # one more than media
    media: Sequence[Medium]

    def read(
        self, model: ModelText, encode: Callable[[str], list[int]] | None = None
    ) -> tuple[list[int], tuple[Run, ...]]:
        """Tokenise the texts, and put between them what stands for the media; return the runs, too.

        As with llama.cpp, each text is tokenised by itself; by `encode`, if it is given.
        """
        first, *others = self.texts
        tokens, runs = model.started(encode(first)) if encode else model.read(first), list[Run]()
        for medium, text in zip(self.media, others, strict=True):
            for piece in medium.pieces or require_sight(model, medium).pieces(medium):
                match piece:
                    case np.ndarray():
                        tokens += piece.tolist()
                    case run:
                        tokens += positions(run)
                        runs.append(run)
            tokens += (
                encode(text) if encode else model.tokenizer.encode(text, special=True).tolist()
            )
        return tokens, tuple(runs)


def with_pieces(model: ModelText, medium: Medium) -> Medium:
    """Ask the model what stands for a medium in a text; slow."""
    return replace(medium, pieces=require_sight(model, medium).pieces(medium))


def require_sight(model: ModelText, medium: Medium) -> Sight:
    """Return what reads a medium; refuse it if this model does not."""
    if model.sight is None:
        raise UsageError(
            f"this model reads text only, so it takes no {medium.kind}: load one with a projector, "
            "which `localspec list` shows"
        )
    if medium.kind not in model.sight.kinds:
        kinds = " and ".join(sorted(model.sight.kinds))
        raise UsageError(f"this model takes no {medium.kind}; it takes {kinds}")
    return model.sight


def mark_media(messages: Sequence[Message], media: Sequence[Medium]) -> list[Message]:
    """Put a mark in place of each part that is a medium."""
    marks = iter([f"medium{SECRET}n{number}e" for number in range(len(media))])
    return [{**message, **_marked_content(message, marks)} for message in messages]


def _marked_content(message: Message, marks: Iterator[str]) -> Message:
    match message.get("content"):
        case [*parts]:
            return {"content": [_marked_part(part, marks) for part in parts]}
    return {}


def _marked_part(part: Json, marks: Iterator[str]) -> Json:
    match part:
        case {"type": kind} if kind in get_args(Kind) and (mark := next(marks, "")):
            return {"type": "text", "text": mark}
    return part


def split_at_marks(text: str, media: Sequence[Medium]) -> MediaText:
    """Part a rendered text at its marks; each medium has one, in any order."""
    pieces = MARK.split(text)
    texts, numbers = pieces[::2], [int(number) for number in pieces[1::2]]
    for number, medium in enumerate(media):
        if (count := numbers.count(number)) != 1:
            how = "leaves out" if not count else f"writes {count} times"
            which = f"{medium.kind} {number + 1} of {len(media)}"
            raise UsageError(f"the model's chat template {how} {which}: put it in another message")
    return MediaText(texts, [media[number] for number in numbers])
