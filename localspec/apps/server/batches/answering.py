"""Requests put to a server's application within its process, several at once."""

from __future__ import annotations

import asyncio
import json
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, MutableMapping
from typing import Any

from starlette.types import ASGIApp

from localspec.apps.server.batches.lines import BatchRequest
from localspec.apps.server.safety import OWNER

LOOK_SECONDS = 0.1  # between two looks for how many may be under way

Ask = Callable[[BatchRequest], Awaitable[tuple[int, dict[str, Any]]]]
Allowance = Callable[[int], int]  # how many may be under way, where so many are
Answered = Callable[[BatchRequest, int, dict[str, Any]], None]


async def answer_all(
    requests: Iterator[BatchRequest], ask: Ask, allowance: Allowance, answered: Answered
) -> None:
    """Answer requests; `answered` hears of each as it is done.

    Where fewer may be under way than are, the newest are ended, and asked again later.
    """
    under_way: dict[asyncio.Task[tuple[int, dict[str, Any]]], BatchRequest] = {}
    again = deque[BatchRequest]()
    more = True
    try:
        while more or again or under_way:
            most = allowance(len(under_way))
            while len(under_way) > most:
                task, request = under_way.popitem()
                again.appendleft(request)
                await end_task(task)
            while (more or again) and len(under_way) < most:
                next_one = (
                    again.popleft() if again else await asyncio.to_thread(next, requests, None)
                )
                if next_one is None:
                    more = False
                else:
                    under_way[asyncio.ensure_future(ask(next_one))] = next_one
            if not under_way:
                await asyncio.sleep(LOOK_SECONDS if more or again else 0)
                continue
            done, _ = await asyncio.wait(
                under_way, timeout=LOOK_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
            for task in done:
                answered(under_way.pop(task), *task.result())
    finally:
        for task in under_way:
            await end_task(task)


async def end_task(task: asyncio.Future[Any]) -> None:
    """End a task, and wait until it has."""
    task.cancel()
    await asyncio.wait([task])


async def ask(app: ASGIApp, owner: str, request: BatchRequest) -> tuple[int, dict[str, Any]]:
    """Put a request of an owner to an application; return the status and body of its answer."""
    sent = asyncio.Event()
    status, parts = 500, list[bytes]()

    async def receive() -> dict[str, Any]:
        if not sent.is_set():
            sent.set()
            return {"type": "http.request", "body": request.body, "more_body": False}
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
            (b"content-length", str(len(request.body)).encode()),
        ],
        "client": ("127.0.0.1", 0),
        "server": ("localhost", 80),
        OWNER: owner,
    }
    try:
        await app(scope, receive, send)
    except Exception:  # of the server, which has answered for it
        if not parts:
            raise
    return status, json.loads(b"".join(parts))
