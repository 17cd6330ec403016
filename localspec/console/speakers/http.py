"""The chat's HTTP client: short requests, and streams that another thread may cut."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import httpcore
import httpx

from localspec.base.errors import BackendError, PromptTooLong, UsageError
from localspec.console.speakers.stream import Object, error_message, objects
from localspec.formats.templates.message import Json

CONNECT_SECONDS = 10.0
QUICK_SECONDS = 20.0  # for an answer that no model has to think about
SILENT_SECONDS = 600.0  # after which a server that says nothing is taken for dead
MOST_BYTES = 64 << 20  # of a line, or of a whole answer
HERE = ("localhost", "127.0.0.1", "0.0.0.0", "::1")  # no proxy leads there
TOO_LONG = "context_length_exceeded"
REFUSALS: Mapping[int, str] = {
    401: "wants a key: give --key",
    403: "does not let us in",
    404: "has no such path: is it the address of an OpenAI-like API?",
    429: "is asked too much: try again later",
    503: "is busy: try again later",
}


class HttpLine:
    """The connection of one request."""

    def __init__(self) -> None:
        self._socket: socket.socket | None = None
        self._cut = False

    def trace(self, _: str, details: Mapping[str, object]) -> None:
        """Remember the socket as soon as it is connected, long before an answer comes."""
        stream = details.get("return_value")
        if isinstance(stream, httpcore.NetworkStream):
            self._socket = stream.get_extra_info("socket")
            if self._cut:
                self.cut()

    def cut(self) -> None:
        """Close the connection, which makes the server stop; any thread may call this."""
        self._cut = True
        if self._socket is not None:
            with suppress(OSError):  # it has ended
                self._socket.shutdown(socket.SHUT_RDWR)


def socket_path(address: str) -> str:
    """Return the path of a unix socket, which is written unix:PATH or as the path alone."""
    path = address.removeprefix("unix://").removeprefix("unix:")
    return path if path != address or "/" in path[:1] else ""


class Wire:
    """A client of one server."""

    def __init__(self, address: str, key: str) -> None:
        try:
            path = socket_path(address)
            if path:
                address = "http://localhost"
            url = httpx.URL(address if "://" in address else f"http://{address}")
            if url.scheme not in ("http", "https") or not url.host:
                raise UsageError(f"{address!r} is no address of a server, as http://HOST:PORT is")
            self.address = path or str(url).rstrip("/").removesuffix("/v1")
            near = url.host in HERE
            self._client = httpx.Client(
                base_url=str(url).rstrip("/").removesuffix("/v1"),
                headers=headers(key),
                timeout=patient(SILENT_SECONDS),
                trust_env=not near,
                verify=not near or url.scheme == "https",  # to read all certificates takes 40 ms
                transport=httpx.HTTPTransport(uds=path) if path else None,
            )
        except (httpx.InvalidURL, ValueError, OSError, ImportError) as error:
            raise UsageError(f"{address!r} cannot be asked: {error}") from error

    def ask(self, path: str, body: Json = None, seconds: float = SILENT_SECONDS) -> Object:
        """Send a request whose answer comes in one piece, and return the answer."""
        method, timeout = "GET" if body is None else "POST", patient(seconds)
        opened = self._client.stream(method, path, json=body, timeout=timeout)
        with self._translate_errors(seconds), opened as answer:
            self._require_success(answer)
            return objects(json.loads(self._content(answer)))

    def events(self, path: str, body: Json, line: HttpLine) -> Iterator[Json]:
        """Stream the events of an answer until the server says that it is complete."""
        opened = self._client.stream("POST", path, json=body, extensions={"trace": line.trace})
        with self._translate_errors(SILENT_SECONDS), opened as answer:
            self._require_success(answer)
            heard = False
            for event in self._lines(answer):
                name, _, data = event.partition(b":")
                if name == b"data" and data.strip() == b"[DONE]":
                    return
                if name == b"data":
                    heard = True
                    yield json.loads(data)
        did = "broke off within the answer" if heard else "sends nothing that is an answer"
        raise BackendError(f"{self.address} {did}")

    def _lines(self, answer: httpx.Response) -> Iterator[bytes]:
        """Split at line feeds only: other line endings may stand inside JSON."""
        held = bytearray()
        for block in answer.iter_bytes():
            first, *more = block.split(b"\n")
            held += first
            for piece in more:
                yield bytes(held)
                held = bytearray(piece)
            self._check_size(held)

    def _content(self, answer: httpx.Response) -> bytearray:
        held = bytearray()
        for block in answer.iter_bytes():
            held += block
            self._check_size(held)
        return held

    def _check_size(self, held: bytearray) -> None:
        if len(held) > MOST_BYTES:
            raise BackendError(f"{self.address} sends over {MOST_BYTES:,} bytes in one piece")

    def _require_success(self, answer: httpx.Response) -> None:
        """Raise the server's error, in its own words if it has any."""
        if answer.is_success:
            return
        if answer.is_redirect:
            location = answer.headers["location"]
            raise UsageError(f"{self.address} sends us to {location}: attach to what answers there")
        body: Object = {}
        with suppress(ValueError, RecursionError):
            body = objects(json.loads(self._content(answer)))
        status, message = answer.status_code, error_message(body)
        if not message or status == httpx.codes.UNAUTHORIZED:
            usual = f"{self.address} {REFUSALS.get(status, f'fails with status {status}')}"
            message = f"{usual}: {message}".removesuffix(": ")
        if objects(body.get("error")).get("code") == TOO_LONG:
            raise PromptTooLong(message)
        raise UsageError(message) if answer.is_client_error else BackendError(message)

    @contextmanager
    def _translate_errors(self, seconds: float) -> Iterator[None]:
        address = self.address
        try:
            yield
        except (httpx.ConnectError, httpx.ConnectTimeout) as error:
            raise BackendError(f"no server answers at {address}: {reason(error)}") from error
        except httpx.TimeoutException as error:
            raise BackendError(f"{address} has said nothing for {seconds:.0f} s") from error
        except (httpx.HTTPError, httpx.StreamError, OSError) as error:
            raise BackendError(f"the connection to {address} failed: {reason(error)}") from error
        except (ValueError, RecursionError) as error:
            raise BackendError(f"{address} sends something that is no JSON") from error


def headers(key: str) -> dict[str, str]:
    """Ask for a connection per request, so that cutting one cuts no other."""
    if not (key.isascii() and key.isprintable()):
        raise UsageError("a key is of visible ASCII letters")
    fields = {"connection": "close"}
    return fields | {"authorization": f"Bearer {key}"} if key else fields


def patient(seconds: float) -> httpx.Timeout:
    return httpx.Timeout(seconds, connect=CONNECT_SECONDS)


def reason(error: Exception) -> str:
    return str(error) or type(error).__name__
