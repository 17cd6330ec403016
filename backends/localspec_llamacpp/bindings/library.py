"""The library itself: file types and build features."""

from __future__ import annotations

import ctypes
from importlib import import_module
from typing import Any

import llama_cpp.llama_cpp as lib

from localspec_llamacpp.bindings import products

FILE_TYPES = {
    number: name.removeprefix("LLAMA_FTYPE_").removeprefix("MOSTLY_").removeprefix("ALL_")
    for name, number in vars(lib).items()
    if name.startswith("LLAMA_FTYPE_") and name != "LLAMA_FTYPE_GUESSED"
}
POOLINGS = {
    lib.LLAMA_POOLING_TYPE_MEAN: "mean",
    lib.LLAMA_POOLING_TYPE_CLS: "cls",
    lib.LLAMA_POOLING_TYPE_LAST: "last",
    lib.LLAMA_POOLING_TYPE_RANK: "rank",
}


def features() -> tuple[str, ...]:
    """List the features of this build, as llama.cpp names them, by part."""
    info = lib.llama_print_system_info().decode("utf-8", "replace")
    words = (part.rpartition(":") for part in info.split("|"))
    names = []
    for part, _, word in words:
        name, _, value = word.partition("=")
        names += [part.strip()] if part.strip() else []
        names += [name.strip()] if value.strip() == "1" else []
    return (*names, *products.features())


def pictures_library() -> Any:
    """Load libmtmd, by which models take pictures; None where this build lacks it."""
    try:
        return import_module("llama_cpp.mtmd_cpp")
    except (ImportError, OSError, RuntimeError, AttributeError):
        return None


def lacks_for_pictures() -> str:
    """Say what the installed llama.cpp lacks for projectors."""
    return "" if pictures_library() else "llama.cpp was built without mtmd"


def system_number(name: bytes) -> int | None:
    """Read a number that the kernel of macOS knows by name."""
    value, size = ctypes.c_int64(), ctypes.c_size_t(8)
    library = ctypes.CDLL(None)
    failed = library.sysctlbyname(name, ctypes.byref(value), ctypes.byref(size), None, 0)
    return None if failed else int(value.value)
