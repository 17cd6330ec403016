"""Access to the server: keys, hosts, and the size of a request. Plain ASGI around it."""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import ipaddress
import json
import re
import zlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localspec.apps.server.faults import Fault, Refused, refused
from localspec.base.errors import UsageError

HOST = re.compile(r"(?:\[([^\]]*)\]|([^\[\]:@/\s]*))(?::[0-9]*)?")
LOCAL = ("localhost", "127.0.0.1", "::1")
PRIVATE = (".localhost", ".internal")  # names that nobody can register, as host.docker.internal
APPS = ("app", "file", "tauri", "vscode-webview", "vscode-file")  # origins of no web page
APP_ORIGINS = (
    rf"({'|'.join(APPS)})://.*|https?://tauri\.localhost"  # may ask without --allow-origin
)
KEYLESS_PATHS = ("/health", "/v1/health")
TOO_MUCH = 413
READ_ON_SECONDS, QUIET_SECONDS = 5.0, 0.5  # for a body that is refused, and while nothing comes
UNPACKED_BYTES = 1 << 18  # of a body at once, in half a millisecond
GZIP, GZIP_BITS = ("gzip", "x-gzip"), 31  # of zlib, for the head of a gzip file
FORM = "multipart/form-data"
OWNER = "localspec.owner"  # key of the owner of a request, where there are keys

ErrorBody = Callable[[str, Fault], Mapping[str, object]]  # of the API of a path


@dataclass(frozen=True, slots=True)
class Rules:
    keys: tuple[str, ...] = ()  # none: any client that can reach the server
    hosts: tuple[str, ...] = LOCAL  # names by which it may be called; "*": all
    body_bytes: int = 32 << 20


class Guard:
    """Refuses before anything is read or parsed."""

    def __init__(
        self,
        app: ASGIApp,
        rules: Rules,
        error_body: ErrorBody,
        needs_no_key: Callable[[Scope], bool],
    ) -> None:
        self._app = app
        self._rules = rules
        self._error_body = error_body
        self._needs_no_key = needs_no_key

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or OWNER in scope:  # of a batch, whose client was let through
            await self._app(scope, receive, send)
            return
        headers = Headers(scope=scope)
        fault = self._host(headers) or self._key(scope, headers) or self._length(headers)
        fault = fault or unknown_encoding(headers)
        if fault:
            error = self._error_body(scope["path"], fault)
            still_sends = fault.status == TOO_MUCH and "expect" not in headers
            await refuse(fault, error, send, receive if still_sends else None)
            return
        body = Measured(receive, self._rules.body_bytes, headers.get("content-encoding", ""))
        own = {**as_json(scope, headers), OWNER: self._owner(headers)}
        await self._app(own, body.receive, send)

    def _host(self, headers: Headers) -> Fault | None:
        """Check the host: a page that rebinds its name to this machine still sends its own name."""
        if "*" in self._rules.hosts or "host" not in headers:  # every browser names one
            return None
        header = headers["host"]
        name = host_name(header)
        if name is None:
            message = f"the host {header[:200]!r} is no NAME, NAME:PORT or [ADDRESS]:PORT"
            return Fault(403, message)
        # An address, or a name that no web page of a stranger can have.
        if name in self._rules.hosts or is_address(name) or name.endswith(PRIVATE):
            return None
        return Fault(403, f"this server does not answer as {name!r}; add the name by --allow-host")

    def _key(self, scope: Scope, headers: Headers) -> Fault | None:
        if not self._rules.keys or scope["path"] in KEYLESS_PATHS or self._needs_no_key(scope):
            return None
        if self._fits(key_of(headers)):
            return None
        message = "this server wants an API key: Authorization: Bearer KEY"
        return Fault(401, message, code="invalid_api_key", headers={"WWW-Authenticate": "Bearer"})

    def _fits(self, candidate: str) -> bool:
        right = [
            hmac.compare_digest(candidate.encode("utf-8", "replace"), key.encode())
            for key in self._rules.keys
        ]
        return any(right)

    def _owner(self, headers: Headers) -> str:
        """Hash the key of a client, who owns what is kept for it; without keys all are one."""
        return owner_of(key_of(headers)) if self._rules.keys else ""

    def _length(self, headers: Headers) -> Fault | None:
        if "content-length" in headers and "transfer-encoding" in headers:
            # Whoever stands in between may believe the one, and this server the other.
            message = "a body has a content length or a transfer encoding, not both"
            return Fault(400, message, headers={"Connection": "close"})
        length = headers.get("content-length", "0")
        if not length.isdecimal():
            return Fault(400, "the content length is no number")
        return too_much(self._rules.body_bytes) if int(length) > self._rules.body_bytes else None


def key_of(headers: Headers) -> str:
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme.lower() == "bearer":
        return token.strip()
    return headers.get("x-api-key") or headers.get("api-key", "")  # the latter as Azure has it


def owner_of(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def owner(request: Request) -> str:
    """Return the owner of what is kept for a client, which other clients must not see."""
    name: str = request.scope[OWNER]
    return name


@dataclass(frozen=True, slots=True)
class Manager:
    """Lets requests through that load, unload, download or delete."""

    allowed: bool = True
    origins: tuple[str, ...] = ()  # web pages that may ask

    def allows(self, request: Request) -> bool:
        return self.allowed and foreign(request.headers, self.origins) is None

    async def __call__(self, request: Request) -> None:
        if not self.allowed:
            message = "this server lets no client manage its models: start it with --manage yes"
            raise Refused(Fault(403, message))
        if fault := foreign(request.headers, self.origins):
            raise Refused(fault)


def foreign(headers: Headers, origins: Sequence[str]) -> Fault | None:
    """Refuse pages of other sites, where browsers let them send a request unasked."""
    origin = headers.get("origin")
    if not origin or split(origin).scheme in APPS:
        return None
    if split(origin).netloc == headers.get("host") or {origin, "*"} & set(origins):
        return None
    return Fault(403, f"{origin[:200]} may not do this here: add it by --allow-origin")


def as_json(scope: Scope, headers: Headers) -> Scope:
    """Require a body to be JSON, whatever curl calls it, but for a form with a file.

    A web page has to declare JSON, for then the browser asks before it sends any.
    """
    if "origin" in headers or headers.get("content-type", "").startswith(FORM):
        return scope
    others = [pair for pair in scope["headers"] if pair[0] != b"content-type"]
    return {**scope, "headers": [*others, (b"content-type", b"application/json")]}


def too_much(most: int) -> Fault:
    return Fault(TOO_MUCH, f"a request may have {most:,} bytes")


def unknown_encoding(headers: Headers) -> Fault | None:
    encoding = headers.get("content-encoding", "").lower()
    if encoding in ("", "identity", *GZIP):
        return None
    return Fault(415, f"a body in {encoding[:40]!r} cannot be read: send it as it is, or by gzip")


class Measured:
    """Counts a body as it comes, which may have no length, and unpacks it."""

    def __init__(self, receive: Receive, most: int, encoding: str = "") -> None:
        self._receive = receive
        self._most = self._left = most
        self._gzip = zlib.decompressobj(GZIP_BITS) if encoding.lower() in GZIP else None

    async def receive(self) -> Message:
        message = await self._receive()
        size = len(message.get("body", b""))
        if self._gzip and message["type"] == "http.request":
            message = {**message, "body": await self._unpack(self._gzip, message)}
            size = max(size, len(message["body"]))
        self._left -= size
        if self._left < 0:
            if message.get("more_body"):
                await read_on(self._receive)
            raise Refused(too_much(self._most))
        return message

    async def _unpack(self, gzip: zlib._Decompress, message: Message) -> bytes:
        """Unpack a piece, little further than a body may go; others have their turn meanwhile."""
        packed, body, is_full = message.get("body", b""), bytearray(), True
        while is_full and len(body) <= self._left:
            try:
                piece = gzip.decompress(packed, UNPACKED_BYTES)
            except zlib.error as error:
                raise refused(f"the body is not gzip: {error}") from error
            packed, is_full = gzip.unconsumed_tail, len(piece) == UNPACKED_BYTES
            body += piece
            if is_full:
                await asyncio.sleep(0)
        if not (message.get("more_body") or gzip.eof or len(body) > self._left):
            raise refused("the body is not whole: its gzip does not end")
        return bytes(body)


async def read_on(receive: Receive) -> None:
    """Drop the rest of a body: a client that still sends hears nothing but that it is cut off."""
    loop = asyncio.get_running_loop()
    end, more = loop.time() + READ_ON_SECONDS, True
    with suppress(TimeoutError):
        while more and loop.time() < end:
            async with asyncio.timeout(QUIET_SECONDS):
                more = (await receive()).get("more_body", False)


async def refuse(
    fault: Fault, error: Mapping[str, object], send: Send, receive: Receive | None = None
) -> None:
    """Answer with an error; the connection of a client that still sends is closed after that."""
    body = json.dumps(error).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    headers += [(key.lower().encode(), value.encode()) for key, value in fault.headers.items()]
    await send({"type": "http.response.start", "status": fault.status, "headers": headers})
    if receive is not None:
        await send({"type": "http.response.body", "body": body, "more_body": True})
        body = b""
        await read_on(receive)
    await send({"type": "http.response.body", "body": body})


def host_name(header: str) -> str | None:
    """Return the name, or the address in brackets, before a port; None where it is neither."""
    if (match := HOST.fullmatch(header)) is None:
        return None
    address, name = match.groups()
    if address is not None and not is_address(address):
        return None
    return (name if address is None else address).lower()


def allowed_host(text: str) -> str:
    """Read a name by which the server may be called, as the header has it, without a port."""
    name = "*" if text == "*" else host_name(text)
    if not name and not is_address(text):
        raise UsageError(f"--allow-host {text!r} is no host: write its NAME alone, or * for all")
    return name or text


def allowed_origin(text: str) -> str:
    """Read an origin as browsers name it: in small letters, without a path."""
    parts = split(text)
    if text in ("*", "null"):
        return text
    if not (parts.scheme and parts.netloc) or "*" in text or parts.path.strip("/"):
        raise UsageError(
            f"--allow-origin {text!r} is no origin: write https://NAME or https://NAME:PORT, or * "
            "for all"
        )
    return f"{parts.scheme}://{parts.netloc}".lower()


def is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def split(origin: str) -> SplitResult:
    """Split an origin; an invalid one is empty."""
    try:
        return urlsplit(origin)
    except ValueError:
        return urlsplit("")
