"""Requests put to a server's application within this process, as many at once as it has slots."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable, MutableMapping
from typing import Any

from starlette.types import ASGIApp

from localspec.apps.batch.requests import BatchRequest

Answered = Callable[[BatchRequest, int, dict[str, Any]], None]


async def answer_all(
    app: ASGIApp, requests: Iterable[BatchRequest], slots: int, answered: Answered
) -> None:
    """Answer requests; `answered` hears of each as it is done."""
    waiting = iter(requests)

    async def work() -> None:
        for request in waiting:
            answered(request, *await ask(app, request))

    async with asyncio.TaskGroup() as group:
        for _ in range(slots):
            group.create_task(work())


async def ask(app: ASGIApp, request: BatchRequest) -> tuple[int, dict[str, Any]]:
    """Put a request to an application; return the status and the body of its answer."""
    body, sent = json.dumps(request.body).encode(), asyncio.Event()
    status, parts = 500, list[bytes]()

    async def receive() -> dict[str, Any]:
        if not sent.is_set():
            sent.set()
            return {"type": "http.request", "body": body, "more_body": False}
        return await asyncio.Future()  # the client stays

    async def send(message: MutableMapping[str, Any]) -> None:
        nonlocal status
        status = message.get("status", status)
        parts.append(message.get("body", b""))

    scope = {
        "type": "http",
        "asgi": {"version": "3.0"},
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": request.path,
        "raw_path": request.path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": [
            (b"host", b"localhost"),
            (b"content-type", b"application/json"),
            (b"content-length", str(len(body)).encode()),
        ],
        "client": ("127.0.0.1", 0),
        "server": ("localhost", 80),
    }
    try:
        await app(scope, receive, send)
    except Exception:  # of the server, which has answered for it
        if not parts:
            raise
    return status, json.loads(b"".join(parts))
