"""Answers under a prefix, for a proxy that passes on whole paths. Plain ASGI around all."""

from __future__ import annotations

import re
from collections.abc import Sequence

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from localspec.errors import UsageError

PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")


class Prefix:
    """Takes the prefix off paths that are not the server's own, as /api/tags is with /api."""

    def __init__(self, app: ASGIApp, prefix: str, routes: Sequence[BaseRoute]) -> None:
        self._app, self._prefix, self._routes = app, prefix, routes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if (
            scope["type"] != "lifespan"
            and self._is_under(scope["path"])
            and not self._is_own(scope)
        ):
            scope = self._without(scope)
        await self._app(scope, receive, send)

    def _is_under(self, path: str) -> bool:
        return path == self._prefix or path.startswith(f"{self._prefix}/")

    def _is_own(self, scope: Scope) -> bool:
        return any(route.matches(scope)[0] != Match.NONE for route in self._routes)

    def _without(self, scope: Scope) -> Scope:
        path = scope["path"].removeprefix(self._prefix) or "/"
        # By the root path pages know their addresses; routes would take it off a second time.
        root = "" if self._is_under(path) else self._prefix
        return {**scope, "path": path, "root_path": root}


def check_prefix(prefix: str) -> str:
    """Check that a prefix is a path; an empty one, or a slash, is no prefix."""
    if not PREFIX.fullmatch(prefix):
        raise UsageError(f"--prefix {prefix!r} is no path: write one as /llm")
    return prefix.rstrip("/")
