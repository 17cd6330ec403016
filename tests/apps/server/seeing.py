"""A server whose model sees: it says which pictures stand in the message that it answers."""

from __future__ import annotations

import json
from base64 import b64encode
from collections.abc import Sequence

import httpx
from PIL import Image

from localspec.apps.server.app import ServerPolicy
from localspec.formats.pictures.decoding import rgb_pixels
from localspec.interfaces.media import Medium, RunName
from localspec.interfaces.testing import ScriptedSight, shown
from tests.apps.server.client_requests import BLOCKS
from tests.apps.server.scripted import Bytes, Server
from tests.apps.server.test_clients import said
from tests.formats.pictures.files import written

BEGIN, END = "<|picture|>", "<|/picture|>"
LENGTHS = (3, 2)  # positions of the pieces of a picture
FILES = {name: written(Image.new("RGB", (8, 6), name)) for name in ("red", "blue", "green")}
DATA = {name: b64encode(file).decode() for name, file in FILES.items()}
URLS = {name: f"data:image/png;base64,{data}" for name, data in DATA.items()}


class Looking(ScriptedSight):
    """Decodes each picture, as an engine does."""

    def pieces(self, medium: Medium):
        rgb_pixels(medium.data)
        return super().pieces(medium)


class Seeing(Bytes):
    def __init__(self, template: str) -> None:
        super().__init__(template, more=(BEGIN, END))


def label(name: str, data: bytes) -> tuple[int, str]:
    run = RunName(Medium("image", data).digest, 0, LENGTHS[0])
    return shown(run, 0), f"[{name}]"


def seeing(policy: ServerPolicy | None = None, sight: type[Looking] = Looking) -> Server:
    """Start a server whose model says the names of these pictures in brackets."""
    tokens = [Bytes(more=(BEGIN, END)).marks.index(mark) + 256 for mark in (BEGIN, END)]
    labels = dict(label(name, file) for name, file in FILES.items())
    made = sight(*tokens, LENGTHS)
    return Server(policy=policy or ServerPolicy(), alphabet=Seeing, sight=made, labels=labels)


def reply_of(path: str, answer: httpx.Response) -> str:
    """Return the text of an answer, whole or streamed."""
    assert answer.status_code == 200, answer.text
    if "event-stream" not in answer.headers["content-type"]:
        return answer.json()["content"][0]["text"] if path == BLOCKS else said(path, answer)
    if path != BLOCKS:
        return said(path, answer)
    lines = [json.loads(line[6:]) for line in answer.text.splitlines() if line[:6] == "data: "]
    return "".join(line.get("delta", {}).get("text", "") for line in lines)


def texts_and_pictures(*parts: str) -> Sequence[dict[str, object]]:
    """Write parts as chats have them: a name in brackets is that picture."""
    return [
        {"type": "image_url", "image_url": {"url": URLS[part[1:-1]], "detail": "auto"}}
        if part[0] == "["
        else {"type": "text", "text": part}
        for part in parts
    ]
