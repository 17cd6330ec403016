"""The routes of the page: at `/` it is for browsers, while programs get their greeting there."""

from __future__ import annotations

from functools import partial

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

from localspec.server.page.site_files import HOME, SiteFile, site_files


def is_of_browser(scope: Scope) -> bool:
    return "text/html" in Headers(raw=scope.get("headers", [])).get("accept", "")


def is_for_page(scope: Scope) -> bool:
    """Return whether a request is for the page, which needs no key: by it a user gives one."""
    if scope["method"] not in ("GET", "HEAD"):
        return False
    path = scope["path"]
    return is_of_browser(scope) if path == HOME else path in site_files()


class HomeRoute(Route):
    """Matches requests of browsers alone: clients of Ollama look for other words at this path."""

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        return super().matches(scope) if is_of_browser(scope) else (Match.NONE, {})


def page_routes() -> list[BaseRoute]:
    """Make a route for each file of the page."""
    return [
        (HomeRoute if path == HOME else Route)(path, partial(send, file), methods=["GET"])
        for path, file in site_files().items()
    ]


async def send(file: SiteFile, request: Request) -> Response:
    """Send a file, unless the browser has it; the page under a prefix has a slash at its end."""
    root: str = request.scope.get("root_path", "")
    if root and request.scope.get("raw_path") == root.encode():
        return RedirectResponse(f"{root}/", 307)
    if file.tag in request.headers.get("if-none-match", ""):
        return Response(status_code=304, headers=dict(file.headers))
    return Response(file.content, headers=dict(file.headers))
