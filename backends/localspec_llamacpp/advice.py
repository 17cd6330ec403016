"""Advise on a faster build of llama.cpp: features of this machine that it was not built for."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from localspec.backend_spec import Finding
from localspec_build import records
from localspec_build.choice import general
from localspec_build.machine import NO_FP16, Tools, has_compiler
from localspec_build.pip import compiler_advice
from localspec_build.records import CUSTOM
from localspec_llamacpp.building import BACKENDS

WSL = "/usr/lib/wsl/lib/libcuda.so.1"  # the driver of Windows, which makes no device node
# What tells that a kind of GPU is there, and the backend of llama.cpp that is for it.
GPUS = (
    ("an NVIDIA GPU", ("/dev/nvidia0", "/proc/driver/nvidia/version", WSL), "CUDA"),
    ("an AMD GPU", ("/dev/kfd",), "ROCm"),
)
FAST = {"x86_64": ("AVX2", "AVX512"), "AMD64": ("AVX2",), "aarch64": ("NEON", "DOTPROD")}
ROWS = ("flags", "Features")  # of /proc/cpuinfo
FLAGS = {"AVX2": "avx2", "AVX512": "avx512f", "NEON": "asimd", "DOTPROD": "asimddp"}


def advise(
    features: Sequence[str], root: Path = Path("/"), prefix: Path = Path(sys.prefix)
) -> Iterator[Finding]:
    if made := records.installed(prefix):
        yield Finding("", f"built for {made.kind} ({made.because}), {made.source}")
    for name, signs, feature in GPUS:
        present = any((root / sign.lstrip("/")).exists() for sign in signs)
        if present and feature not in features and "Vulkan" not in features:
            state = f"{name} is here, but llama.cpp was built without {feature}"
            yield Finding("gpu", state, "localspec doctor --fix")
    for_gpus = [kind for feature, kind in BACKENDS.items() if feature in features]
    flags, kind = cpu_flags(root), made.kind if made else [*for_gpus, "cpu"][0]
    lacking = [
        name
        for name in FAST.get(platform.machine(), ())
        if FLAGS[name] in flags and name not in features
    ]
    if made and general(made):
        yield of_general_build(lacking)
    elif lacking:
        state = f"the processor has {', '.join(lacking)}, but llama.cpp was built without"
        yield Finding("cpu", state, f"localspec doctor --rebuild {kind} --build")
    chosen = made is not None and (made.kind == CUSTOM or NO_FP16 in " ".join(made.cmake))
    if "avx512_fp16" in flags and "AVX512" in features and not chosen:
        state = "llama.cpp was built with AVX512-FP16: attention is slow where heads are of 64"
        yield Finding("cpu", state, f"localspec doctor --rebuild {kind}")


def of_general_build(lacking: Sequence[str]) -> Finding:
    """Describe what the makers' build for processors of many kinds leaves out."""
    without = ", ".join((*lacking, "workers"))
    state = f"llama.cpp is a build for processors of many kinds, without {without}"
    fix = "localspec doctor --fix"
    compiler = has_compiler(Tools(os.environ))
    return Finding("cpu", state, fix if compiler else f"{compiler_advice()}; then {fix}")


def cpu_flags(root: Path) -> set[str]:
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    rows = (line.partition(":") for line in text.splitlines())
    return {flag for name, _, flags in rows if name.strip() in ROWS for flag in flags.split()}
