"""A library that loads is tried: one that was built for another processor dies in a product."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from localspec_build.target import Target
from localspec_build.trial import trial

# A library of another processor: it loads, tells its backends, and dies when it computes.
FOREIGN = """#include <signal.h>
void *ggml_init(void) { return 0; }
void *ggml_new_graph(void) { return 0; }
void *ggml_new_tensor_2d(void) { return 0; }
void *ggml_mul_mat(void) { return 0; }
void *ggml_backend_init_by_type(void) { return 0; }
void *ggml_backend_alloc_ctx_tensors(void) { return 0; }
void ggml_build_forward_expand(void) {}
int ggml_backend_graph_compute(void) { return RESULT; }
unsigned long ggml_backend_reg_count(void) { return 1; }
void *ggml_backend_reg_get(void) { return 0; }
const char *ggml_backend_reg_name(void) { return "CPU"; }
"""


def library(folder: Path, result: str) -> Target:
    """Compile a library whose products are this result, as a package of an environment."""
    place = folder / "llama_cpp" / "lib"
    place.mkdir(parents=True)
    (place.parent / "__init__.py").touch()
    (folder / "foreign.c").write_text(FOREIGN.replace("RESULT", result))
    made = place / "libllama.so"
    compiler = ("cc", "-shared", "-fPIC", "-o", str(made), str(folder / "foreign.c"))
    subprocess.run(compiler, check=True)
    for name in ("libggml.so", "libggml-base.so"):
        shutil.copy(made, place / name)
    return Target(sys.executable, folder, "")


@pytest.mark.skipif(sys.platform == "win32", reason="its compiler has other options")
@pytest.mark.parametrize(
    ("result", "tried"),
    [
        ("0", (("CPU",), "")),
        ("1", ((), "it cannot compute")),
        ("(raise(SIGILL), 0)", ((), "it has instructions that this processor lacks")),
    ],
)
def test_a_library_that_loads_and_cannot_compute_is_found_out(tmp_path, result, tried):
    assert trial(library(tmp_path, result)) == tried


def test_the_library_that_is_installed_loads_computes_and_names_its_backends():
    tried = trial(Target(sys.executable, Path(sys.prefix), ""))
    assert "CPU" in tried.names
    assert tried.fault == ""
