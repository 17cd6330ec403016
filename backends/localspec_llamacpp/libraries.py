"""CUDA's libraries for a build by llama-cpp-python's makers, loaded before llama.cpp.

Such a build brings none, and looks for them where the system has them. Those of the package index
lie in a folder that no system knows.
"""

from __future__ import annotations

import ctypes
import sys
from pathlib import Path

from localspec_build import cuda_toolkit, records

made = records.installed(Path(sys.prefix))
for library in cuda_toolkit.libraries(Path(made.libraries)) if made and made.libraries else ():
    ctypes.CDLL(str(library), mode=ctypes.RTLD_GLOBAL)
