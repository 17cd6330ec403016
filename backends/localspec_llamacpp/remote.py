"""Workers: RPC servers of llama.cpp, whose devices are used from here.

llama.cpp ends the process where a worker does not answer, and waits for ever where it serves
another client. So each is spoken to before llama.cpp does it.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

import psutil

from localspec.base.errors import DeviceError
from localspec.interfaces.other_machines import WORKERS
from localspec_llamacpp import ggml

PATIENCE_SECONDS, LOOK_SECONDS = 2.0, 0.1  # for a worker to answer, and between two looks
TRYING_SECONDS = 20.0
# Seconds until a silent link is spoken to, and between two attempts; how many; and milliseconds
# until what was sent must have arrived.
SILENCE = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": 4000}
QUIET = {"GGML_NO_BACKTRACE": "1"}
HELLO = struct.pack("<BQ24x", 14, 24)  # the first message of llama.cpp's protocol
ANSWER = struct.Struct("<QBBB25x")  # to it: its length, then the version
# Connects as llama.cpp would, which ends the process where versions differ.
TRY = """
import ctypes, os, sys
if sys.platform == "win32":
    os.add_dll_directory(os.path.dirname(sys.argv[1]))
remote = ctypes.CDLL(sys.argv[1])
remote.ggml_backend_rpc_add_server.restype = ctypes.c_void_p
sys.exit(not remote.ggml_backend_rpc_add_server(sys.argv[2].encode()))
"""


class Look(NamedTuple):
    """The outcome of speaking to a worker."""

    version: str = ""  # of its protocol
    fault: str = ""
    later: bool = False  # whether it may answer later


CONNECTED: set[str] = set()  # workers that this process has connected to


def endpoints() -> list[str]:
    """List the workers that are to be used."""
    named = os.environ.get(WORKERS, "").split(",")
    return list(dict.fromkeys(endpoint.strip() for endpoint in named if endpoint.strip()))


def connect() -> None:
    """Let llama.cpp see the devices of all workers; `DeviceError` where one does not answer.

    Each is spoken to every time: llama.cpp ends the process where a worker has just died.
    """
    for endpoint in endpoints():
        if endpoint not in CONNECTED:
            _add(endpoint)
            CONNECTED.add(endpoint)
        elif not held(endpoint):
            require_answer(endpoint)


def _add(endpoint: str) -> None:
    rpc(f"{WORKERS} names {endpoint}")
    require_same_protocol(endpoint, require_answer(endpoint))
    server = endpoint.encode()
    registry = ggml.pointer("ggml_backend_rpc_add_server", server, origin="ggml-rpc")
    if not registry:
        raise DeviceError(f"the worker {endpoint} has no devices")
    ggml.call("ggml_backend_register", None, registry, origin="ggml")


def rpc(reason: str) -> ctypes.CDLL:
    """Load what speaks to workers; `reason` says what it is needed for."""
    try:
        return ggml.library("ggml-rpc")
    except (OSError, RuntimeError, FileNotFoundError) as error:
        raise DeviceError(
            f"{reason}, but this build of llama.cpp has no workers: `localspec doctor --fix` "
            "builds one that has"
        ) from error


def require_answer(endpoint: str) -> str:
    """Shake hands as llama.cpp does; return the version of the worker's protocol.

    `DeviceError` if it does not answer within `PATIENCE_SECONDS`.
    """
    end = time.monotonic() + PATIENCE_SECONDS
    while True:
        answer = look(endpoint, max(end - time.monotonic(), LOOK_SECONDS))
        if not answer.fault:
            return answer.version
        if not answer.later or time.monotonic() >= end:
            break
        time.sleep(LOOK_SECONDS)
    raise DeviceError(
        f"the worker {endpoint} does not answer: {answer.fault}; or leave it out of --workers "
        f"({WORKERS})"
    )


def look(endpoint: str, seconds: float) -> Look:
    """Speak to a worker."""
    host, _, port = endpoint.rpartition(":")
    try:
        link = socket.create_connection((host, int(port)), seconds)
    except (OSError, ValueError) as error:
        return Look(fault=f"{error}: start `localspec worker` there", later=True)
    with link:
        try:
            link.sendall(HELLO)
            answer = received(link)
        except TimeoutError:
            return Look(fault="it serves another client, and one at a time: end that", later=True)
        except OSError as error:
            return Look(fault=f"{error}: start it anew", later=True)
    if not answer:
        return Look(fault="it hung up: start it anew", later=True)
    if len(answer) < ANSWER.size or ANSWER.unpack(answer)[0] != ANSWER.size - 8:
        return Look(fault="it is no RPC server of llama.cpp, or of a very different version")
    return Look(".".join(map(str, ANSWER.unpack(answer)[1:])))


def received(link: socket.socket) -> bytes:
    answer = b""
    while len(answer) < ANSWER.size and (more := link.recv(ANSWER.size - len(answer))):
        answer += more
    return answer


def require_same_protocol(endpoint: str, version: str) -> None:
    """Let llama.cpp connect in another process, which it ends where versions differ."""
    command = [sys.executable, "-S", "-c", TRY, os.fspath(library_file()), endpoint]
    try:
        tried = subprocess.run(
            command, capture_output=True, timeout=TRYING_SECONDS, env=os.environ | QUIET
        )
    except subprocess.TimeoutExpired:
        raise DeviceError(
            f"the worker {endpoint} does not answer: another client took it"
        ) from None
    if tried.returncode < 0 or tried.returncode > 1:
        raise DeviceError(
            f"the worker {endpoint} speaks version {version} of llama.cpp's RPC protocol, and this "
            "llama.cpp another one: install the same llama-cpp-python on both machines"
        )


def library_file() -> Path:
    """Find the file of what speaks to workers."""
    return Path(rpc("")._name)


def held(endpoint: str) -> bool:
    """Return whether this process is connected to a worker: then that serves nobody else."""
    return bool(sockets(endpoint))


def sockets(endpoint: str) -> list[int]:
    """List the sockets by which this process is connected to a worker."""
    host, _, port = endpoint.rpartition(":")
    with suppress(OSError, psutil.Error):
        address = (socket.gethostbyname(host), int(port))
        own = psutil.Process().net_connections("tcp4")
        open_ones = [link for link in own if link.status == psutil.CONN_ESTABLISHED]
        return [link.fd for link in open_ones if link.raddr == address]
    return []


def end_silence() -> None:
    """Have the system give up a link whose other end is gone without a word.

    llama.cpp would wait for ever. A worker that takes long is not meant: its system answers.
    """
    if sys.platform == "win32":
        return
    for number in [number for endpoint in endpoints() for number in sockets(endpoint)]:
        with socket.socket(fileno=os.dup(number)) as link:
            link.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
            for name, value in SILENCE.items():
                if hasattr(socket, name):  # the system has it
                    link.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
