"""An environment whose Python and pip are a shell script, with a home of its own."""

from __future__ import annotations

import os

import pytest

from localspec_build import kernels
from tests.build.fakes import Site


@pytest.fixture
def site(tmp_path, monkeypatch):
    for name in ("XDG_CACHE_HOME", "XDG_DATA_HOME"):
        monkeypatch.setenv(name, str(tmp_path / name))
    for name in ("CMAKE_ARGS", "CUDAARCHS"):
        monkeypatch.delenv(name, raising=False)
    made = Site(tmp_path / "site")
    made.fake.file("kernels/products.cpp", "// of this test")
    monkeypatch.setattr(kernels, "FOLDER", made.root / "kernels")
    monkeypatch.setenv("PATH", f"{made.fake.bin}{os.pathsep}/usr/bin{os.pathsep}/bin")
    return made
