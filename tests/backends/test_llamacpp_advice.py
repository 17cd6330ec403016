"""What llama.cpp advises, on machines that are drawn up in a folder."""

from __future__ import annotations

import pytest

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
        ("dev/nvidia0", ("CPU",), "CMAKE_ARGS=-DGGML_CUDA=on pip install"),
        ("dev/kfd", ("CPU", "AVX2"), "CMAKE_ARGS=-DGGML_HIP=on pip install"),
        ("dev/nvidia0", ("CPU", "CUDA"), None),
        ("dev/nvidia0", ("CPU", "Vulkan"), None),
        ("dev/null", ("CPU",), None),
    ],
)
def test_a_gpu_that_is_not_used_is_told_with_the_command_to_use_it(tmp_path, sign, features, step):
    found = [each.step for each in advise(features, write(tmp_path, sign, ""))]
    assert [each[: len(step or "")] for each in found] == ([step] if step else [])


def test_what_the_processor_could_do_faster_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(advice.platform, "machine", lambda: "x86_64")
    root = write(tmp_path, "proc/cpuinfo", "processor : 0\nflags\t\t: fpu avx2 avx512f\n")
    [finding] = advise(("CPU", "AVX2"), root)
    assert "has AVX512, but" in finding.state
    assert "-DGGML_NATIVE=on" in finding.step
    assert list(advise(("AVX2", "AVX512"), root)) == []
