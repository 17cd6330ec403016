"""Sockets on which the server listens: at a port, or at a unix socket; with or without TLS."""

from __future__ import annotations

import os
import signal
import socket
import ssl
import stat
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType

from localspec.apps.server.options import ServingOptions
from localspec.base.errors import UsageError
from localspec.base.system.signals import ENDINGS, handled

MISMATCH = "the key is not that of the certificate"
NO_PEM = "there is no certificate, or no key, in PEM; --tls-key names the file of a key"


@contextmanager
def listening(options: ServingOptions) -> Iterator[socket.socket]:
    """Bind before the model is loaded; a unix socket is removed at the end, also by a signal."""
    check_certificate(options.tls_cert, options.tls_key)
    if options.unix is None:
        yield bind(options.host, options.port)
        return
    with bind_path(options.unix) as listener, removed_at_end(options.unix):
        yield listener


def bind(host: str, port: int) -> socket.socket:
    """Bind a socket whose connections send at once.

    asyncio sets TCP_NODELAY where a socket names its protocol. Else each answer on a connection
    that is used again waits some 40 ms for the client's acknowledgement.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, os.name == "posix")
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        reason = error.strerror or error
        raise UsageError(f"{host}:{port} cannot be had ({reason}): choose --port") from error
    return listener


def bind_path(path: Path) -> socket.socket:
    """Listen at once, since a socket that does not listen looks like one left behind."""
    if sys.platform == "win32":
        raise UsageError("this system has no unix sockets: give --host and --port")
    clear(path)
    listener = socket.socket(socket.AF_UNIX)
    mask = os.umask(0o177)  # the socket must never be open to others, not even for a moment
    try:
        listener.bind(os.fspath(path))
        listener.listen()
    except OSError as error:
        listener.close()
        raise UsageError(f"{path} cannot be had ({error.strerror or error}): --unix") from error
    finally:
        os.umask(mask)
    return listener


def clear(path: Path) -> None:
    """Remove a socket at which no server listens."""
    try:
        kind = path.lstat().st_mode
    except OSError:
        return  # bind reports what is wrong with the path
    if not stat.S_ISSOCK(kind):
        raise UsageError(f"{path} is there and is no socket: choose another --unix")
    with socket.socket(socket.AF_UNIX) as probe:
        probe.settimeout(1)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            path.unlink(missing_ok=True)
            return
        except OSError as error:
            reason = error.strerror or error
            raise UsageError(f"{path} is there and cannot be tried ({reason})") from error
    raise UsageError(f"a server listens at {path} already: choose another --unix")


@contextmanager
def removed_at_end(path: Path) -> Iterator[None]:
    """Remove a socket at the end, also when a signal ends the process."""
    made = path.lstat()

    def remove() -> None:
        with suppress(OSError):
            if os.path.samestat(path.lstat(), made):
                path.unlink()

    def end(number: int, frame: FrameType | None) -> None:  # noqa: ARG001
        remove()
        signal.signal(number, signal.SIG_DFL)
        signal.raise_signal(number)

    with handled(end, *ENDINGS):
        try:
            yield
        finally:
            remove()


def check_certificate(certificate: Path | None, key: Path | None) -> None:
    """Check that a certificate and its key can be used, before a model is loaded."""
    if certificate is None:
        if key is not None:
            raise UsageError("--tls-key is the key of a certificate: give --tls-cert too")
        return
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    try:
        context.load_cert_chain(certificate, key, password=refused_password)
    except ssl.SSLError as error:
        raise UsageError(
            f"--tls-cert {certificate}{f' and --tls-key {key}' if key else ''} cannot be used: "
            f"{MISMATCH if error.reason == 'KEY_VALUES_MISMATCH' else NO_PEM}"
        ) from error
    except OSError as error:
        raise UsageError(f"the certificate or its key cannot be read: {error}") from error


def refused_password() -> str:
    raise UsageError("the key of the certificate needs a password: give one without")


def page_address(options: ServingOptions, listener: socket.socket) -> str:
    """Format the address of the page as a browser on this machine reaches it."""
    host = {"0.0.0.0": "127.0.0.1", "::": "::1"}.get(options.host, options.host)
    return address(replace(options, host=host), listener).removesuffix("v1")


def address(options: ServingOptions, listener: socket.socket) -> str:
    """Format the address of the API."""
    if options.unix is not None:
        return f"unix socket {options.unix}, {options.prefix.rstrip('/')}/v1"
    scheme = "https" if options.tls_cert else "http"
    host = f"[{options.host}]" if ":" in options.host else options.host
    return f"{scheme}://{host}:{listener.getsockname()[1]}{options.prefix.rstrip('/')}/v1"
