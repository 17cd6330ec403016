"""Advise on a faster build of llama.cpp: features of this machine that it was not built for."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from pathlib import Path

from localspec.backend_spec import Finding

REBUILD = "pip install --force-reinstall --no-cache-dir --no-deps llama-cpp-python"
# What tells that a kind of GPU is there, and how llama.cpp is built for it.
GPUS = (
    ("an NVIDIA GPU", ("/dev/nvidia0", "/proc/driver/nvidia/version"), "CUDA", "-DGGML_CUDA=on"),
    ("an AMD GPU", ("/dev/kfd",), "HIP", "-DGGML_HIP=on"),
)
FAST = {"x86_64": ("AVX2", "AVX512"), "AMD64": ("AVX2",), "aarch64": ("NEON", "DOTPROD")}
ROWS = ("flags", "Features")  # of /proc/cpuinfo
FLAGS = {"AVX2": "avx2", "AVX512": "avx512f", "NEON": "asimd", "DOTPROD": "asimddp"}


def advise(features: Sequence[str], root: Path = Path("/")) -> Iterator[Finding]:
    for name, signs, feature, flag in GPUS:
        there = any((root / sign.lstrip("/")).exists() for sign in signs)
        if there and feature not in features and "Vulkan" not in features:
            state = f"{name} is here, but llama.cpp was built without {feature}"
            yield Finding("gpu", state, f"CMAKE_ARGS={flag} {REBUILD}")
    flags = cpu_flags(root)
    lacking = [
        name
        for name in FAST.get(platform.machine(), ())
        if FLAGS[name] in flags and name not in features
    ]
    if lacking:
        state = f"the processor has {', '.join(lacking)}, but llama.cpp was built without"
        yield Finding("cpu", state, f"CMAKE_ARGS=-DGGML_NATIVE=on {REBUILD}")


def cpu_flags(root: Path) -> set[str]:
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    rows = (line.partition(":") for line in text.splitlines())
    return {flag for name, _, rest in rows if name.strip() in ROWS for flag in rest.split()}
