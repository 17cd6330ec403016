"""What llama.cpp advises, on machines that are drawn up in a folder."""

from __future__ import annotations

import pytest

from localspec_build import kernels, records
from localspec_build.records import Installed
from localspec_llamacpp import advice
from localspec_llamacpp.advice import advise

NEWEST = "0123456789ab"


def advice_on(features, root, prefix):
    """Advise where this LocalSpec has no products, so that none are missed."""
    return advise(features, root, prefix, products="")


def of_products(features, tmp_path, made=None):
    if made:
        records.note(tmp_path, made)
    findings = list(advise(features, tmp_path / "root", tmp_path, products=NEWEST))
    return [(each.state, each.step) for each in findings if "products" in each.state]


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
    steps = [each.step for each in advice_on(features, write(tmp_path, sign, ""), tmp_path)]
    assert steps == ([step] if step else [])


def test_what_the_processor_could_do_faster_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(advice.platform, "machine", lambda: "x86_64")
    root = write(tmp_path, "proc/cpuinfo", "processor : 0\nflags\t\t: fpu avx2 avx512f\n")
    [finding] = advice_on(("CPU", "AVX2"), root, tmp_path)
    assert "has AVX512, but" in finding.state
    assert finding.step == "localspec doctor --rebuild cpu --build"
    assert list(advice_on(("AVX2", "AVX512"), root, tmp_path)) == []


def test_a_build_for_a_card_is_built_anew_for_the_card(tmp_path, monkeypatch):
    monkeypatch.setattr(advice.platform, "machine", lambda: "x86_64")
    root = write(tmp_path, "proc/cpuinfo", "flags\t\t: avx2 avx512f\n")
    [finding] = advice_on(("CUDA", "AVX2"), root, tmp_path)  # made by somebody else: not on record
    assert finding.step == "localspec doctor --rebuild cuda --build"


def test_a_build_with_arithmetic_in_16_bits_is_told_unless_it_was_built_without(tmp_path):
    root = write(tmp_path, "proc/cpuinfo", "flags\t\t: avx2 avx512f avx512_fp16\n")
    [finding] = advice_on(("AVX2", "AVX512"), root, tmp_path)
    assert "built with AVX512-FP16" in finding.state
    assert finding.step == "localspec doctor --rebuild cpu"
    for flag, told in (("-g", 2), ("-g -mno-avx512fp16", 1)):
        cmake = (f"-DCMAKE_CXX_FLAGS={flag}",)
        records.note(tmp_path, Installed("cpu", "x86_64", "built here", cmake=cmake))
        assert len(list(advice_on(("AVX2", "AVX512"), root, tmp_path))) == told
    records.note(tmp_path, Installed("custom", "CMAKE_ARGS", "built here"))  # as the user wants it
    assert len(list(advice_on(("AVX2", "AVX512"), root, tmp_path))) == 1


def test_what_was_installed_is_told_and_built_anew_as_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(advice.platform, "machine", lambda: "x86_64")
    root = write(tmp_path, "proc/cpuinfo", "flags\t\t: avx2\n")
    records.note(tmp_path, Installed("cuda", "RTX 4090", "cu130"))
    built, cpu = advice_on(("CUDA",), root, tmp_path)
    assert built.state == "built for cuda (RTX 4090), cu130"
    assert cpu.step == "localspec doctor --rebuild cuda --build"


def test_a_build_for_processors_of_many_kinds_is_told_with_the_way_to_ones_own(
    tmp_path, monkeypatch
):
    monkeypatch.setattr(advice.platform, "machine", lambda: "x86_64")
    root = write(tmp_path, "proc/cpuinfo", "flags\t\t: avx2 avx512f\n")
    records.note(tmp_path, Installed("cpu", "x86_64", "cpu"))
    _, finding = advice_on(("CPU", "AVX2"), root, tmp_path)
    assert "processors of many kinds, without AVX512, workers" in finding.state
    assert finding.step == "localspec doctor --fix"
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    _, finding = advice_on(("CPU", "AVX2"), root, tmp_path)
    assert "apt-get install g++" in finding.step
    assert finding.step.endswith("; then localspec doctor --fix")


def test_missing_products_are_told_with_the_way_to_them(tmp_path, monkeypatch):
    here = ("CPU", f"{kernels.FEATURE} (AVX2)")
    [(state, step)] = of_products(("CPU",), tmp_path)  # of plain pip
    assert state.startswith("llama.cpp was built without LocalSpec's products")
    assert step == "localspec doctor --fix"
    assert of_products(here, tmp_path) == []  # not on record, but present
    older = Installed("cpu", "", "built here", products="older")
    [(state, step)] = of_products(here, tmp_path, older)
    assert state.startswith("llama.cpp was built with LocalSpec's products of another version")
    assert step == "localspec doctor --fix"
    assert of_products(here, tmp_path, older._replace(products=NEWEST)) == []
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CXX", raising=False)
    [(_, step)] = of_products(("CPU",), tmp_path, older)
    assert step.endswith("; then localspec doctor --fix")


def test_products_that_no_build_would_bring_call_for_no_step(tmp_path):
    tried = Installed("cpu", "", "built here", products=NEWEST)
    [(state, step)] = of_products(("CPU",), tmp_path, tried)
    assert "they did not compile" in state
    assert not step
    [(state, step)] = of_products(("CUDA",), tmp_path, Installed("cuda", "", "cu130"))
    assert state.endswith("localspec doctor --rebuild cuda --build")
    assert not step
    [(state, _)] = of_products(("CPU",), tmp_path, Installed("cpu", "", "cpu"))
    assert f"processors of many kinds, without {kernels.FEATURE}, workers" in state
