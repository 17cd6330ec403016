"""CUDA's libraries for a build by llama-cpp-python's makers, loaded before llama.cpp.

Such a build brings none, and looks for them where the system has them. Those of the package index
lie in a folder that no system knows.
"""

from __future__ import annotations

import ctypes
from contextlib import suppress
from pathlib import Path

from localspec_build import cuda_toolkit, records


def load(prefix: Path) -> list[str]:
    """Load the libraries that an environment's build was installed with; name them."""
    made = records.installed(prefix)
    loaded = []
    for library in cuda_toolkit.libraries(Path(made.libraries)) if made and made.libraries else ():
        with suppress(OSError):  # llama.cpp will say what it misses
            ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
            loaded.append(library.name)
    return loaded
