"""Paths that other servers answer and this one does not, with what to do instead."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route

from localspec.apps.server import faults

CLASSES = "models here continue text, turn texts into vectors or rank them"
TEXT_ONLY = "models here read and write text only"
STORED = "only responses are kept here: send what is needed with each request"
BATCHES = "send the requests at once: they are answered together"
FILES = "give localspec serve the file, or pull a model by name"

INSTEAD: Mapping[str, str] = {
    **dict.fromkeys(("/pooling", "/classify"), CLASSES),
    "/audio/{kind}": TEXT_ONLY,
    "/images/{kind}": TEXT_ONLY,
    "/moderations": "models here continue text, and judge none",
    **dict.fromkeys(("/files", "/vector_stores", "/assistants", "/threads"), STORED),
    **dict.fromkeys(("/conversations", "/responses/compact"), STORED),
    **dict.fromkeys(("/batches", "/messages/batches", "/fine_tuning/jobs"), BATCHES),
    **dict.fromkeys(("/api/create", "/api/blobs/{digest}"), FILES),
    "/api/push": "models are only downloaded",
}


def not_offered() -> list[BaseRoute]:
    return [
        Route(variant, partial(refuse, instead), methods=["GET", "POST"])
        for path, instead in INSTEAD.items()
        for variant in ([path] if path.startswith("/api/") else [path, f"/v1{path}"])
    ]


async def refuse(instead: str, request: Request) -> Response:
    raise faults.not_offered(f"this server has no {request.url.path}: {instead}")
