"""LocalSpec's own matrix products for processors: sources that are compiled into llama.cpp.

`products.cmake` adds them to llama.cpp's library.
"""

from __future__ import annotations

import hashlib
import platform
import re
from pathlib import Path

FOLDER = Path(__file__).resolve().parent.parent / "localspec_llamacpp" / "kernels"
RULES = Path(__file__).with_name("products.cmake")
SUFFIXES = (".cpp", ".h")
PROCESSORS = ("x86_64", "AMD64", "aarch64", "arm64")  # that there are products for
WITHOUT = "-DLOCALSPEC_PRODUCTS=off"
FEATURE = "LocalSpec's products"  # by which a build reports that it has them
# A compiler's words on one of the sources, as llama.cpp of another release may have other headers.
FAULT = re.compile(r"^.*localspec_llamacpp[/\\]kernels[/\\].*\berror\b.*$", re.M)


def version(folder: Path, rules: Path) -> str:
    """Return a short sum of the sources and of how they are compiled; empty: there are none."""
    sources = sorted(path for path in folder.glob("*") if path.suffix in SUFFIXES)
    if not sources:
        return ""
    digest = hashlib.sha256()
    for path in (rules, *sources):
        content = path.read_bytes()
        digest.update(f"{path.name} {len(content)}\n".encode() + content)
    return digest.hexdigest()[:12]


def current() -> str:
    """Return the version of the products for this processor; empty: there are none for it."""
    return version(FOLDER, RULES) if platform.machine() in PROCESSORS else ""


def fault(log: str) -> str:
    """Return the first error that a compiler found in the sources; empty: none."""
    match = FAULT.search(log)
    return match[0].strip() if match else ""
