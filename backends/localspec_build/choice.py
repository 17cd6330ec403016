"""Choose the build of llama.cpp for a machine, from what was found there and nothing else."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple

from localspec_build import cuda_toolkit
from localspec_build.failure import Lacking
from localspec_build.machine import ALLOW, HEADERS, Machine, Nvcc, Nvidia, Version
from localspec_build.records import BUILT, CUSTOM, Installed

AUTO = "auto"
RPC = "-DGGML_RPC=on"  # in every build: it takes seconds, and reaches devices of other machines

# CUDA of the wheels that llama-cpp-python's makers publish, the newest first, and the compute
# capabilities that they hold code for.
PREBUILT = {
    "cu132": ((13, 2), 75, 90),
    "cu130": ((13, 0), 75, 90),
    "cu125": ((12, 5), 60, 90),
    "cu124": ((12, 4), 60, 90),
    "cu123": ((12, 3), 60, 90),
    "cu122": ((12, 2), 60, 90),
    "cu121": ((12, 1), 60, 90),
}
CXX_FLAGS = "-DCMAKE_CXX_FLAGS="
ARCHITECTURES = ("-DCMAKE_CUDA_ARCHITECTURES=", "-DGPU_TARGETS=")
ALL = "all-major"
ATTEMPTS = 2  # to find a wheel of theirs: each costs seconds
INDEXED = (13, 0)  # the first CUDA whose compiler is in the package index
TURING = 75  # the oldest compute capability that CUDA 13 compiles for
DRIVER = "a driver of 580 or newer"  # for CUDA 13
# This glibc declares functions otherwise than the headers of CUDA do before this version. Code
# for a card itself runs with a driver for any CUDA 13.
NEW_LIBC, FOR_NEW_LIBC = (2, 42), (13, 2)

TOOLKIT = {
    "apt-get": "sudo apt-get install nvidia-cuda-toolkit",
    "pacman": "sudo pacman -S cuda",
    "winget": "winget install Nvidia.CUDA",
}
TOOLKIT_SITE = "see developer.nvidia.com/cuda-downloads"
OLD_TOOLKIT = {"apt-get": TOOLKIT["apt-get"]}  # where those of other systems are of CUDA 13
OLD_TOOLKIT_SITE = "see developer.nvidia.com/cuda-toolkit-archive"
SDK = "install LunarG's SDK (vulkan.lunarg.com), set VULKAN_SDK"
VULKAN = {
    "apt-get": "sudo apt-get install libvulkan-dev glslc spirv-headers mesa-vulkan-drivers",
    "dnf": "sudo dnf install vulkan-loader-devel vulkan-headers glslc spirv-headers-devel",
    "pacman": "sudo pacman -S vulkan-headers vulkan-icd-loader shaderc spirv-headers",
    "zypper": "sudo zypper install vulkan-devel shaderc spirv-headers",
    "apk": "sudo apk add vulkan-headers vulkan-loader-dev shaderc spirv-headers",
    "winget": "winget install KhronosGroup.VulkanSDK",
}


class Published(NamedTuple):
    """An index of wheels by llama-cpp-python's makers."""

    tag: str
    runtime: str = ""  # packages with the libraries that its wheels want


GENERAL = Published("cpu")  # for processors with AVX2, or any of ARM; without workers


@dataclass(frozen=True, slots=True)
class Choice:
    """A build of llama.cpp, and the ways to get it."""

    kind: str
    because: str  # of what was found
    cmake: tuple[str, ...] = (RPC,)
    published: tuple[Published, ...] = ()  # that run here, the best first
    toolkit: str = ""  # packages with the compiler that the build wants
    unbuildable: str = ""  # why only a wheel that is there already can serve, and what to do
    hints: tuple[str, ...] = ()  # what would make more of this machine
    offers: tuple[str, ...] = ()  # what could be installed besides


def choose(machine: Machine, kind: str = AUTO) -> Choice:
    """Choose the requested kind, or the first in order that is possible."""
    choice = KINDS[kind](machine) if kind != AUTO else possible(machine)
    flags = (f"{CXX_FLAGS}{machine.cxx_flags}",) if machine.cxx_flags else ()
    return replace(choice, cmake=(*choice.cmake, *flags))


def possible(machine: Machine) -> Choice:
    """Choose the first kind in order that is possible."""
    hints: list[str] = []
    *cards, last = order(machine)
    for kind in cards:
        try:
            choice = KINDS[kind](machine)
        except Lacking as lack:
            hints.append(str(lack))
            continue
        if choice.published or not choice.unbuildable:
            return replace(choice, hints=tuple(hints))
        hints.append(choice.unbuildable)
    return replace(KINDS[last](machine), hints=tuple(hints))


def order(machine: Machine) -> list[str]:
    """List the kinds that the cards here call for, the fastest first, and the processor last."""
    if machine.system == "darwin":
        return ["metal"]
    nvidia = machine.nvidia is not None or "nvidia" in machine.vendors
    # Where vulkaninfo cannot be asked, a controller of these makers is likely to have a driver.
    likely = not machine.vulkan.asked and machine.vendors & {"amd", "intel", "nvidia"}
    others = machine.vulkan.devices or likely
    seen = {"cuda": nvidia, "hip": machine.amd and machine.rocm, "vulkan": others}
    return [*(kind for kind, present in seen.items() if present), "cpu"]


def cuda(machine: Machine) -> Choice:
    """CUDA by the makers' wheel, the installed toolkit, or the one of the package index."""
    card = machine.nvidia
    if card is None:
        other_way = "or name architectures in CUDAARCHS"
        raise Lacking(
            f"No driver for an NVIDIA card is here: install it, {other_way}; {fix(machine)}"
        )
    if card.fault:
        raise Lacking(
            f"An NVIDIA card's driver is out of order ({card.fault}): mend it, then {fix(machine)}"
        )
    name = ", ".join(card.names) or "an NVIDIA card"
    because = f"{name}, driver for CUDA {dotted(card.cuda)}"
    choice = Choice("cuda", because, offers=mlx(machine, card))
    return compiled(replace(choice, published=published(machine, card)), machine, card)


def compiled(choice: Choice, machine: Machine, card: Nvidia) -> Choice:
    """Add the way to compile for a card, or the reason why there is none."""
    cmake = (RPC, "-DGGML_CUDA=on", *for_card(card))
    nvcc = machine.nvcc
    if nvcc and not unfit(nvcc, card):
        cmake = (*cmake, f"-DCMAKE_CUDA_COMPILER={nvcc.path}")
        if machine.system == "linux" and nvcc.libraries:
            cmake = (*cmake, cuda_toolkit.linked(nvcc.libraries))
        return replace(choice, cmake=cmake)
    cuda = card.cuda or INDEXED
    indexed = machine.system == "linux" and min(numbers(card), default=TURING) >= TURING
    if indexed and cuda >= INDEXED:
        oldest = FOR_NEW_LIBC if machine.libc >= NEW_LIBC else INDEXED
        major, minor = max(cuda[:2], oldest)
        versions = f">={dotted(oldest)},<{major}.{minor + 1}"
        toolkit = f"cuda-toolkit[nvcc,cudart,cublas,cccl]{versions}"
        return replace(choice, cmake=cmake, toolkit=toolkit)
    reason = lacking(choice.because, machine, card, indexed)
    if not choice.published:
        raise Lacking(reason)
    return replace(choice, unbuildable=reason)


def unfit(nvcc: Nvcc, card: Nvidia) -> str:
    """Explain why an installed compiler cannot make code for the cards that their driver runs."""
    unknown = sorted(set(card.architectures) - nvcc.architectures) if nvcc.architectures else []
    if not nvcc.has_cublas:
        return "comes without cuBLAS"
    if card.cuda and nvcc.version[0] > card.cuda[0]:
        return f"is of CUDA {dotted(nvcc.version)}, newer than the driver"
    if unknown:
        return f"of CUDA {dotted(nvcc.version)} makes no code for {', '.join(unknown)}"
    return f"fails: {nvcc.fault}" if nvcc.fault else ""


def lacking(because: str, machine: Machine, card: Nvidia, indexed: bool) -> str:
    """Describe what a build for CUDA needs, and how to get it.

    indexed: the package index has a compiler for the card, so a newer driver would do as well
    """
    old = min(numbers(card), default=TURING) < TURING
    offered, site = (OLD_TOOLKIT, OLD_TOOLKIT_SITE) if old else (TOOLKIT, TOOLKIT_SITE)
    command, which_one = offered.get(machine.manager, site), " of CUDA 12" if old else ""
    if machine.nvcc:
        command = site  # that of the package manager may be the one that is here
        which_one += f" ({machine.nvcc.path} {unfit(machine.nvcc, card)})"
    newer = f"{DRIVER}, or " if indexed else ""
    needs = f"{newer}NVIDIA's toolkit{which_one}"
    return f"CUDA for {because} needs {needs}: {command}; then {fix(machine)}"


def for_card(card: Nvidia) -> tuple[str, ...]:
    """State the architectures of the cards, and how the driver's library is reached."""
    real = ";".join(f"{architecture}-real" for architecture in card.architectures) or ALL
    # Without the driver at hand nothing can link with it; then pools of memory are the older ones.
    link = f"-DCUDA_cuda_driver_LIBRARY={card.driver}" if card.driver else "-DGGML_CUDA_NO_VMM=on"
    return (
        f"{ARCHITECTURES[0]}{real}",
        link,
        f"-DCMAKE_CUDA_FLAGS={ALLOW}",
    )


def published(machine: Machine, card: Nvidia) -> tuple[Published, ...]:
    """List the makers' wheels that this driver runs and that hold code for all the cards."""
    nvcc = machine.nvcc  # on Windows the wheel takes CUDA's libraries from an installed toolkit
    supported = machine.system == "linux" or (machine.system == "win32" and nvcc is not None)
    if not (supported and machine.processor in ("x86_64", "AMD64") and card.architectures):
        return ()
    fitting = (
        Published(tag, runtime(cuda) if machine.system == "linux" else "")
        for tag, (cuda, *_) in PREBUILT.items()
        if runs(tag, card)
    )
    return tuple(islice(fitting, ATTEMPTS))


def runs(tag: str, card: Nvidia) -> bool:
    """Return whether cards and their driver run a wheel of the makers."""
    cuda, oldest, newest = PREBUILT[tag]
    return cuda <= card.cuda and all(oldest <= number <= newest for number in numbers(card))


def serves(made: Installed, choice: Choice, machine: Machine) -> bool:
    """Return whether an installed build is of the chosen kind, with code for what is here."""
    if made.kind != choice.kind:
        return False
    if made.kind == CUSTOM:
        return set(choice.cmake) <= set(made.cmake)
    if general(made):
        return not machine.compiler
    if lacks_products(made, machine, choice):
        return False
    if made.source in PREBUILT:
        return machine.nvidia is not None and runs(made.source, machine.nvidia)
    if not made.cmake:
        return True
    if any(flag.startswith(CXX_FLAGS) and flag not in made.cmake for flag in choice.cmake):
        return False
    needed, built = targets(choice.cmake), targets(made.cmake)
    return ALL in built or needed <= built


def general(made: Installed) -> bool:
    """Return whether an installed build is the makers' for processors of many kinds."""
    return made.kind == "cpu" and made.source == GENERAL.tag


def lacks_products(made: Installed, machine: Machine, choice: Choice) -> bool:
    """Return whether another build would have products of LocalSpec that an installed one lacks.

    Those of the makers have none: for a card they go first all the same, as it does the work.
    """
    buildable = machine.compiler and not (choice.published or choice.unbuildable)
    return buildable and made.source in ("", BUILT) and made.products != machine.products


def targets(cmake: tuple[str, ...]) -> set[str]:
    """Read the architectures of cards from the options of a build."""
    values = (option.partition("=")[2] for option in cmake if option.startswith(ARCHITECTURES))
    return {target for value in values for target in value.split(";")}


def runtime(cuda: Version) -> str:
    return f"cuda-toolkit[cudart,cublas]=={dotted(cuda)}.*"


def numbers(card: Nvidia) -> list[int]:
    return [int(architecture.rstrip("af")) for architecture in card.architectures]


def mlx(machine: Machine, card: Nvidia) -> tuple[str, ...]:
    """Offer MLX's own build for CUDA, which exists for Linux."""
    if machine.system != "linux" or card.cuda < (12,):
        return ()
    extra = f"mlx-cuda{min(card.cuda[0], 13)}"
    return (f'MLX can use the card as well: pip install ".[{extra}]"',)


def hip(machine: Machine) -> Choice:
    """HIP, by the compiler of an installed ROCm."""
    rocm = machine.rocm
    if not machine.amd:
        raise Lacking("No AMD card answers rocminfo: install ROCm, or take `--rebuild vulkan`")
    if rocm is None or not rocm.has_blas:
        raise Lacking(
            "HIP needs hipcc, hipblas and rocblas of ROCm: install them, or take `--rebuild vulkan`"
        )
    compiler = f"-DCMAKE_HIP_COMPILER={rocm.folder}/llvm/bin/clang"
    where = f"-DCMAKE_PREFIX_PATH={rocm.folder}"
    cards = f"{ARCHITECTURES[1]}{';'.join(machine.amd)}"
    return Choice(
        "hip",
        f"{', '.join(machine.amd)}, ROCm {dotted(rocm.version)}",
        (RPC, "-DGGML_HIP=on", compiler, where, cards),
        (Published(f"rocm{''.join(map(str, rocm.version))}"),),
    )


def vulkan(machine: Machine) -> Choice:
    """Vulkan, for any card with a driver for it."""
    drivers = machine.vulkan
    name = ", ".join(drivers.devices) or "a graphics card"
    get = VULKAN.get(machine.manager, SDK)
    if drivers.old_headers:
        get = f"{dotted(HEADERS)} or newer, not {drivers.old_headers}; {SDK}"
    reason = f"Vulkan for {name} needs {', '.join(drivers.lacks)}: {get}; then {fix(machine)}"
    # The makers' build is a general one: without a device it would be slower than the processor's.
    general = drivers.devices and machine.processor in ("x86_64", "AMD64")
    reason = reason if drivers.lacks else ""
    wheels = (Published("vulkan"),) if general else ()
    return Choice("vulkan", name, (RPC, "-DGGML_VULKAN=on"), published=wheels, unbuildable=reason)


def metal(machine: Machine) -> Choice:
    """Metal, which llama.cpp builds by itself on a Mac."""
    if machine.system != "darwin":
        raise Lacking("Metal is for Macs")
    return Choice("metal", f"a Mac ({machine.processor})", published=(Published("metal"),))


def cpu(machine: Machine) -> Choice:
    """The processor; the makers' general build only where nothing can be compiled."""
    if machine.system == "darwin":
        raise Lacking("On a Mac llama.cpp always has Metal: choose the processor by `--device cpu`")
    return Choice("cpu", machine.processor, published=() if machine.compiler else (GENERAL,))


def fix(machine: Machine) -> str:
    return f"`{machine.program} doctor --fix`"


def dotted(version: Version) -> str:
    return ".".join(map(str, version)) or "unknown"


KINDS: Mapping[str, Callable[[Machine], Choice]] = {
    "cuda": cuda,
    "hip": hip,
    "vulkan": vulkan,
    "metal": metal,
    "cpu": cpu,
}

NAMES = (AUTO, *KINDS)
