"""Paths as clients write them: with too much or too little in front, or a slash at the end."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

FRONTS = ("v1", "v0", "api", "openai", "anthropic", "beta")  # that base URLs of clients end in
OPENAI = ("openai", "beta")  # /completions without them is llama.cpp's
MAX_FRONTS = 3  # of them that are taken away
MAX_CACHED_PATHS = 256  # as clients wrote them


class Paths:
    """Rewrites paths inside of the guard, which sees them as they came."""

    def __init__(self, app: ASGIApp, routes: Sequence[BaseRoute]) -> None:
        self._app = app
        self._routes = routes
        # To try all routes takes as long as everything else that a short request passes.
        self._meant = lru_cache(MAX_CACHED_PATHS)(self._find)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            method = "GET" if scope["method"] == "HEAD" else scope["method"]
            scope = {**scope, "method": method}  # the web server leaves the body of a HEAD out
            scope["path"] = self._meant(method, scope["path"], scope.get("root_path", ""))
        await self._app(scope, receive, send)

    def _find(self, method: str, path: str, root_path: str) -> str:
        """Return the path of the route that a client means, or the path as it is."""
        scope = {"type": "http", "method": method, "root_path": root_path}
        bare = path.rstrip("/") or path
        matches = (variant for variant in candidates(bare) if self._has_route(scope, variant))
        return next(matches, path)

    def _has_route(self, scope: Scope, path: str) -> bool:
        scope = {**scope, "path": path}
        return any(route.matches(scope)[0] == Match.FULL for route in self._routes)


def candidates(path: str) -> Iterator[str]:
    yield path
    parts, front = list(filter(None, path.split("/"))), ""
    for taken in range(MAX_FRONTS + 1):
        if taken:
            front = parts.pop(0) if parts else ""
            if front not in FRONTS:
                return
        bare = "/" + "/".join(parts)
        variants = (bare, f"/v1{bare}")
        yield from reversed(variants) if front in OPENAI else variants
