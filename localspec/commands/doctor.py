"""The command `localspec doctor`: what is installed here, and what would make it faster."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import click

from localspec.backend import Build
from localspec.errors import BackendError
from localspec.memory.machine import Machine, size
from localspec.models.engines import backend
from localspec.models.entry import ENGINES, Engine
from localspec.system import folders, free_memory

SCANT = 5 << 30  # bytes of disk, with which few models can be had
LITTLE = 4 << 30  # bytes of memory, in which only small models fit
REBUILD = "pip install --force-reinstall --no-cache-dir --no-deps llama-cpp-python"
# What tells that a kind of GPU is there, and how llama.cpp is built for it.
GPUS = (
    ("an NVIDIA GPU", ("/dev/nvidia0", "/proc/driver/nvidia/version"), "CUDA", "-DGGML_CUDA=on"),
    ("an AMD GPU", ("/dev/kfd",), "HIP", "-DGGML_HIP=on"),
)
FAST = {"x86_64": ("AVX2", "AVX512"), "AMD64": ("AVX2",), "aarch64": ("NEON", "DOTPROD")}
ROWS = ("flags", "Features")  # of /proc/cpuinfo
FLAGS = {"AVX2": "avx2", "AVX512": "avx512f", "NEON": "asimd", "DOTPROD": "asimddp"}


@dataclass(frozen=True, slots=True)
class Finding:
    """What was found, and what to do about it; nothing where all is well."""

    subject: str
    state: str
    step: str = ""


@click.command()
def doctor() -> None:
    """Look at engines, devices, memory and disk, and tell what to do for more speed."""
    steps = 0
    for finding in findings():
        click.echo(f"{finding.subject:<10} {finding.state}")
        if finding.step:
            steps += 1
            click.echo(f"{'':<10} -> {finding.step}")
    click.echo(f"\n{steps or 'no'} suggestion{'' if steps == 1 else 's'}")


def findings() -> Iterator[Finding]:
    yield from program()
    builds: dict[Engine, Build] = {}
    for engine in ENGINES:
        try:
            builds[engine] = backend(engine).build()
        except BackendError as error:
            if engine == "mlx" and not apple_silicon():
                yield Finding(engine, "not installed; it is for Apple silicon")
            else:
                yield Finding(engine, "cannot be used", str(error))
            continue
        build = builds[engine]
        yield Finding(engine, f"{build.version}: {', '.join(build.features) or 'no features'}")
        yield from devices(engine)
    if "llamacpp" in builds:
        yield from missing(builds["llamacpp"].features, Path("/"))
    yield from memory()
    yield from disk(folders.cache())


def program() -> Iterator[Finding]:
    system = f"{platform.system()} {platform.release()}, {platform.machine()}"
    state = f"{version('localspec')}, Python {platform.python_version()}, {system}"
    step = ""
    if sys.platform == "darwin" and platform.machine() == "x86_64" and "ARM" in platform.version():
        step = "this Python is for Intel and runs translated: install one for Apple silicon"
    yield Finding("localspec", state, step)


def apple_silicon() -> bool:
    return sys.platform == "darwin" and platform.machine() == "arm64"


def devices(engine: Engine) -> Iterator[Finding]:
    for device in backend(engine).probe():
        free = f"{size(device.free_bytes)} free of {size(device.total_bytes)}"
        yield Finding("", f"{device.kind}: {device.name}, {free}")


def missing(features: tuple[str, ...], root: Path) -> Iterator[Finding]:
    """What this machine has and llama.cpp was not built for."""
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


def memory() -> Iterator[Finding]:
    found = Machine.of(free_memory.memory(), []).host
    state = f"{size(found.free)} free of {size(found.total)}; {size(found.reserve)} stay free"
    step = "close other programs, or choose a small model" if found.room < LITTLE else ""
    yield Finding("memory", state, step)


def disk(folder: Path) -> Iterator[Finding]:
    there = next(each for each in (folder, *folder.parents) if each.exists())
    free = shutil.disk_usage(there).free
    writable = os.access(there, os.W_OK)
    state = f"{size(free)} free under {folder}" + ("" if writable else ", which cannot be written")
    step = "make room, or set XDG_CACHE_HOME to a larger disk" if free < SCANT else ""
    step = step or ("" if writable else "give yourself the right to write there")
    yield Finding("disk", state, step)
