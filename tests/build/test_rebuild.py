"""Builds that are made, fetched, kept and remembered, by a Python whose pip is a shell script."""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import platformdirs
import psutil
import pytest

from localspec_build import (
    cuda_toolkit,
    effort,
    folders,
    kernels,
    machine,
    makers,
    pip,
    records,
    wheels,
)
from localspec_build.choice import Choice, Published
from localspec_build.failure import SetupFailed
from localspec_build.makers import Reach
from localspec_build.rebuild import rebuild
from localspec_build.records import BuildRequest, Installed
from localspec_build.target import Target
from localspec_build.wheels import install
from tests.build.fakes import Site

CPU = Choice("cpu", "x86_64")
CUDA = Choice(
    "cuda", "a card", ("-DGGML_CUDA=on",), (Published("cu130", "cuda-toolkit[cudart]==13.0.*"),)
)


def test_the_folders_are_those_of_platformdirs():
    assert folders.data() == platformdirs.user_data_path("localspec", appauthor=False)
    assert folders.cache() == platformdirs.user_cache_path("localspec", appauthor=False)


def test_a_build_is_made_once_for_its_options_and_installed_from_there_on(site):
    assert install(CPU, site.target) == Installed(
        "cpu", "x86_64", "built here", "", ("-DGGML_RPC=on",), kernels.current()
    )
    install(CPU, site.target)
    assert len(site.calls("-DGGML_RPC=on|-m pip wheel", "--no-cache-dir")) == 1
    assert len(site.calls("-m pip install", "--no-index", "--force-reinstall")) == 2
    install(Choice("cpu", "x86_64", ("-DGGML_NATIVE=off",)), site.target)
    assert len(site.calls("-m pip wheel")) == 2


def test_nothing_is_compiled_that_is_not_loaded(site):
    install(CPU, site.target)
    [call] = site.calls("-m pip wheel")
    options = shlex.split(call.partition("|")[0])
    included = dict(option[2:].split("=", 1) for option in options)
    assert "LLAVA_BUILD" not in included  # which is on: pictures need it
    common = Path(included["CMAKE_PROJECT_llama.cpp_INCLUDE"]).read_text()
    assert "set(LLAMA_BUILD_COMMON OFF)" in common


def test_a_build_with_all_parts_that_was_kept_serves_who_is_in_a_hurry(site):
    whole = wheels.store() / f"cpu-{wheels.digest(*CPU.cmake)}"
    whole.mkdir(parents=True)
    (whole / "llama_cpp_python-1.whl").touch()
    made = install(CPU, site.target, quick=True)
    assert made == Installed("cpu", "x86_64", "built here", "", CPU.cmake)
    assert not site.calls("-m pip wheel")
    install(CPU, site.target)
    assert len(site.calls("-m pip wheel")) == 1


def test_who_is_in_a_hurry_gets_the_makers_build_unless_one_was_built_here(site):
    made = install(CPU, site.target, quick=True)
    assert made == Installed("cpu", "x86_64", "cpu", "")
    install(CPU, site.target)
    assert install(CPU, site.target, quick=True).source == "built here"
    assert len(site.calls("-m pip wheel")) == 2  # one was fetched and one was built


def test_the_makers_build_that_fails_on_this_processor_gives_way_to_one_from_here(site, capsys):
    site.let(broken="/cpu/")
    assert install(CPU, site.target, quick=True).source == "built here"
    assert "The makers' build cpu does not work here: OSError" in capsys.readouterr().err


UNREACHED = "Could not fetch URL https://site/cpu/: connection error: no route - skipping"


def test_makers_who_are_out_of_reach_are_asked_once_an_hour(site, tmp_path, monkeypatch):
    offline = Site(tmp_path / "offline", UNREACHED)
    offline.let(refuses="--index-url")
    two = replace(CUDA, published=(Published("cu132"), Published("cu130")))
    assert install(two, offline.target).source == "built here"
    assert install(CPU, offline.target, quick=True).source == "built here"
    assert len(offline.calls("--index-url")) == 1
    hour_ago = time.time() - makers.HOLD_SECONDS - 1
    os.utime(Reach(wheels.store()).file, (hour_ago, hour_ago))
    install(two, offline.target)
    assert len(offline.calls("--index-url")) == 2


def test_makers_are_asked_again_where_the_whole_network_was_away(site, tmp_path):
    offline = Site(tmp_path / "offline", UNREACHED)
    offline.let(refuses="--index-url download")
    for _ in range(2):
        with pytest.raises(SetupFailed):
            install(CPU, offline.target, quick=True)
    assert len(offline.calls("--index-url")) == 2


def test_makers_who_have_no_fitting_build_are_not_out_of_reach(site):
    site.let(refuses="--index-url")
    install(CUDA, site.target)
    install(CUDA, site.target)
    assert len(site.calls("--index-url")) == 2


def test_a_host_that_does_not_answer_costs_seconds(tmp_path):
    log = tmp_path / "log"
    assert not pip.run(["sh", "-c", "exec sleep 30"], log=log, patience_seconds=0.1)
    assert makers.unreachable(pip.content(log))
    began = ["sh", "-c", "echo '  Downloading x.whl (9 MB)'; sleep 1.2"]
    assert pip.run(began, log=log, patience_seconds=0.1)


def test_the_makers_wheel_goes_before_a_build_and_brings_its_libraries(site):
    made = install(CUDA, site.target)
    assert made.source == "cu130"
    assert Path(made.libraries, "nvidia/cu13/lib/libcudart.so.13").exists()
    assert records.installed(site.root) == made
    assert not site.calls("-DGGML_CUDA=on")
    assert site.calls("libcudart.so.13")
    install(CUDA, site.target)
    assert len(site.calls("--index-url")) == 1


def test_who_wants_a_build_gets_no_wheel_of_the_makers(site):
    assert install(CUDA, site.target, from_source=True).source == "built here"
    assert not site.calls("--index-url")
    install(CUDA, site.target, from_source=True)
    assert len(site.calls("--config-settings")) == 2  # built anew, whatever was kept


def test_a_build_that_was_stopped_goes_on_where_it_was(site):
    site.let(refuses="--config-settings")
    with pytest.raises(SetupFailed):
        install(CPU, site.target)
    [stopped] = site.calls("-m pip wheel")
    home = Path(stopped.split()[-1])
    site.let(refuses="")
    install(CPU, site.target, from_source=True)
    assert site.calls("-m pip wheel") == [stopped, stopped]  # in the same folders
    assert not home.exists()  # nothing is left of them


def test_sources_that_were_unpacked_are_not_unpacked_again(site):
    folder = site.root / "sources"
    home = wheels.unpack_sources(folder, site.target)
    (home / "x").write_text("touched")
    assert wheels.unpack_sources(folder, site.target) == home
    assert (home / "x").read_text() == "touched"
    site.let(refuses="download")
    assert wheels.unpack_sources(folder, site.target) is None


def test_a_build_goes_beside_an_environment_without_changing_it(site):
    wheels.install_built(CPU, site.target, False, "--target", "beside")
    assert site.calls("-m pip install", "--target beside")
    assert records.installed(site.root) is None


@pytest.mark.parametrize("fault", [{"refuses": "--index-url"}, {"broken": "cu130"}])
def test_without_a_makers_wheel_that_loads_it_is_built(site, fault):
    site.let(**fault)
    assert install(CUDA, site.target).source == "built here"
    assert site.calls("-DGGML_CUDA=on|-m pip wheel", "--config-settings")


def test_where_it_cannot_be_built_the_reason_is_the_error(site):
    site.let(refuses="--index-url")
    lacking = Choice("vulkan", "", published=(Published("vulkan"),), unbuildable="needs glslc")
    with pytest.raises(SetupFailed, match="needs glslc"):
        install(lacking, site.target)
    assert not site.calls("--no-binary")


def test_a_build_that_was_kept_needs_nothing_to_build_with(site):
    wheels.install_built(CPU, site.target, False)
    kept = replace(CPU, unbuildable="needs glslc")
    assert install(kept, site.target).source == "built here"
    with pytest.raises(SetupFailed, match="needs glslc"):
        install(kept, site.target, from_source=True)
    assert install(kept, site.target).source == "built here"  # it was not thrown away
    assert len(site.calls("--config-settings")) == 1


def test_a_build_that_cannot_be_loaded_is_an_error_and_not_noted(site):
    site.let(broken="cpu-")
    with pytest.raises(SetupFailed, match=r"does not work: OSError: libcudart.so.13 is missing"):
        install(CPU, site.target)
    assert records.installed(site.root) is None


def test_a_build_for_cards_takes_as_many_compilers_as_the_memory_holds():
    assert effort.jobs("cuda", 3 << 30, 16) == 3
    assert effort.jobs("hip", 1, 16) == 1
    assert effort.jobs("cuda", 64 << 30, 16) == effort.jobs("cpu", 1, 16) == 0
    assert 2**20 < machine.free_memory() < machine.free_memory(Path("/nowhere"))
    level = {"CMAKE_BUILD_PARALLEL_LEVEL": "8"}
    assert effort.environment("cuda", level) == {}


def test_nvcc_takes_the_cplusplus_compiler_that_was_chosen(site):
    cxx = str(site.fake.tool("g++-14"))
    assert effort.environment("cpu", {"CXX": cxx}) == {"CUDAHOSTCXX": cxx}
    assert effort.environment("cpu", {"CXX": cxx, "CUDAHOSTCXX": "other"}) == {}
    assert effort.environment("cpu", {"CXX": "ccache g++"}) == {}


@pytest.mark.skipif(sys.platform == "win32", reason="it has no groups of processes")
@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
def test_what_pip_started_ends_with_it(tmp_path, name):
    """Compilers once went on for hours after their set-up had been stopped."""
    script = "sleep 0.5; sleep 300 & echo $! > new; mv new child; wait"
    code = (
        "from pathlib import Path; from localspec_build import pip\n"
        f"pip.run(['sh', '-c', {script!r}], log=Path('log'))"
    )
    setup = subprocess.Popen([sys.executable, "-c", code], cwd=tmp_path, stderr=subprocess.DEVNULL)
    child = tmp_path / "child"
    while not child.exists():
        time.sleep(0.02)
    compiler = psutil.Process(int(child.read_text()))
    setup.send_signal(getattr(signal, name))
    setup.wait(timeout=60)
    with suppress(psutil.NoSuchProcess):
        compiler.wait(timeout=60)
    assert not compiler.is_running()


def test_a_kept_build_that_cannot_be_loaded_any_more_is_built_anew_once(site, capsys):
    install(CPU, site.target)
    site.let(broken="cpu-")
    with pytest.raises(SetupFailed, match="does not work"):
        install(CPU, site.target)
    assert len(site.calls("-m pip wheel")) == 2
    assert "does not work any more: OSError" in capsys.readouterr().err


def test_the_index_s_toolkit_is_fetched_once_and_named_to_cmake(site):
    choice = Choice("cuda", "", ("-DGGML_CUDA=on",), toolkit="cuda-toolkit[nvcc]>=13.0,<13.1")
    home = cuda_toolkit.folder_of(choice.toolkit) / "nvidia/cu13"
    install(choice, site.target)
    made = install(choice, site.target)
    assert f"-DCUDAToolkit_ROOT={home}" in made.cmake
    assert f"-DCMAKE_CUDA_COMPILER={home}/bin/nvcc" in made.cmake
    assert any(option.endswith(f"-rpath,{home}/lib") for option in made.cmake)
    assert len(site.calls("--target")) == 1
    assert (home / "lib64/libcudart.so").resolve() == home / "lib/libcudart.so.13"


@pytest.mark.parametrize("own", ["", "/some/disk"])
def test_the_toolkit_is_unpacked_on_the_disk_that_it_stays_on(site, monkeypatch, own):
    monkeypatch.delenv("TMPDIR", raising=False)
    if own:
        monkeypatch.setenv("TMPDIR", own)
    cuda_toolkit.install("cuda-toolkit[nvcc]", site.target.python, wheels.log())
    used = (site.root / "temporary").read_text().strip()
    assert used == own or Path(used).parent == folders.data() / "cuda"
    assert [each.name for each in (folders.data() / "cuda").iterdir()] == ["cuda-toolkit-nvcc"]


def test_a_build_for_a_card_that_fails_gives_way_to_the_processors_for_good(site, capsys):
    site.fake.nvidia()
    site.let(refuses="-DGGML_CUDA --index-url")
    made = rebuild(BuildRequest("auto"), site.target, or_processor=True)
    assert made.kind == "cpu"
    assert records.requested() == BuildRequest("cpu")
    err = capsys.readouterr().err
    assert "llama.cpp for cuda: NVIDIA GeForce RTX 4090, driver for CUDA 13.0" in err
    assert "The build for the processor takes its place" in err


def test_a_wish_that_fails_is_an_error_and_not_remembered(site):
    site.fake.nvidia()
    site.let(refuses="-DGGML_CUDA --index-url")
    records.remember(BuildRequest("cpu"))
    with pytest.raises(SetupFailed):
        rebuild(BuildRequest("cuda", asked=True), site.target)
    assert records.requested() == BuildRequest("cpu")


def test_a_build_for_the_processor_that_fails_is_not_tried_twice(site):
    site.let(refuses="--config-settings")
    with pytest.raises(SetupFailed):
        rebuild(BuildRequest("auto"), site.target, or_processor=True)
    assert len(site.calls("-m pip wheel")) == 1


def test_what_was_asked_for_is_remembered_and_cmake_args_are_a_wish(site, monkeypatch):
    rebuild(BuildRequest("cpu", asked=True), site.target)
    assert records.requested() == BuildRequest("cpu", asked=True)
    monkeypatch.setenv("CMAKE_ARGS", "-DGGML_BLAS=on '-DX=a b'")
    made = rebuild(records.requested(), site.target)
    assert made.cmake == ("-DGGML_RPC=on", "-DGGML_BLAS=on", "-DX=a b")
    monkeypatch.delenv("CMAKE_ARGS")
    assert records.requested() == BuildRequest("custom", "-DGGML_BLAS=on '-DX=a b'", True)


RECORDS = ["", "[]", "[" * 200_000, "{}", '{"kind": 3}', "\x00\xff", '{"cmake": "\'"}']


@pytest.mark.parametrize("content", RECORDS)
def test_records_that_are_broken_are_none(site, content):
    for place in (folders.data(), site.root):
        place.mkdir(parents=True, exist_ok=True)
        (place / records.NAME).write_text(content)
    assert records.requested() is None
    assert records.installed(site.root) is None


def test_a_record_comes_back_as_it_was_written(site):
    made = Installed("cuda", "RTX", "cu130", "/a folder", ("-DA=x y", "-DB=1;2"))
    records.note(site.root, made)
    assert records.installed(site.root) == made
    assert json.loads((site.root / records.NAME).read_text())["kind"] == "cuda"


@pytest.mark.parametrize(
    ("log", "cause"),
    [
        ("OSError: [Errno 28] No space left on device", "disk is full"),
        ("c++: fatal error: Killed signal", "CMAKE_BUILD_PARALLEL_LEVEL=1"),
        ("nvcc error   : 'cicc' died due to signal 9 (Kill signal)", "PARALLEL_LEVEL=1"),
        ("nvcc fatal   : Unsupported gpu architecture 'compute_61'\n" + "x\n" * 20, "compute_61"),
        ("a.cu(3): error: no such type\n" + "x\n" * 20, "a.cu(3): error: no such type"),
        ("a.cpp(3): error C2065: undeclared\n" + "x\n" * 20, "C2065"),
        ("CMake Error at A.txt:1 (message):\n  Could NOT find V\n" + "x\n" * 20, "NOT find V"),
        ("(from versions: none)", "package index cannot be reached"),
        ("something else", "its whole output is in"),
    ],
)
def test_the_cause_of_a_failure_is_read_from_the_log(tmp_path, log, cause):
    (tmp_path / "log").write_text(log)
    explanation = pip.explain(tmp_path / "log")
    assert cause in explanation
    assert str(tmp_path / "log-failed") in explanation  # the next run of pip writes its own log
    assert (tmp_path / "log-failed").read_text() == log


def test_without_a_compiler_the_command_that_installs_one_is_told(site, monkeypatch):
    monkeypatch.setenv("CXX", "no-such-compiler")
    wheels.log().parent.mkdir(parents=True)
    wheels.log().write_text("ERROR: Failed building wheel for llama-cpp-python")
    assert "no C++ compiler" in pip.explain(wheels.log())


def test_the_wanted_version_is_the_checkouts(site):
    assert Target.of("python", site.root).requirement.startswith("llama-cpp-python>=")
