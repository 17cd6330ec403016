"""LocalSpec's products on their way into llama.cpp: which build has them, and which should."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import pytest

from localspec_build import kernels, records, wheels
from localspec_build.choice import Choice, Published, serves
from localspec_build.machine import Machine
from localspec_build.rebuild import rebuild
from localspec_build.records import BuildRequest, Installed
from localspec_build.wheels import install

CPU = Choice("cpu", "x86_64")
ERROR = "/x/localspec_llamacpp/kernels/products.cpp:7:1: error: no member named 'extra'"
# As llama.cpp's: the library is a target of a folder below, which comes after project().
PROJECT = """cmake_minimum_required(VERSION 3.14...3.28)
project("llama.cpp" CXX)
add_subdirectory(ggml)
"""
PART = """add_library(ggml-cpu SHARED part.cpp)
target_compile_definitions(ggml-cpu PRIVATE FLAG_OF_THE_TARGET=7)
"""
SOURCE = """#include "answer.h"
extern "C" __attribute__((visibility("default"))) int answer() { return ANSWER; }
"""


def test_the_version_changes_with_every_source_and_with_the_way_they_are_compiled(tmp_path):
    folder, rules = tmp_path / "kernels", tmp_path / "products.cmake"
    assert kernels.version(folder, rules) == ""
    folder.mkdir()
    rules.write_text("one way")
    versions = [kernels.version(folder, rules)]
    for path, text in (
        (folder / "products.cpp", "a"),
        (folder / "products.cpp", "b"),
        (folder / "types.h", "b"),
        (rules, "another way"),
    ):
        path.write_text(text)
        versions.append(kernels.version(folder, rules))
    assert versions[0] == ""
    assert len(set(versions)) == len(versions)
    (folder / "notes.txt").write_text("of no consequence")
    assert kernels.version(folder, rules) == versions[-1]


def test_new_products_are_built_once_and_the_earlier_build_serves_who_is_in_a_hurry(site):
    first = install(CPU, site.target)
    site.fake.file("kernels/products.cpp", "// of the next release")
    hurried = install(CPU, site.target, quick=True)
    assert hurried.products == "" != first.products
    assert len(site.calls("-m pip wheel")) == 1
    second = install(CPU, site.target)
    assert second.products == kernels.current() != first.products
    assert install(CPU, site.target, quick=True) == second
    assert len(site.calls("-m pip wheel")) == 2


def test_who_gets_an_earlier_build_is_told_once_how_to_get_the_newest(site, capsys):
    site.fake.tool("c++")
    rebuild(BuildRequest("cpu"), site.target)
    assert "products" not in capsys.readouterr().err
    site.fake.file("kernels/products.cpp", "// of the next release")
    rebuild(BuildRequest("cpu"), site.target, quick=True)
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("This build lacks LocalSpec's newest products")
    assert line.endswith("localspec doctor --fix`.")


def test_an_earlier_build_that_does_not_work_any_more_is_no_help(site):
    install(CPU, site.target)
    site.let(broken=wheels.place("cpu", CPU.cmake).name)
    site.fake.file("kernels/products.cpp", "// of the next release")
    assert install(CPU, site.target, quick=True).source == "cpu"


def test_what_cannot_be_built_serves_as_it_was_built_before(site):
    install(CPU, site.target)
    site.fake.file("kernels/products.cpp", "// of the next release")
    assert install(Choice("cpu", "", unbuildable="needs glslc"), site.target).products == ""


def test_products_that_do_not_compile_are_left_out_and_not_tried_again(site, capsys):
    site.let(uncompilable=ERROR)
    made = install(CPU, site.target)
    assert "do not compile here" in (err := capsys.readouterr().err)
    assert ERROR in err
    assert made.products == kernels.current()  # of which another build would have no more
    install(CPU, site.target)
    assert len(site.calls("-m pip wheel")) == 2
    assert len(site.calls("-m pip wheel", kernels.WITHOUT)) == 1


def test_a_fault_elsewhere_is_no_fault_of_the_products():
    assert kernels.fault(f"one line\n  {ERROR}\nanother") == ERROR
    assert kernels.fault(ERROR.replace("localspec_llamacpp/kernels", "ggml-cpu")) == ""
    assert kernels.fault(ERROR.replace("error", "warning")) == ""


@pytest.mark.parametrize(
    ("made", "choice", "compiler", "expected"),
    [
        (Installed("cpu", "", "built here", products="new"), CPU, True, True),
        (Installed("cpu", "", "built here", products="old"), CPU, True, False),
        (Installed("cpu", "", "built here"), CPU, True, False),
        (Installed("cpu", "", ""), CPU, True, False),  # not on record: of plain pip
        (Installed("cpu", "", "built here", products="old"), CPU, False, True),
        (Installed("vulkan", "", "built here"), Choice("vulkan", ""), True, False),
        (Installed("vulkan", "", "vulkan"), Choice("vulkan", ""), True, True),
        (
            Installed("metal", "", "built here"),
            Choice("metal", "", published=(Published("metal"),)),
            True,
            True,  # the makers' would take its place, which has none either
        ),
        (
            Installed("vulkan", "", "built here"),
            Choice("vulkan", "", unbuildable="needs glslc"),
            True,
            True,
        ),
    ],
)
def test_a_build_serves_with_the_products_that_can_be_had(made, choice, compiler, expected):
    machine = Machine(system="linux", compiler=compiler, products="new")
    assert serves(made, choice, machine) is expected


def test_records_of_earlier_releases_name_no_products(tmp_path):
    place = tmp_path / records.NAME
    place.write_text(
        '{"kind": "cpu", "because": "", "source": "built here", "libraries": "", "cmake": ""}'
    )
    assert records.installed(tmp_path) == Installed("cpu", "", "built here")


@pytest.fixture
def sources(tmp_path):
    """A project that looks like llama.cpp, beside LocalSpec's folders."""
    for name, text in {
        "llama/CMakeLists.txt": PROJECT,
        "llama/ggml/CMakeLists.txt": PART,
        "llama/ggml/part.cpp": "",
        "localspec_llamacpp/kernels/answer.cpp": SOURCE,
        "localspec_llamacpp/kernels/answer.h": "#define ANSWER FLAG_OF_THE_TARGET",
    }.items():
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (tmp_path / "localspec_build").mkdir()
    for rules in (wheels.LEAN_FILE, kernels.RULES):
        shutil.copy(rules, tmp_path / "localspec_build")
    return tmp_path


def configured(sources, *options):
    """Configure the project as a build of LocalSpec does; return CMake's line on the products."""
    lean = f"-DCMAKE_PROJECT_llama.cpp_INCLUDE={sources / 'localspec_build' / 'lean.cmake'}"
    where = ("-S", str(sources / "llama"), "-B", str(sources / "made"))
    done = subprocess.run(
        ["cmake", *where, lean, *options], capture_output=True, text=True, check=True
    )
    return next(line for line in done.stdout.splitlines() if "LocalSpec's products" in line)


needs_cmake = pytest.mark.skipif(not shutil.which("cmake"), reason="CMake is not installed")


@needs_cmake
def test_cmake_compiles_them_into_the_library_with_its_own_flags(sources):
    assert configured(sources).endswith("compiled into ggml-cpu")
    subprocess.run(["cmake", "--build", str(sources / "made")], capture_output=True, check=True)
    [library] = (sources / "made").rglob("libggml-cpu.*")
    assert ctypes.CDLL(str(library)).answer() == 7


@needs_cmake
@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ((kernels.WITHOUT,), "as asked for"),
        (("-DGGML_BACKEND_DL=on",), "ggml-cpu is not one library here"),
        (("-DGGML_CPU_ALL_VARIANTS=on",), "ggml-cpu is not one library here"),
    ],
)
def test_cmake_tells_why_it_leaves_them_out(sources, options, reason):
    assert configured(sources, *options).endswith(f"left out, {reason}")


@needs_cmake
def test_a_release_without_the_library_is_configured_all_the_same(sources):
    (sources / "llama" / "ggml" / "CMakeLists.txt").write_text("add_library(other part.cpp)\n")
    assert configured(sources).endswith("left out, ggml-cpu is not one library here")
