"""The build that is chosen, by what was found alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localspec_build.choice import RPC, Choice, choose, serves
from localspec_build.failure import Lacking
from localspec_build.machine import Machine, Nvcc, Nvidia, Rocm, Vulkan
from localspec_build.records import CUSTOM, Installed

BARE = Machine("linux", "x86_64", vulkan=Vulkan(lacks=("glslc",)), manager="apt-get")
CARD = Nvidia(("RTX 4090",), ("89",), (13, 0), "/usr/lib/libcuda.so.1")
NVIDIA = replace(BARE, nvidia=CARD)
NVCC = Nvcc("/usr/local/cuda/bin/nvcc", (12, 8), True, frozenset({"75", "89"}))
ARC = Vulkan(True, ("Intel Arc A770",))


def tags(choice):
    return [each.tag for each in choice.published]


@pytest.mark.parametrize(
    ("machine", "kind"),
    [
        (BARE, "cpu"),
        (NVIDIA, "cuda"),
        (replace(BARE, amd=("gfx1100",), rocm=Rocm("/opt/rocm", (7, 2), True)), "hip"),
        (replace(BARE, amd=("gfx1100",), vulkan=ARC), "vulkan"),
        (replace(BARE, amd=("gfx1100",), rocm=Rocm("/r", (7, 2), False), vulkan=ARC), "vulkan"),
        (replace(BARE, vulkan=ARC), "vulkan"),
        (replace(BARE, vendors=frozenset({"intel"}), vulkan=Vulkan()), "vulkan"),
        (replace(BARE, vendors=frozenset({"intel"}), vulkan=Vulkan(True)), "cpu"),
        (replace(BARE, vendors=frozenset({"other"}), vulkan=Vulkan()), "cpu"),
        (replace(NVIDIA, nvidia=Nvidia(fault="no driver"), vulkan=ARC), "vulkan"),
        (replace(BARE, system="darwin", processor="arm64"), "metal"),
        (replace(NVIDIA, system="darwin"), "metal"),
    ],
)
def test_the_build_is_for_the_fastest_card_that_it_can_be_made_for(machine, kind):
    choice = choose(machine)
    assert choice.kind == kind
    assert RPC in choice.cmake


@pytest.mark.parametrize("machine", [BARE, NVIDIA])
def test_what_the_processors_code_wants_is_said_to_every_build_and_missed_in_older_ones(machine):
    choice = choose(replace(machine, cxx_flags="-g -mno-avx512fp16"))
    assert choice.cmake[-1] == "-DCMAKE_CXX_FLAGS=-g -mno-avx512fp16"
    assert choose(machine).cmake == choice.cmake[:-1]
    made = Installed(choice.kind, "", "built here", cmake=choice.cmake)
    assert serves(made, choice, machine)
    assert not serves(made._replace(cmake=choice.cmake[:-1]), choice, machine)


def test_the_makers_build_for_any_processor_serves_where_nothing_can_be_compiled():
    made = Installed("cpu", "x86_64", "cpu")
    assert not serves(made, choose(BARE), BARE)
    bare = replace(BARE, compiler=False)
    assert serves(made, choose(bare), bare)
    assert serves(made._replace(kind="vulkan", source="vulkan"), choose(BARE, "vulkan"), BARE)


def test_one_architecture_is_compiled_the_cards_and_the_drivers_library_is_named():
    cmake = choose(NVIDIA).cmake
    assert "-DCMAKE_CUDA_ARCHITECTURES=89-real" in cmake
    assert "-DCUDA_cuda_driver_LIBRARY=/usr/lib/libcuda.so.1" in cmake
    two = replace(NVIDIA, nvidia=replace(CARD, architectures=("89", "120"), driver=""))
    assert "-DCMAKE_CUDA_ARCHITECTURES=89-real;120-real" in choose(two).cmake
    assert "-DGGML_CUDA_NO_VMM=on" in choose(two).cmake


def test_an_installed_toolkit_is_used_and_none_is_fetched():
    choice = choose(replace(NVIDIA, nvcc=NVCC))
    assert f"-DCMAKE_CUDA_COMPILER={NVCC.path}" in choice.cmake
    assert choice.toolkit == ""


@pytest.mark.parametrize(
    "nvcc",
    [
        None,
        replace(NVCC, has_cublas=False),
        replace(NVCC, version=(14, 0)),
        replace(NVCC, architectures=frozenset({"75", "86"})),
        replace(NVCC, fault="no host compiler"),
    ],
)
def test_a_toolkit_that_does_not_suit_is_replaced_by_the_package_indexs(nvcc):
    choice = choose(replace(NVIDIA, nvcc=nvcc))
    assert choice.toolkit == "cuda-toolkit[nvcc,cudart,cublas,cccl]>=13.0,<13.1"
    assert not any(each.startswith("-DCMAKE_CUDA_COMPILER") for each in choice.cmake)


def test_a_toolkit_that_the_dynamic_linker_may_not_know_is_named_to_it():
    choice = choose(replace(NVIDIA, nvcc=replace(NVCC, libraries="/opt/my cuda/lib64")))
    assert "-DCMAKE_SHARED_LINKER_FLAGS_INIT=-Wl,-rpath,'/opt/my cuda/lib64'" in choice.cmake
    for other in (replace(NVIDIA, nvcc=NVCC), replace(NVIDIA, nvcc=NVCC, system="win32")):
        assert not any("rpath" in option for option in choose(other).cmake)


def test_a_new_c_library_wants_a_newer_toolkit_than_the_driver_asks_for():
    for libc, versions in (((2, 41), ">=13.0,<13.1"), ((2, 42), ">=13.2,<13.3")):
        assert choose(replace(NVIDIA, libc=libc)).toolkit.endswith(versions)
    newer = replace(NVIDIA, libc=(2, 43), nvidia=replace(CARD, cuda=(13, 4)))
    assert choose(newer).toolkit.endswith(">=13.2,<13.5")


def test_the_fetched_toolkit_is_no_newer_than_the_driver():
    newer = replace(NVIDIA, nvidia=replace(CARD, cuda=(13, 4)))
    assert choose(newer).toolkit.endswith(">=13.0,<13.5")
    unknown = replace(NVIDIA, nvidia=Nvidia(architectures=("89",)))  # as in a container's build
    assert choose(unknown).toolkit.endswith(">=13.0,<13.1")


@pytest.mark.parametrize(
    "card", [replace(CARD, cuda=(12, 4)), replace(CARD, architectures=("61", "89"))]
)
def test_where_the_index_has_no_compiler_for_a_card_the_toolkit_is_named(card):
    choice = choose(replace(NVIDIA, nvidia=card))
    assert "sudo apt-get install nvidia-cuda-toolkit; then `localspec doctor" in choice.unbuildable
    assert choice.toolkit == ""
    bare = choose(replace(NVIDIA, nvidia=card, processor="aarch64"))
    assert bare.kind == "cpu"
    assert "NVIDIA's toolkit" in bare.hints[0]


def test_a_newer_driver_is_advised_where_it_helps():
    new = replace(NVIDIA, nvidia=replace(CARD, cuda=(12, 8), architectures=("120",)))
    assert "needs a driver of 580 or newer, or NVIDIA's toolkit" in choose(new).hints[0]
    old = replace(NVIDIA, nvidia=replace(CARD, architectures=("52",)))
    assert "needs NVIDIA's toolkit of CUDA 12: sudo" in choose(old).hints[0]
    arch = choose(replace(old, manager="pacman")).hints[0]  # whose toolkit is of CUDA 13
    assert "needs NVIDIA's toolkit of CUDA 12: see developer.nvidia.com/cuda-toolkit-ar" in arch


@pytest.mark.parametrize(
    ("nvcc", "said"),
    [
        (replace(NVCC, has_cublas=False), "comes without cuBLAS"),
        (replace(NVCC, version=(13, 0)), "is of CUDA 13.0, newer than the driver"),
        (NVCC, "of CUDA 12.8 makes no code for 120"),
        (replace(NVCC, fault="error: x", architectures=frozenset()), "fails: error: x"),
    ],
)
def test_what_is_wrong_with_an_installed_toolkit_is_told_and_it_is_not_to_be_installed_again(
    nvcc, said
):
    card = replace(CARD, cuda=(12, 8), architectures=("120",))
    [hint] = choose(replace(NVIDIA, nvidia=card, nvcc=nvcc)).hints
    assert f"toolkit (/usr/local/cuda/bin/nvcc {said}): see developer.nvidia.com" in hint


def served(source="built here", machine=NVIDIA, kind="cuda", cmake=None):
    choice = choose(machine)
    own = choice.cmake if cmake is None else cmake
    return serves(Installed(kind, "", source, cmake=own), choice, machine)


def test_a_build_serves_the_cards_that_it_has_code_for():
    two = replace(NVIDIA, nvidia=replace(CARD, architectures=("89", "120")))
    assert served()
    assert not served(kind="vulkan")
    assert not served(machine=two, cmake=choose(NVIDIA).cmake)
    assert served(cmake=choose(two).cmake)
    assert served(cmake=("-DCMAKE_CUDA_ARCHITECTURES=all-major",))
    assert served("elsewhere", cmake=())
    assert served("cu121")
    assert not served("cu121", two)
    assert not served("cu132")  # for a newer driver
    amd = replace(BARE, amd=("gfx1100",), rocm=Rocm("/r", (7, 2), True))
    assert not served(machine=amd, kind="hip", cmake=("-DGPU_TARGETS=gfx1036",))
    assert served(machine=amd, kind="hip")


def test_a_build_by_own_options_serves_as_long_as_they_are_the_same():
    blas = Choice(CUSTOM, "", ("-DGGML_BLAS=on",))
    assert serves(Installed(CUSTOM, "", "", cmake=(RPC, *blas.cmake)), blas, BARE)
    assert not serves(Installed(CUSTOM, "", "", cmake=(RPC,)), blas, BARE)


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({}, ["cu130", "cu125"]),
        ({"cuda": (13, 3)}, ["cu132", "cu130"]),
        ({"cuda": (12, 4)}, ["cu124", "cu123"]),
        ({"cuda": (11, 8)}, []),
        ({"cuda": ()}, []),
        ({"architectures": ("61",)}, ["cu125", "cu124"]),
        ({"architectures": ("89", "120")}, []),
        ({"architectures": ("50",)}, []),
        ({"architectures": ()}, []),
    ],
)
def test_the_makers_wheels_are_those_that_driver_and_card_run(change, expected):
    old = replace(NVCC, version=(11, 8), architectures=frozenset())  # takes any card
    assert tags(choose(replace(NVIDIA, nvcc=old, nvidia=replace(CARD, **change)))) == expected


def test_a_makers_wheel_comes_with_the_libraries_of_its_own_cuda():
    first, second = choose(NVIDIA).published
    assert first.runtime == "cuda-toolkit[cudart,cublas]==13.0.*"
    assert second.runtime == "cuda-toolkit[cudart,cublas]==12.5.*"


def test_on_windows_a_makers_wheel_wants_an_installed_toolkit():
    windows = replace(NVIDIA, system="win32", processor="AMD64", manager="winget")
    assert "winget install Nvidia.CUDA" in choose(windows).hints[0]
    assert tags(choose(replace(windows, nvcc=NVCC))) == ["cu130", "cu125"]
    assert choose(replace(windows, nvcc=NVCC)).published[0].runtime == ""


def test_what_is_missing_is_a_sentence_with_its_command_and_the_processor_goes_on():
    intel = replace(BARE, vendors=frozenset({"intel"}), program=".venv/bin/localspec")
    choice = choose(intel)
    assert choice.kind == "cpu"
    [hint] = choice.hints
    assert hint.startswith("Vulkan for a graphics card needs glslc: sudo apt-get install libvulkan")
    assert hint.endswith("then `.venv/bin/localspec doctor --fix`")


def test_headers_that_are_too_old_are_not_to_be_installed_again():
    old = Vulkan(lacks=("Vulkan's headers",), old_headers="1.3.239")
    [hint] = choose(replace(BARE, vendors=frozenset({"intel"}), vulkan=old)).hints
    assert "needs Vulkan's headers: 1.3.272 or newer, not 1.3.239; install LunarG's SDK" in hint


def test_a_broken_driver_and_a_missing_one_are_told_apart():
    assert (
        "out of order (no answer)"
        in choose(replace(BARE, nvidia=Nvidia(fault="no answer"))).hints[0]
    )
    assert "No driver" in choose(replace(BARE, vendors=frozenset({"nvidia"}))).hints[0]


def test_the_makers_vulkan_build_is_for_cards_that_answer():
    lacking = replace(ARC, lacks=("glslc",))
    assert tags(choose(replace(BARE, vulkan=ARC))) == ["vulkan"]
    assert "glslc" in choose(replace(BARE, vulkan=lacking)).unbuildable
    likely = replace(BARE, vendors=frozenset({"intel"}), vulkan=Vulkan())
    assert tags(choose(likely)) == []
    assert choose(replace(BARE, processor="aarch64", vulkan=lacking)).kind == "cpu"


def test_hip_is_compiled_by_rocms_own_clang_for_the_cards_targets():
    choice = choose(replace(BARE, amd=("gfx1100", "gfx1036"), rocm=Rocm("/opt/rocm", (7, 2), True)))
    assert "-DGPU_TARGETS=gfx1100;gfx1036" in choice.cmake
    assert "-DCMAKE_HIP_COMPILER=/opt/rocm/llvm/bin/clang" in choice.cmake
    assert tags(choice) == ["rocm72"]


def test_mlx_is_offered_with_the_cuda_of_the_driver():
    assert choose(NVIDIA).offers == ('MLX can use the card as well: pip install ".[mlx-cuda13]"',)
    assert "mlx-cuda12" in choose(replace(NVIDIA, nvidia=replace(CARD, cuda=(12, 8)))).offers[0]
    assert choose(replace(NVIDIA, nvcc=NVCC, system="win32")).offers == ()
    extras = (Path(__file__).parents[2] / "pyproject.toml").read_text()
    assert "mlx-cuda12 = [" in extras
    assert "mlx-cuda13 = [" in extras


def test_a_general_build_for_the_processor_is_only_for_machines_without_a_compiler():
    assert tags(choose(BARE)) == []
    assert tags(choose(replace(BARE, compiler=False))) == ["cpu"]


@pytest.mark.parametrize(
    ("wish", "machine", "said"),
    [
        ("cuda", BARE, "No driver for an NVIDIA card"),
        ("hip", BARE, "rocminfo"),
        ("hip", replace(BARE, amd=("gfx1100",)), "hipblas"),
        ("metal", BARE, "for Macs"),
        ("cpu", replace(BARE, system="darwin"), "--device cpu"),
    ],
)
def test_a_wish_that_cannot_be_met_is_an_error_with_the_way_out(wish, machine, said):
    with pytest.raises(Lacking, match=said):
        choose(machine, wish)


def test_what_cannot_be_built_may_have_been_before():
    made = choose(BARE, "vulkan")
    assert made.kind == "vulkan"
    assert "needs glslc" in made.unbuildable


def test_a_wish_goes_before_what_is_faster():
    assert choose(NVIDIA, "cpu").kind == "cpu"
    assert choose(replace(NVIDIA, vulkan=ARC), "vulkan").kind == "vulkan"
