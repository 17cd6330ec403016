"""Try the llama.cpp of an environment in a process of its own: load it, and let it compute."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path
from typing import NamedTuple

from localspec_build import cuda_toolkit
from localspec_build.target import Target

# Loads the library of an environment, after the files that are its arguments. One product by
# weights of each common type runs on the processor: a library that was built for another one loads
# well and dies there. Prints the backends of the library.
TRIAL = """
import ctypes, importlib.util, os, pathlib, sys
for each in sys.argv[1:]:
    ctypes.CDLL(each, mode=ctypes.RTLD_GLOBAL)
package = pathlib.Path(importlib.util.find_spec("llama_cpp").origin).parent
folder = pathlib.Path(os.environ.get("LLAMA_CPP_LIB_PATH") or package / "lib")
if sys.platform == "win32":
    os.environ["PATH"] = f"{folder};{os.environ['PATH']}"
def load(name):
    files = [folder / each for each in (f"lib{name}.so", f"lib{name}.dylib", f"{name}.dll")]
    return ctypes.CDLL(str(next(file for file in files if file.exists())))
load("llama")
ggml, base = load("ggml"), load("ggml-base")
def call(library, name, *arguments):
    function = getattr(library, name)
    function.restype = ctypes.c_void_p
    return ctypes.c_void_p(function(*arguments))
class Parameters(ctypes.Structure):
    _fields_ = [("size", ctypes.c_size_t), ("at", ctypes.c_void_p), ("bare", ctypes.c_bool)]
def matrix(kind, rows):
    sizes = (ctypes.c_int64(256), ctypes.c_int64(rows))
    return call(base, "ggml_new_tensor_2d", context, kind, *sizes)
context = call(base, "ggml_init", Parameters(1 << 20, None, True))
graph = call(base, "ggml_new_graph", context)
F32, WEIGHTS = 0, (1, 2, 8, 12, 14, 30)  # F16, Q4_0, Q8_0, Q4_K, Q6_K, BF16
for kind in WEIGHTS:
    product = call(base, "ggml_mul_mat", context, matrix(kind, 16), matrix(F32, 2))
    base.ggml_build_forward_expand(graph, product)
processor = call(ggml, "ggml_backend_init_by_type", 0, None)
call(base, "ggml_backend_alloc_ctx_tensors", context, processor)
if base.ggml_backend_graph_compute(processor, graph):
    sys.exit("it cannot compute")
ggml.ggml_backend_reg_get.restype = ctypes.c_void_p
ggml.ggml_backend_reg_name.restype = ctypes.c_char_p
ggml.ggml_backend_reg_name.argtypes = [ctypes.c_void_p]
for at in range(ggml.ggml_backend_reg_count()):
    print(ggml.ggml_backend_reg_name(ggml.ggml_backend_reg_get(at)).decode())
"""


class Tried(NamedTuple):
    """The backends of a library that works, or the reason why it does not."""

    names: tuple[str, ...]
    fault: str = ""


def trial(target: Target, libraries: str = "") -> Tried:
    """Load the library of an environment and compute with it, in a process of its own."""
    before = map(str, cuda_toolkit.libraries(Path(libraries))) if libraries else ()
    command = [target.python, "-c", TRIAL, *before]
    done = subprocess.run(command, capture_output=True, check=False, cwd=target.prefix)
    if not done.returncode:
        return Tried(tuple(done.stdout.decode().split()))
    if done.returncode == -signal.SIGILL:
        return Tried((), "it has instructions that this processor lacks")
    lines = done.stderr.decode(errors="replace").strip().splitlines()
    return Tried((), lines[-1] if lines else f"exit code {done.returncode}")
