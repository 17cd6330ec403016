"""The entries of a conversation, by whichever API it came: what was said, thought and called."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import groupby

from localspec.apps.server.requests.media_parts import MediaReference
from localspec.formats.templates.message import Json

BREAK = "\n\n"  # between paragraphs
Content = Sequence[str | MediaReference]  # texts, and the places of pictures and sounds


@dataclass(frozen=True, slots=True)
class Speech:
    role: str
    content: Content
    name: str | None = None


@dataclass(frozen=True, slots=True)
class Thought:
    text: str


@dataclass(frozen=True, slots=True)
class Call:
    id: str | None
    name: str
    arguments: Json
    space: str = ""  # the namespace of its tool


@dataclass(frozen=True, slots=True)
class Result:
    call_id: str | None
    content: Content
    name: str | None = None  # of the tool


Entry = Speech | Thought | Call | Result


def joined(content: Iterable[str | MediaReference], separator: str = BREAK) -> Content:
    """Join the texts that no picture or sound parts."""
    parts = list(content)
    if len(parts) < 2:
        return parts
    whole: list[str | MediaReference] = []
    for _, run in groupby(parts, type):
        alike = list(run)
        texts = [part for part in alike if isinstance(part, str)]
        whole += [separator.join(texts)] if texts else alike
    return whole


def references(groups: Iterable[Iterable[Entry]]) -> list[MediaReference]:
    """List the pictures and sounds in the order of their places."""
    entries = (entry for group in groups for entry in group)
    contents = (entry.content for entry in entries if isinstance(entry, Speech | Result))
    return [part for content in contents for part in content if not isinstance(part, str)]
