"""Reads requests whose target is a whole URL, which every server has to accept."""

from __future__ import annotations

import re
from urllib.parse import unquote

from starlette.types import ASGIApp, Receive, Scope, Send

WHOLE = re.compile(rb"https?://([^/]*)(/.*)?", re.IGNORECASE | re.DOTALL)


class Absolute:
    """Plain ASGI around all else: takes the path and the host out of the URL."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        url = WHOLE.fullmatch(scope.get("raw_path", b""))
        if url:
            host, path = url[1], url[2] or b"/"
            others = [pair for pair in scope["headers"] if pair[0] != b"host"]
            headers = [*others, (b"host", host)]
            scope = {**scope, "raw_path": path, "path": unquote(path.decode()), "headers": headers}
        await self._app(scope, receive, send)
