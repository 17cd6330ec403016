"""The library itself: file types, build features, and quantisation."""

from __future__ import annotations

import ctypes
import os
from importlib import import_module
from pathlib import Path

import llama_cpp.llama_cpp as lib

from localspec.errors import BackendError
from localspec_llamacpp.bindings.log import LOG

FILE_TYPES = {
    number: name.removeprefix("LLAMA_FTYPE_").removeprefix("MOSTLY_").removeprefix("ALL_")
    for name, number in vars(lib).items()
    if name.startswith("LLAMA_FTYPE_") and name != "LLAMA_FTYPE_GUESSED"
}


def requantise(source: Path, target: Path, kind: str) -> None:
    """Write a copy of a model in another precision; quantised weights lose a little more."""
    params = lib.llama_model_quantize_default_params()
    params.ftype = next(number for number, name in FILE_TYPES.items() if name == kind.upper())
    params.allow_requantize = True
    LOG.take_errors()
    if lib.llama_model_quantize(os.fsencode(source), os.fsencode(target), params):
        raise BackendError(f"llama.cpp could not write {target.name}: {LOG.take_errors()}")


def features() -> tuple[str, ...]:
    """List the features of this build, as llama.cpp names them, by part."""
    info = lib.llama_print_system_info().decode("utf-8", "replace")
    words = (part.rpartition(":") for part in info.split("|"))
    names = []
    for part, _, word in words:
        name, _, value = word.partition("=")
        names += [part.strip()] if part.strip() else []
        names += [name.strip()] if value.strip() == "1" else []
    return tuple(names)


def has_pictures() -> bool:
    """Whether this build has libmtmd, by which models take pictures."""
    try:
        import_module("llama_cpp.mtmd_cpp")
    except (ImportError, OSError, RuntimeError, AttributeError):
        return False
    return True


def system_number(name: bytes) -> int | None:
    """Read a number that the kernel of macOS knows by name."""
    value, size = ctypes.c_int64(), ctypes.c_size_t(8)
    library = ctypes.CDLL(None)
    failed = library.sysctlbyname(name, ctypes.byref(value), ctypes.byref(size), None, 0)
    return None if failed else int(value.value)
