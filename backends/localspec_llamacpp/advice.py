"""Advise on a faster build of llama.cpp: features of this machine that it was not built for."""

from __future__ import annotations

import os
import platform
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

from localspec.interfaces.backend_spec import Finding
from localspec_build import kernels, records
from localspec_build.choice import general
from localspec_build.machine import NO_FP16, Tools, has_compiler
from localspec_build.pip import compiler_advice
from localspec_build.records import CUSTOM, Installed
from localspec_llamacpp.building import BACKENDS

WSL = "/usr/lib/wsl/lib/libcuda.so.1"  # the driver of Windows, which makes no device node
# What shows that a kind of GPU is there, and the backend of llama.cpp that is for it.
GPUS = (
    ("an NVIDIA GPU", ("/dev/nvidia0", "/proc/driver/nvidia/version", WSL), "CUDA"),
    ("an AMD GPU", ("/dev/kfd",), "ROCm"),
)
FAST = {"x86_64": ("AVX2", "AVX512"), "AMD64": ("AVX2",), "aarch64": ("NEON", "DOTPROD")}
ROWS = ("flags", "Features")  # of /proc/cpuinfo
FLAGS = {"AVX2": "avx2", "AVX512": "avx512f", "NEON": "asimd", "DOTPROD": "asimddp"}


def advise(
    features: Sequence[str],
    root: Path = Path("/"),
    prefix: Path = Path(sys.prefix),
    products: str | None = None,
) -> Iterator[Finding]:
    """Advise on a build; `products` is the version of LocalSpec's own, that of this one if None."""
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
    newest = kernels.current() if products is None else products
    if made and general(made):
        without_products = (kernels.FEATURE,) if newest else ()
        yield of_general_build([*lacking, *without_products])
    elif lacking:
        state = f"the processor has {', '.join(lacking)}, but llama.cpp was built without"
        yield Finding("cpu", state, f"localspec doctor --rebuild {kind} --build")
    elif newest:
        yield from of_products(features, made, kind, newest)
    chosen = made is not None and (made.kind == CUSTOM or NO_FP16 in " ".join(made.cmake))
    if "avx512_fp16" in flags and "AVX512" in features and not chosen:
        state = "llama.cpp was built with AVX512-FP16: attention is slow where heads are of 64"
        yield Finding("cpu", state, f"localspec doctor --rebuild {kind}")


def of_products(
    features: Sequence[str], made: Installed | None, kind: str, newest: str
) -> Iterator[Finding]:
    """Describe what a build lacks of LocalSpec's products, and how to get them."""
    present = any(feature.startswith(kernels.FEATURE) for feature in features)
    tried = made is not None and made.products == newest
    if present and (tried or made is None):
        return
    state = f"llama.cpp was built without {kernels.FEATURE}"
    if present:
        state = f"llama.cpp was built with {kernels.FEATURE} of another version"
    if tried:
        yield Finding("", f"{state}: they did not compile, or its options leave no place for them")
    elif kind in ("cpu", CUSTOM):
        fix = with_compiler("localspec doctor --fix")
        yield Finding("cpu", f"{state}, by which a processor is faster", fix)
    else:
        way = f"localspec doctor --rebuild {kind} --build"
        yield Finding("", f"{state}; for what the processor computes beside a card: {way}")


def with_compiler(fix: str) -> str:
    """Say first how to get a compiler, where there is none."""
    return fix if has_compiler(Tools(os.environ)) else f"{compiler_advice()}; then {fix}"


def of_general_build(lacking: Sequence[str]) -> Finding:
    """Describe what the makers' build for processors of many kinds leaves out."""
    without = ", ".join((*lacking, "workers"))
    state = f"llama.cpp is a build for processors of many kinds, without {without}"
    return Finding("cpu", state, with_compiler("localspec doctor --fix"))


def cpu_flags(root: Path) -> set[str]:
    try:
        text = (root / "proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return set()
    rows = (line.partition(":") for line in text.splitlines())
    return {flag for name, _, flags in rows if name.strip() in ROWS for flag in flags.split()}
