"""The page: its files, read once, and their routes; at `/` programs get their greeting instead."""

from __future__ import annotations

import hashlib
import threading
import webbrowser
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import click
from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response
from starlette.routing import BaseRoute, Match, Route
from starlette.types import Scope

FOLDER = Path(__file__).parent / "site"
TYPES: Mapping[str, str] = {
    ".html": "text/html; charset=utf-8",
    ".js": "text/javascript; charset=utf-8",
    ".css": "text/css; charset=utf-8",
    ".svg": "image/svg+xml",
}
HOME = "/"
INDEX = "index.html"
BELOW = "/page/"  # the paths of the other files

# Scripts and styles from here alone, none within the page; requests to this server only; pictures
# that a user adds are data. Nothing may frame the page, and no code may write HTML.
POLICY = "; ".join(
    (
        "default-src 'none'",
        "script-src 'self'",
        "style-src 'self'",
        "connect-src 'self'",
        "img-src 'self' data:",
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
        "require-trusted-types-for 'script'",
        "trusted-types 'none'",
    )
)
HEADERS: Mapping[str, str] = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


@dataclass(frozen=True, slots=True)
class SiteFile:
    content: bytes
    headers: Mapping[str, str]

    @property
    def tag(self) -> str:
        return self.headers["ETag"]


@cache
def site_files() -> Mapping[str, SiteFile]:
    """Read the files of the page, by path."""
    return {path_of(file.name): read(file) for file in sorted(FOLDER.iterdir())}


def path_of(name: str) -> str:
    return HOME if name == INDEX else f"{BELOW}{name}"


def read(file: Path) -> SiteFile:
    content = file.read_bytes()
    tag = f'"{hashlib.sha256(content).hexdigest()[:32]}"'
    return SiteFile(content, {**HEADERS, "Content-Type": TYPES[file.suffix], "ETag": tag})


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


def show_page(
    address: str, *, browse: bool, open_browser: Callable[[str], bool] = webbrowser.open
) -> threading.Thread | None:
    """Say where the page is, and open it if that is asked for, without waiting for the browser."""
    click.echo(f"localspec: a page for browsers is at {address}", err=True)

    def show() -> None:
        if not open_browser(address):
            click.echo(
                "localspec: no browser could be opened: open that address yourself", err=True
            )

    if not browse:
        return None
    thread = threading.Thread(target=show, name="localspec-browser", daemon=True)
    thread.start()
    return thread
