"""What is found on machines of shell scripts: present, absent, old, broken."""

from __future__ import annotations

import pytest

from localspec_build.machine import Nvidia, Vulkan, look
from tests.build.fakes import NVCC, ROCMINFO, FakeMachine


@pytest.fixture
def fake(tmp_path):
    return FakeMachine(tmp_path)


def found(fake):
    return look(fake.environment, fake.root)


def test_a_bare_machine_has_nothing_but_its_processor(fake):
    machine = found(fake)
    assert (machine.nvidia, machine.nvcc, machine.amd, machine.rocm) == (None, None, (), None)
    assert machine.vulkan.devices == ()
    assert len(machine.vulkan.lacks) == 4
    assert not machine.compiler
    assert machine.manager == ""


def test_code_without_arithmetic_in_16_bits_is_wanted_where_the_compiler_would_use_it(fake):
    fake.tool("g++", "echo '#define __AVX512FP16__ 1'; echo \"$*\" > $0.asked")
    assert found(fake).cxx_flags == "-mno-avx512fp16"
    assert "-march=native" in (fake.bin / "g++.asked").read_text()
    fake.environment["CXXFLAGS"] = "-O2"
    assert found(fake).cxx_flags == "-O2 -mno-avx512fp16"
    fake.tool("c++", "echo '#define __AVX512F__ 1'")  # which knows no such option, and is CMake's
    assert found(fake).cxx_flags == ""
    fake.tool("clang++", "echo '#define __AVX512F__ 1'")
    fake.environment["CXX"] = "ccache clang++"
    assert found(fake).cxx_flags == ""
    fake.tool("clang++", "echo __AVX512FP16__; exit 1")
    assert found(fake).cxx_flags == ""


def test_an_nvidia_card_is_told_with_its_architecture_and_the_cuda_of_its_driver(fake):
    fake.nvidia()
    fake.tool("ldconfig", 'echo "	libcuda.so.1 (libc6,x86-64) => /usr/lib/libcuda.so.1"')
    names = ("NVIDIA GeForce RTX 4090",)
    assert found(fake).nvidia == Nvidia(names, ("89",), (13, 0), "/usr/lib/libcuda.so.1")


def test_a_driver_for_programs_of_32_bits_is_not_linked_with(fake):
    fake.nvidia()
    old, new = (f"	libcuda.so.1 (libc6{kind}) => /{kind}" for kind in ("", ",x86-64"))
    fake.tool("ldconfig", f'echo "{old}"; echo "{new}"')
    assert found(fake).nvidia.driver == "/,x86-64"
    fake.tool("ldconfig", f'echo "{old}"')
    assert found(fake).nvidia.driver == ""


def test_several_cards_have_each_architecture_once_in_order(fake):
    fake.nvidia("RTX PRO 6000, 12.0\nRTX 4090, 8.9\nRTX 4090, 8.9\nH200, [N/A]")
    nvidia = found(fake).nvidia
    assert nvidia.architectures == ("89", "120")
    assert nvidia.names == ("RTX PRO 6000", "RTX 4090")


def test_the_environment_names_other_architectures(fake):
    fake.environment["CUDAARCHS"] = "75-real;90a"
    assert found(fake).nvidia.architectures == ("75", "90a")
    fake.nvidia()
    assert found(fake).nvidia.architectures == ("75", "90a")
    fake.environment["CUDAARCHS"] = "8.9 12.0+PTX;89"  # as others write them
    assert found(fake).nvidia.architectures == ("89", "120")


@pytest.mark.parametrize(
    ("script", "fault"),
    [
        ("echo 'NVIDIA-SMI has failed because it cannot talk'; exit 9", "cannot talk"),
        ("exit 9", "does not answer"),
    ],
)
def test_a_driver_out_of_order_is_quoted(fake, script, fault):
    fake.tool("nvidia-smi", script)
    assert fault in found(fake).nvidia.fault


def test_an_old_driver_tells_no_architecture_and_a_new_one_words_it_otherwise(fake):
    fake.tool(
        "nvidia-smi", 'case "$*" in *compute_cap*) exit 2;; *) echo "CUDA UMD Version: 12.2";; esac'
    )
    assert found(fake).nvidia == Nvidia(cuda=(12, 2))


def test_garbage_in_place_of_answers_is_no_card(fake):
    for name in ("nvidia-smi", "nvcc", "hipcc", "rocminfo", "vulkaninfo", "glslc", "ldconfig"):
        fake.tool(name, "head -c 4096 /dev/urandom")
    machine = found(fake)
    assert machine.nvidia.architectures == machine.nvidia.names == ()
    assert (machine.nvcc, machine.amd, machine.rocm, machine.vulkan.devices) == (None, (), None, ())


def test_a_toolkit_is_looked_for_where_nvcc_says_that_it_belongs(fake):
    home = fake.root / "opt/cuda"
    fake.tool("nvcc", NVCC.format(release="12.4", home=home, compiles=""))
    nvcc = found(fake).nvcc
    assert (nvcc.version, nvcc.has_cublas, nvcc.libraries) == ((12, 4), False, "")
    assert nvcc.architectures == {"75", "89"}
    fake.file("opt/cuda/targets/x86_64-linux/include/cublas_v2.h")
    library = fake.file("opt/cuda/targets/x86_64-linux/lib/libcublas.so.12")
    assert found(fake).nvcc.has_cublas
    assert found(fake).nvcc.libraries == str(library.parent)


@pytest.mark.parametrize("place", ["opt/cuda", "usr/local/cuda", "named"])
def test_a_toolkit_is_found_that_is_on_no_path(fake, place):
    nvcc = fake.tool("nvcc", NVCC.format(release="13.0", home=fake.root, compiles=""))
    aside = fake.file(f"{place}/bin/nvcc")
    nvcc.replace(aside)
    fake.environment["CUDA_HOME"] = str(fake.root / "named")
    assert found(fake).nvcc.path == str(aside)


def test_a_compiler_that_compiles_nothing_is_quoted(fake):
    says = "echo '# $ x'; echo 'mathcalls.h(206): error: exception specification'; exit 2"
    fake.tool("nvcc", NVCC.format(release="13.0", home=fake.root, compiles=says))
    assert found(fake).nvcc.fault == "mathcalls.h(206): error: exception specification"


def test_the_cplusplus_compiler_that_was_chosen_is_tried_with_nvcc(fake):
    says = "case \"$*\" in *-ccbin*g++-14*) ;; *) echo 'error: gcc 16'; exit 1; esac"
    fake.tool("nvcc", NVCC.format(release="13.0", home=fake.root, compiles=says))
    assert found(fake).nvcc.fault == "error: gcc 16"
    fake.tool("g++-14")
    fake.environment["CXX"] = "g++-14"
    assert found(fake).nvcc.fault == ""


def test_rocm_is_told_by_its_targets_and_its_parts(fake):
    fake.tool("rocminfo", ROCMINFO)
    fake.tool("hipcc", 'echo "HIP version: 7.2.53211-e1a6bc5663"')
    machine = found(fake)
    assert machine.amd == ("gfx1100",)
    assert (machine.rocm.version, machine.rocm.has_blas) == ((7, 2), False)
    for part in ("hipblas", "rocblas"):
        fake.file(f"include/{part}/{part}.h")
    assert found(fake).rocm.has_blas


def test_vulkan_counts_cards_and_not_the_processor_that_plays_one(fake):
    fake.vulkan()
    assert found(fake).vulkan == Vulkan(True, ("Intel(R) Arc A770",), ())
    fake.vulkan(kind="PHYSICAL_DEVICE_TYPE_CPU")
    assert found(fake).vulkan == Vulkan(True, (), ())


def test_vulkan_headers_of_debian_12_are_too_old(fake):
    fake.vulkan(headers=239)
    vulkan = found(fake).vulkan
    assert (vulkan.lacks, vulkan.old_headers) == (("Vulkan's headers",), "1.3.239")


def test_lunargs_sdk_takes_the_place_of_the_systems(fake):
    fake.vulkan(headers=239)
    fake.environment["VULKAN_SDK"] = str(fake.root / "usr")
    # CMake looks for an SDK's loader in its lib, and not in folders of an architecture there.
    assert found(fake).vulkan.lacks == ("Vulkan's headers", "Vulkan's loader")
    fake.file("usr/lib/libvulkan.so")
    assert found(fake).vulkan.lacks == ("Vulkan's headers",)
    fake.environment["VULKAN_SDK"] = str(fake.root / "sdk")
    assert "Vulkan's loader" in found(fake).vulkan.lacks


def test_a_card_is_known_by_its_controller_without_any_tool(fake):
    fake.file("sys/class/drm/card0/device/vendor", "0x8086\n")
    fake.file("sys/class/drm/card1/device/vendor", "0x1a03\n")  # the console of a server
    assert found(fake).vendors == {"intel", "other"}


def test_a_compiler_is_found_by_name(fake):
    fake.tool("clang++")
    assert found(fake).compiler
    fake.environment["CXX"] = "g++-14"
    assert not found(fake).compiler
