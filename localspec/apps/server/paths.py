"""Paths as clients and proxies write them: whole URLs, too much or too little in front."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import lru_cache
from urllib.parse import unquote

from starlette.routing import BaseRoute, Match
from starlette.types import ASGIApp, Receive, Scope, Send

from localspec.apps.server.page.routes import is_of_browser
from localspec.base.errors import UsageError

Headers = Sequence[tuple[bytes, bytes]]

ROUTE = "localspec.route"  # key of the route that a client means
HTML: Headers = ((b"accept", b"text/html"),)  # by which a browser is known

NAMING = ("deployments", "engines")  # before the name of a model: Azure's clients, and Copilot's
OPENAI = ("openai", "beta", *NAMING)  # /completions without them is llama.cpp's
FRONTS = ("v1", "api", "anthropic", *OPENAI)  # that base URLs of clients end in
MAX_FRONTS = 3  # of them that are taken away
MAX_CACHED_PATHS = 256  # as clients wrote them
WHOLE = re.compile(rb"https?://([^/]*)(/.*)?", re.IGNORECASE | re.DOTALL)
PREFIX = re.compile(r"(/[A-Za-z0-9._~-]+)*/?")


class MeantRoutes(BaseRoute):
    """Stands before all routes for the one that a client means by a path."""

    def __init__(self, routes: Sequence[BaseRoute]) -> None:
        self._routes = routes
        # To try all routes takes as long as everything else that a short request passes.
        self._meant = lru_cache(MAX_CACHED_PATHS)(self._find)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if scope["type"] != "http":
            return Match.NONE, {}
        root_path, accepts = scope.get("root_path", ""), HTML if is_of_browser(scope) else ()
        path, route = self._meant(scope["method"], scope["path"], root_path, accepts)
        if route is None:
            return Match.NONE, {}
        match, more = route.matches({**scope, "path": path})
        return match, {**more, "path": path, ROUTE: route}

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        route: BaseRoute = scope[ROUTE]
        await route.handle(scope, receive, send)

    def _find(
        self, method: str, path: str, root_path: str, accepts: Headers
    ) -> tuple[str, BaseRoute | None]:
        """Return the path and the route that a client means; the path as it is if there is none."""
        scope = {"type": "http", "method": method, "root_path": root_path, "headers": accepts}
        for variant in candidates(path.rstrip("/") or path):
            scope["path"] = variant
            for route in self._routes:
                if route.matches(scope)[0] == Match.FULL:
                    return variant, route
        return path, None


def candidates(path: str) -> Iterator[str]:
    yield path
    parts, front = list(filter(None, path.split("/"))), ""
    for taken in range(MAX_FRONTS + 1):
        if taken:
            front = parts.pop(0) if parts else ""
            if front not in FRONTS:
                return
            del parts[: front in NAMING]
        bare = "/" + "/".join(parts)
        variants = (bare, f"/v1{bare}")
        yield from reversed(variants) if front in OPENAI else variants


class Absolute:
    """Takes path and host out of a target that is a whole URL: every server has to accept one."""

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


class Prefix:
    """Takes the prefix of a proxy off paths that are not the server's own, as /api/tags is."""

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
