"""llama.cpp's log: errors, and the sizes of buffers and caches that it reports nowhere else."""

from __future__ import annotations

import ctypes
import os
import re
import sys
from contextlib import suppress
from typing import NamedTuple

import llama_cpp.llama_cpp as lib

from localspec.base.errors import BackendError, OutOfMemory
from localspec_llamacpp import ggml

_ERROR, _CONTINUED = 4, 5  # levels of the log
CACHE = re.compile(
    r"llama_(?P<kind>kv_cache|memory_recurrent): size = +(?P<mib>[\d.]+) MiB"
    r" \( *(?P<cells>\d+) cells, "
)
ASSIGNED = re.compile(r"load_tensors: layer +\d+ assigned to device (?P<device>\S+),")
CACHED = re.compile(r"llama_(?:kv_cache:|memory_recurrent,) layer +\d+: dev = (?P<device>\S+)")
SIZE = re.compile(r"\w+: +(?:(?P<where>\S+) +(?P<kind>\w+) buffer )?size = +(?P<mib>[\d.]+) MiB")
WARMED_UP = re.compile(r"\w+: warmup with image size = (?P<side>\d+) x")  # of a projector
PLACE = re.compile(r"^.*?[/\\](?=[^/\\]+:\d+: )")  # where it was built, before file and line
BLIND = re.compile(r"ggml_\w+_init: (failed to initialize .+)")  # by a driver, for good
UNLOCKED = b"failed to mlock"
SHORTAGE = re.compile(r"failed to allocate|unable to allocate|out of memory|bad_alloc", re.I)


class BufferSize(NamedTuple):
    """The size of a buffer, as llama.cpp logs it."""

    where: str  # a device, or empty: all together
    kind: str  # "model", "KV", "RS", "compute", "output", or empty: keys, values or states
    bytes: int


class CacheSize(NamedTuple):
    """One cache of a context, as llama.cpp logs it."""

    recurrent: bool
    bytes: int
    cells: int
    layers: tuple[str, ...]  # the devices of its layers


class Log:
    """Receives llama.cpp's log: passes it to stderr when asked for, else keeps its errors."""

    def __init__(self) -> None:
        self.verbose = False
        self.blind = ""  # why a driver shows no devices
        self.unlocked = False  # whether weights that were to stay in memory may leave it
        self._errors: list[str] = []
        self._sizes: list[BufferSize] = []
        self._caches: list[CacheSize] = []
        self.warmed_up = 0  # pixels of a side, of the picture that a projector's buffers are for
        self._assigned: list[str] = []
        self._cached: list[str] = []
        self._level = 0
        self.callback = lib.llama_log_callback(self._note)
        self.last = ctypes.CFUNCTYPE(None, ctypes.c_char_p)(self._last)

    def _note(self, level: int, text: bytes, _: ctypes.c_void_p) -> None:
        self._level = level if level != _CONTINUED else self._level
        if self.verbose:
            sys.stderr.write(text.decode("utf-8", "replace"))
        if UNLOCKED in text:
            self.unlocked = True
        if self._level == _ERROR:
            self._note_error(" ".join(text.decode("utf-8", "replace").split()))
        elif b"size = " in text:
            self._note_size(text.decode("utf-8", "replace"))
        elif b"layer " in text:
            self._note_layer(text.decode("utf-8", "replace"))

    def _note_error(self, line: str) -> None:
        self._errors.append(line)
        if match := BLIND.match(line):
            self.blind = match[1]

    def _note_size(self, line: str) -> None:
        if match := SIZE.match(line):
            size = int(float(match["mib"]) * 2**20)
            self._sizes.append(BufferSize(match["where"] or "", match["kind"] or "", size))
        if match := WARMED_UP.match(line):
            self.warmed_up = int(match["side"])
        if match := CACHE.match(line):
            recurrent = match["kind"] == "memory_recurrent"
            layers, self._cached = tuple(self._cached), []
            self._caches.append(CacheSize(recurrent, size, int(match["cells"]), layers))

    def _note_layer(self, line: str) -> None:
        if match := ASSIGNED.match(line):
            self._assigned.append(match["device"])
        elif match := CACHED.match(line):
            self._cached.append(match["device"])

    def _last(self, message: bytes) -> None:
        """Say in one line why llama.cpp ends the process, in place of its trace of calls."""
        self._errors.append(PLACE.sub("", message.decode("utf-8", "replace").strip()))
        os.write(2, f"llama.cpp: {self.take_errors()}\n".encode())

    def take_errors(self) -> str:
        """Return the errors since the last call, in one line."""
        errors = "; ".join(dict.fromkeys(filter(None, self._errors)))
        self._errors.clear()
        return errors or "no reason given"

    def forget_errors(self) -> None:
        self._errors.clear()

    def take_sizes(self) -> list[BufferSize]:
        """Return the buffers that were logged since the last call."""
        sizes, self._sizes = self._sizes, []
        return sizes

    def take_caches(self) -> list[CacheSize]:
        """Return the caches that were laid out since the last call."""
        caches, self._caches = self._caches, []
        return caches

    def take_layers(self) -> tuple[str, ...]:
        """Return the devices of a model's layers, the output's last, as logged since then."""
        layers, self._assigned = tuple(self._assigned), []
        return layers

    def failure(self, failed: str) -> BackendError:
        """Make an error of what llama.cpp could not do, and its reason."""
        why = self.take_errors()
        return (OutOfMemory if SHORTAGE.search(why) else BackendError)(f"{failed}: {why}")


LOG = Log()
lib.llama_log_set(LOG.callback, ctypes.c_void_p(0))
for _origin in (lib._lib, ggml.library("ggml-base")):  # which may hold another copy of ggml
    with suppress(AttributeError):
        _origin["ggml_set_abort_callback"](LOG.last)
lib.llama_backend_init()
