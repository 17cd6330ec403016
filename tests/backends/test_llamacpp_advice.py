"""What llama.cpp advises, on machines that are drawn up in a folder."""

from __future__ import annotations

import pytest

from localspec_build import records
from localspec_build.records import Installed
from localspec_llamacpp import advice
from localspec_llamacpp.advice import advise


def write(root, name, text):
    path = root / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    return root


@pytest.mark.parametrize(
    ("sign", "features", "step"),
    [
        ("dev/nvidia0", ("CPU",), "localspec doctor --fix"),
        ("usr/lib/wsl/lib/libcuda.so.1", ("CPU",), "localspec doctor --fix"),
        ("dev/kfd", ("CPU", "AVX2"), "localspec doctor --fix"),
        ("dev/kfd", ("CPU", "ROCm"), None),
        ("dev/nvidia0", ("CPU", "CUDA"), None),
        ("dev/nvidia0", ("CPU", "Vulkan"), None),
        ("dev/null", ("CPU",), None),
    ],
)
def test_a_gpu_that_is_not_used_is_told_with_the_command_to_use_it(tmp_path, sign, features, step):
    found = [each.step for each in advise(features, write(tmp_path, sign, ""), tmp_path)]
    assert found == ([step] if step else [])


def test_what_the_processor_could_do_faster_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(advice.platform, "machine", lambda: "x86_64")
    root = write(tmp_path, "proc/cpuinfo", "processor : 0\nflags\t\t: fpu avx2 avx512f\n")
    [finding] = advise(("CPU", "AVX2"), root, tmp_path)
    assert "has AVX512, but" in finding.state
    assert finding.step == "localspec doctor --rebuild cpu --build"
    assert list(advise(("AVX2", "AVX512"), root, tmp_path)) == []


def test_a_build_for_a_card_is_built_anew_for_the_card(tmp_path, monkeypatch):
    monkeypatch.setattr(advice.platform, "machine", lambda: "x86_64")
    root = write(tmp_path, "proc/cpuinfo", "flags\t\t: avx2 avx512f\n")
    [finding] = advise(("CUDA", "AVX2"), root, tmp_path)  # made by somebody else: not on record
    assert finding.step == "localspec doctor --rebuild cuda --build"


def test_a_build_with_arithmetic_in_16_bits_is_told_unless_it_was_built_without(tmp_path):
    root = write(tmp_path, "proc/cpuinfo", "flags\t\t: avx2 avx512f avx512_fp16\n")
    [finding] = advise(("AVX2", "AVX512"), root, tmp_path)
    assert "built with AVX512-FP16" in finding.state
    assert finding.step == "localspec doctor --rebuild cpu"
    for flag, told in (("-g", 2), ("-g -mno-avx512fp16", 1)):
        cmake = (f"-DCMAKE_CXX_FLAGS={flag}",)
        records.note(tmp_path, Installed("cpu", "x86_64", "built here", cmake=cmake))
        assert len(list(advise(("AVX2", "AVX512"), root, tmp_path))) == told
    records.note(tmp_path, Installed("custom", "CMAKE_ARGS", "built here"))  # as the user wants it
    assert len(list(advise(("AVX2", "AVX512"), root, tmp_path))) == 1


def test_what_was_installed_is_told_and_built_anew_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(advice.platform, "machine", lambda: "x86_64")
    root = write(tmp_path, "proc/cpuinfo", "flags\t\t: avx2\n")
    records.note(tmp_path, Installed("cuda", "RTX 4090", "cu130"))
    built, cpu = advise(("CUDA",), root, tmp_path)
    assert built.state == "built for cuda (RTX 4090), cu130"
    assert cpu.step == "localspec doctor --rebuild cuda --build"


def test_a_build_for_processors_of_many_kinds_is_told_with_the_way_to_ones_own(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(advice.platform, "machine", lambda: "x86_64")
    root = write(tmp_path, "proc/cpuinfo", "flags\t\t: avx2 avx512f\n")
    records.note(tmp_path, Installed("cpu", "x86_64", "cpu"))
    _, finding = advise(("CPU", "AVX2"), root, tmp_path)
    assert "processors of many kinds, without AVX512, workers" in finding.state
    assert finding.step == "localspec doctor --fix"
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    _, finding = advise(("CPU", "AVX2"), root, tmp_path)
    assert "apt-get install g++" in finding.step
    assert finding.step.endswith("; then localspec doctor --fix")
