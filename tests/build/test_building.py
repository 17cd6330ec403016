"""The builds that `localspec doctor` asks for."""

from __future__ import annotations

import sys

import pytest

from localspec.base.errors import BackendError
from localspec.running.models import engines
from localspec_build import kernels, records
from localspec_build.rebuild import rebuild
from localspec_build.records import BuildRequest, Installed
from localspec_llamacpp.building import build


def test_a_kind_that_is_asked_for_is_built_and_stays_the_choice(site):
    assert build("cpu", False, site.target).startswith("is built for cpu (")
    assert records.requested() == BuildRequest("cpu", asked=True)
    build("auto", False, site.target)
    assert records.requested() == BuildRequest("cpu")


def test_what_fits_is_left_alone_and_what_does_not_is_replaced(site):
    made = Installed("cpu", "", "built here", products=kernels.current())
    records.note(site.root, made)
    assert build("", False, site.target) == "is built for cpu, which fits"
    assert not site.calls("-m pip wheel")
    site.fake.nvidia()
    site.let(refuses="--index-url")
    assert "is built for cuda (NVIDIA GeForce RTX 4090" in build("", False, site.target)
    assert build("", False, site.target) == "is built for cuda, which fits"


def test_the_makers_build_for_many_processors_is_replaced_by_one_for_this(site, capsys):
    site.fake.tool("c++")
    made = rebuild(BuildRequest("auto"), site.target, quick=True)
    assert made.source == "cpu"
    line = capsys.readouterr().err.splitlines()[-1]
    assert line.startswith("This build is for processors of many kinds.")
    assert line.endswith("localspec doctor --fix`.")
    assert "is built for cpu (x86_64), built here" in build("", False, site.target)
    assert build("", False, site.target) == "is built for cpu, which fits"


def test_a_build_with_other_products_gives_way_to_one_with_those_of_now(site):
    for products in ("", "0123456789ab"):
        records.note(site.root, Installed("cpu", "", "built here", products=products))
        assert "is built for cpu (" in build("", False, site.target)
        assert build("", False, site.target) == "is built for cpu, which fits"
    site.fake.file("kernels/products.cpp", "// of the next release")
    assert "is built for cpu (" in build("", False, site.target)
    assert len(site.calls("-m pip wheel")) == 2  # one for each content of the sources


def test_a_library_of_somebody_else_gives_way_to_one_with_products(site):
    assert "is built for cpu (" in build("", False, site.target)
    assert build("", False, site.target) == "is built for cpu, which fits"


def test_a_new_card_calls_for_a_build_with_its_code(site):
    site.fake.nvidia("NVIDIA GeForce RTX 3060, 8.6")
    site.let(refuses="--index-url")
    build("", False, site.target)
    site.fake.nvidia("NVIDIA GeForce RTX 3060, 8.6\nNVIDIA GeForce RTX 5090, 12.0")
    assert "NVIDIA GeForce RTX 3060, NVIDIA GeForce RTX 5090" in build("", False, site.target)
    assert "-DCMAKE_CUDA_ARCHITECTURES=86-real;120-real" in records.installed(site.root).cmake
    site.fake.nvidia("NVIDIA GeForce RTX 5090, 12.0")
    assert build("", False, site.target) == "is built for cuda, which fits"


def test_a_library_that_cannot_be_loaded_is_built_anew(site):
    site.let(broken="old", installed="old")
    assert "built here" in build("", False, site.target)


def test_files_are_tried_and_measured_anew_where_the_build_has_other_options(site, monkeypatch):
    monkeypatch.setattr(sys, "prefix", str(site.root))
    seen = []
    for cmake in ((), ("-DGGML_BLAS=on",)):
        records.note(site.root, Installed("cpu", "", "built here", cmake=cmake))
        seen.append(engines.engine("llamacpp").installed().circumstances)
    assert seen[0] != seen[1]


def test_a_library_without_a_record_is_known_by_its_backends(site):
    site.let(backends="Vulkan CPU")
    assert "is built for cpu (" in build("", False, site.target)


def test_a_wish_of_the_users_goes_before_the_machines(site):
    site.fake.nvidia()
    records.remember(BuildRequest("cpu", asked=True))
    made = Installed("cpu", "", "built here", products=kernels.current())
    records.note(site.root, made)
    assert "for cpu, as asked for; `--rebuild auto`" in build("", False, site.target)
    records.remember(BuildRequest("cpu"))
    assert "is built for cuda" in build("", False, site.target)


def test_what_the_machine_chooses_gives_way_to_the_processor_if_it_fails(site):
    site.fake.nvidia()
    site.let(refuses="-DGGML_CUDA --index-url")
    assert "is built for cpu (" in build("auto", False, site.target)


def test_what_fails_is_one_error(site):
    with pytest.raises(BackendError, match="No driver for an NVIDIA card"):
        build("cuda", False, site.target)
