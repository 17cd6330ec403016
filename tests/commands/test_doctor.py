"""The doctor's findings, on machines that are drawn up in a folder."""

from __future__ import annotations

import shutil
from collections import namedtuple
from dataclasses import replace

import pytest

from localspec.backend import Build
from localspec.cli import run
from localspec.commands import doctor
from localspec.errors import BackendError
from localspec.system import free_memory

GB = 1 << 30
Usage = namedtuple("Usage", "total used free")


def write(root, files):
    for name, text in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return root


def steps(findings):
    return [finding.step for finding in findings if finding.step]


def test_it_tells_engines_devices_memory_and_disk(capsys):
    assert run(["doctor"]) == 0
    said = capsys.readouterr().out
    for word in ("localspec ", "llamacpp ", "memory ", "disk ", "cpu: ", " suggestion"):
        assert word in said


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
    found = steps(doctor.missing(features, write(tmp_path, {sign: ""})))
    assert [each[: len(step or "")] for each in found] == ([step] if step else [])


def test_what_the_processor_could_do_faster_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    root = write(tmp_path, {"proc/cpuinfo": "processor : 0\nflags\t\t: fpu avx2 avx512f\n"})
    [finding] = doctor.missing(("CPU", "AVX2"), root)
    assert "has AVX512, but" in finding.state
    assert "-DGGML_NATIVE=on" in finding.step
    assert list(doctor.missing(("AVX2", "AVX512"), root)) == []


def test_little_memory_and_little_disk_come_with_a_step(tmp_path, monkeypatch):
    scarce = replace(free_memory.memory(), free_bytes=2 * GB)
    monkeypatch.setattr(free_memory, "memory", lambda: scarce)
    assert "choose a small model" in steps(doctor.memory())[0]
    monkeypatch.setattr(shutil, "disk_usage", lambda _: Usage(100 * GB, 99 * GB, GB))
    assert "make room" in steps(doctor.disk(tmp_path / "not" / "there"))[0]


def test_an_engine_that_cannot_be_used_says_what_to_install(monkeypatch):
    def broken(name):
        raise BackendError(f"{name} needs parts: pip install parts")

    monkeypatch.setattr(doctor, "backend", broken)
    found = list(doctor.findings())
    assert steps(found)[0] == "llamacpp needs parts: pip install parts"
    monkeypatch.setattr(doctor, "apple_silicon", lambda: False)
    mlx = [finding for finding in doctor.findings() if finding.subject == "mlx"]
    assert not mlx[0].step


def test_a_python_that_runs_translated_is_told(monkeypatch):
    monkeypatch.setattr(doctor.sys, "platform", "darwin")
    monkeypatch.setattr(doctor.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(doctor.platform, "version", lambda: "Darwin Kernel RELEASE_ARM64_T6000")
    assert "install one for Apple silicon" in steps(doctor.program())[0]


def test_the_build_is_that_of_the_engine():
    build = doctor.backend("llamacpp").build()
    assert isinstance(build, Build)
    assert "CPU" in build.features
    assert build.version[0].isdigit()
