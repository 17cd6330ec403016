"""Look at this machine: its graphics cards, and what a build for them needs."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from localspec_build import kernels

Version = tuple[int, ...]

ANSWER_SECONDS = 20  # for a tool to answer: a card that sleeps takes some
VENDORS = {"0x10de": "nvidia", "0x1002": "amd", "0x8086": "intel"}  # PCI, as sysfs reports them
CONTROLLERS = "sys/class/drm/card*/device/vendor"
MANAGERS = ("apt-get", "dnf", "pacman", "zypper", "apk", "brew", "winget")
SPIRV = [f"{folder}/cmake/SPIRV-Headers" for folder in ("share", "lib", "lib/*", "lib64")]
LOADERS = ("lib*/libvulkan.so", "Lib/vulkan-1.lib")
OF_SYSTEM = ("lib/*/libvulkan.so",)  # where CMake looks in the system's folders, and in no SDK
HEADERS = (1, 3, 272)  # of Vulkan: the first with the layer settings that llama.cpp names
TOOLKITS = ("usr/local/cuda", "opt/cuda")
FP16, NO_FP16 = "__AVX512FP16__", "-mno-avx512fp16"  # a compiler's macro, and the opposite option
ALLOW = "-allow-unsupported-compiler"  # one newer than a toolkit knows is mostly fine
FAULT = re.compile(r"error|fatal", re.I)
SOFTWARE = re.compile(r"llvmpipe|lavapipe|swiftshader|PHYSICAL_DEVICE_TYPE_CPU", re.I)


@dataclass(frozen=True, slots=True)
class Nvidia:
    """The cards of a driver, and the newest CUDA that it runs."""

    names: tuple[str, ...] = ()
    architectures: tuple[str, ...] = ()  # as 89; empty where the driver does not report them
    cuda: Version = ()
    driver: str = ""  # path of libcuda.so.1, to link with
    fault: str = ""  # the driver's answer, where it is out of order


@dataclass(frozen=True, slots=True)
class Nvcc:
    """An installed compiler for CUDA."""

    path: str
    version: Version
    has_cublas: bool  # which llama.cpp needs, and some installations leave out
    architectures: frozenset[str] = frozenset()  # that it compiles for; empty: it reports none
    libraries: str = ""  # their folder, which the dynamic linker may not know
    fault: str = ""  # what it says of an empty program, where it cannot compile even that


@dataclass(frozen=True, slots=True)
class Rocm:
    """An installed compiler for AMD's cards."""

    folder: str
    version: Version
    has_blas: bool


@dataclass(frozen=True, slots=True)
class Vulkan:
    asked: bool = False  # whether vulkaninfo is here and answers
    devices: tuple[str, ...] = ()  # without those that the processor plays
    lacks: tuple[str, ...] = ()  # of what a build needs
    old_headers: str = ""  # their version, where they are too old


@dataclass(frozen=True, slots=True)
class Machine:
    system: str = sys.platform
    processor: str = platform.machine()
    vendors: frozenset[str] = frozenset()  # of the display controllers
    nvidia: Nvidia | None = None
    nvcc: Nvcc | None = None
    amd: tuple[str, ...] = ()  # targets, as gfx1100
    rocm: Rocm | None = None
    vulkan: Vulkan = Vulkan()
    compiler: bool = True
    cxx_flags: str = ""  # to build with, the user's own included; empty: as CMake has it
    libc: Version = ()  # of glibc
    manager: str = ""  # the program that installs packages here
    program: str = "localspec"  # the command by which this program is called here
    products: str = ""  # LocalSpec's own, for this processor: their version


class Tools:
    """The programs of a PATH, asked with a time limit; one that fails has said nothing."""

    def __init__(self, environment: Mapping[str, str]) -> None:
        self.environment = environment

    def find(self, name: str, *folders: str) -> str:
        places = os.pathsep.join([self.environment.get("PATH", ""), *folders])
        return shutil.which(name, path=places) or ""

    def ask(self, program: str, *arguments: str) -> tuple[str, bool]:
        """Return the whole output of a program, and whether it succeeded."""
        if not program:
            return "", False
        try:
            done = subprocess.run(
                [program, *arguments],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                timeout=ANSWER_SECONDS,
                env=dict(self.environment),
                check=False,
            )
        except (OSError, subprocess.SubprocessError):
            return "", False
        return done.stdout.decode(errors="replace"), done.returncode == 0


def look(
    environment: Mapping[str, str] = os.environ, root: Path = Path("/"), program: str = "localspec"
) -> Machine:
    """Ask drivers and compilers; nothing is installed or changed."""
    tools = Tools(environment)
    vendors = frozenset(
        name
        for controller in root.glob(CONTROLLERS)
        if (name := VENDORS.get(text(controller).strip().lower(), "other"))
    )
    return Machine(
        vendors=vendors,
        nvidia=nvidia(tools),
        nvcc=nvcc(tools, root),
        amd=amd(tools),
        rocm=rocm(tools, root),
        vulkan=vulkan(tools, root),
        compiler=has_compiler(tools),
        cxx_flags=cxx_flags(tools),
        libc=glibc(),
        manager=next((name for name in MANAGERS if tools.find(name)), ""),
        program=program,
        products=kernels.current(),
    )


def nvidia(tools: Tools) -> Nvidia | None:
    """Ask the driver; None where there is none. CUDAARCHS names other cards than those here."""
    wished = re.sub(r"(\d)\.(\d)", r"\1\2", tools.environment.get("CUDAARCHS", ""))  # 8.9 is 89
    asked = tuple(dict.fromkeys(re.findall(r"\d+[a-z]?", wished)))
    program = tools.find("nvidia-smi", "/usr/lib/wsl/lib")
    if not program:
        return Nvidia((), asked) if asked else None
    output, fine = tools.ask(program)
    if not fine:
        return Nvidia(fault=" ".join(output.split())[:200] or "nvidia-smi does not answer")
    rows, fine = tools.ask(program, "--query-gpu=name,compute_cap", "--format=csv,noheader")
    cards = re.findall(r"^(.+?), *(\d+)\.(\d+) *$", rows if fine else "", re.M)
    cuda = re.search(r"CUDA[^|:\n]*: *(\d+)\.(\d+)", output)
    return Nvidia(
        names=tuple(dict.fromkeys(name for name, *_ in cards)),
        architectures=asked or tuple(sorted({major + minor for _, major, minor in cards}, key=int)),
        cuda=version_of(cuda),
        driver=driver(tools),
    )


def driver(tools: Tools) -> str:
    """Find the driver's library, by the list of the dynamic linker."""
    output, _ = tools.ask(tools.find("ldconfig", "/sbin", "/usr/sbin"), "-p")
    libraries = re.findall(r"libcuda\.so\.1 \((.*)\) *=> *(\S+)", output)
    # That of 32 bits is the one without a processor's name.
    return next((path for kind, path in libraries if "," in kind), "")


def nvcc(tools: Tools, root: Path) -> Nvcc | None:
    """Find an installed nvcc, which may be a wrapper of another: it is asked where it belongs."""
    named = [tools.environment.get(name, "") for name in ("CUDA_PATH", "CUDA_HOME")]
    folders = [str(Path(home) / "bin") for home in named if home]
    folders += [str(root / home / "bin") for home in TOOLKITS]
    path = tools.environment.get("CUDACXX") or tools.find("nvcc", *folders)
    output, fine = tools.ask(path, "--version")
    release = re.search(r"release (\d+)\.(\d+)", output)
    if not (fine and release):
        return None
    steps, _ = tools.ask(path, "-v", "nothing")
    top = re.search(r"#\$ TOP=(.+)", steps)
    home = Path(top[1].strip()) if top else Path(path).parent.parent
    headers = (*home.glob("include/cublas_v2.h"), *home.glob("targets/*/include/cublas_v2.h"))
    listed, _ = tools.ask(path, "--list-gpu-arch")
    architectures = frozenset(re.findall(r"compute_(\w+)", listed))
    at = next(home.glob("lib64/libcublas.so.*"), None)
    at = at or next(home.glob("targets/*/lib/libcublas.so.*"), None)
    own = "" if at is None else str(at.parent)
    return Nvcc(path, version_of(release), bool(headers), architectures, own, fault(tools, path))


def fault(tools: Tools, nvcc: str) -> str:
    """Compile an empty program, which fails where the system's headers or C++ do not suit."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "empty.cu")
        source.touch()
        out = ("-c", str(source), "-o", str(source.with_suffix(".o")))
        output, fine = tools.ask(nvcc, "-std=c++17", ALLOW, *host(tools), *out)
    lines = output.strip().splitlines()
    return "" if fine else next((line for line in lines if FAULT.search(line)), "")[:200].strip()


def host(tools: Tools) -> tuple[str, ...]:
    """Name the C++ compiler that the user chose to nvcc."""
    path = tools.find(tools.environment.get("CXX", ""))
    return ("-ccbin", path) if path else ()


def glibc() -> Version:
    """Return the version of the C library; empty where there is another."""
    try:
        name = os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        name = ""
    return version_of(re.search(r"glibc (\d+)\.(\d+)", name))


def amd(tools: Tools) -> tuple[str, ...]:
    output, fine = tools.ask(tools.find("rocminfo", "/opt/rocm/bin"))
    return tuple(dict.fromkeys(re.findall(r"^ *Name: +(gfx\w+)", output, re.M))) if fine else ()


def rocm(tools: Tools, root: Path) -> Rocm | None:
    home = Path(tools.environment.get("ROCM_PATH", root / "opt/rocm"))
    compiler = tools.find("hipcc", str(home / "bin"))
    output, fine = tools.ask(compiler, "--version")
    version = re.search(r"HIP version: *(\d+)\.(\d+)", output)
    if not (fine and version):
        return None
    home = Path(compiler).resolve().parent.parent
    parts = [home / f"include/{name}/{name}.h" for name in ("hipblas", "rocblas")]
    return Rocm(str(home), version_of(version), all(part.exists() for part in parts))


def vulkan(tools: Tools, root: Path) -> Vulkan:
    """Ask for devices, and look for the four things that a build needs."""
    output, fine = tools.ask(tools.find("vulkaninfo"), "--summary")
    blocks = re.split(r"^GPU\d+:", output, flags=re.M)[1:] if fine else []
    real = [block for block in blocks if not SOFTWARE.search(block)]
    names = (re.search(r"deviceName *= *(.+)", block) for block in real)
    sdk = tools.environment.get("VULKAN_SDK", "")
    homes = [Path(sdk)] if sdk else [root / "usr", root / "usr/local"]
    headers = [header_version(home) for home in homes]
    old = ".".join(map(str, max(headers))) if max(headers) < HEADERS else ""
    needs = {
        "glslc": bool(tools.find("glslc", *(str(home / "bin") for home in homes))),
        "Vulkan's headers": max(headers) >= HEADERS,
        "Vulkan's loader": any(has_loader(home, not sdk) for home in homes),
        "the SPIR-V headers": any(any(home.glob(pattern)) for home in homes for pattern in SPIRV),
    }
    lacks = tuple(name for name, present in needs.items() if not present)
    return Vulkan(fine, tuple(name[1].strip() for name in names if name), lacks, old)


def header_version(home: Path) -> Version:
    """Read the version of Vulkan's headers; empty where there are none."""
    content = text(home / "include/vulkan/vulkan_core.h")
    complete = re.search(r"HEADER_VERSION_COMPLETE +VK_MAKE_API_VERSION\(0, (\d+), (\d+)", content)
    patch = re.search(r"#define VK_HEADER_VERSION (\d+)", content)
    return (*version_of(complete), int(patch[1])) if complete and patch else ()


def has_loader(home: Path, of_system: bool) -> bool:
    names = (*LOADERS, *OF_SYSTEM) if of_system else LOADERS
    return any(any(home.glob(name)) for name in names)


def has_compiler(tools: Tools) -> bool:
    """Return whether a C++ compiler is in sight."""
    if sys.platform == "darwin" and "CXX" not in tools.environment:
        output, fine = tools.ask(tools.find("xcode-select"), "-p")
        return fine and bool(output)  # /usr/bin/c++ is there before there is a compiler
    programs = tools.environment.get("PROGRAMFILES(X86)")
    vswhere = f"{programs}/Microsoft Visual Studio/Installer/vswhere.exe"
    find = ("-products", "*", "-find", r"VC\Tools\MSVC\**\cl.exe")
    return any(map(tools.find, compilers(tools))) or bool(tools.ask(vswhere, *find)[0].strip())


def cxx_flags(tools: Tools) -> str:
    """Leave AVX512-FP16 out of C++ where the compiler would use it; keep the user's CXXFLAGS.

    With it llama.cpp takes 128 numbers at once where it takes 64 else, and the rest one by one.
    With heads of 64 that is all: after 4,000 tokens one takes 2.7 times as long.
    """
    if sys.platform == "darwin":  # no Mac has it, and /usr/bin/c++ may ask to be installed
        return ""
    asked = ("-march=native", "-dM", "-E", "-xc++", "-")
    listings = (tools.ask(tools.find(name), *asked) for name in compilers(tools))
    macros = next((macros for macros, fine in listings if fine), "")  # of the one that CMake takes
    if FP16 not in macros.split():
        return ""
    return f"{tools.environment.get('CXXFLAGS', '')} {NO_FP16}".strip()


def compilers(tools: Tools) -> list[str]:
    return tools.environment.get("CXX", "c++ g++ clang++ cl").split()


def free_memory(root: Path = Path("/")) -> int:
    """Return the bytes that programs can have; very many where the system does not report it."""
    free = re.search(r"MemAvailable: *(\d+) kB", text(root / "proc/meminfo"))
    return int(free[1]) * 1024 if free else sys.maxsize


def version_of(match: re.Match[str] | None) -> Version:
    return tuple(map(int, match.groups())) if match else ()


def text(place: Path) -> str:
    try:
        return place.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
