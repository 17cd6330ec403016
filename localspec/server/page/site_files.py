"""The files of the page, read once, and the headers that confine what a browser does with them."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

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
