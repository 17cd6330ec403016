"""CUDA's libraries of the package index, loaded before llama.cpp."""

from __future__ import annotations

import shutil
from pathlib import Path

import llama_cpp

from localspec_build import records
from localspec_build.records import Installed
from localspec_llamacpp import libraries


def test_the_libraries_of_a_makers_build_are_loaded_and_what_is_broken_is_left_out(tmp_path):
    assert libraries.load(tmp_path) == []
    folder = tmp_path / "cuda" / "nvidia" / "cu13" / "lib"
    folder.mkdir(parents=True)
    some = next((Path(llama_cpp.__file__).parent / "lib").glob("*ggml-base.*"))
    shutil.copy(some, folder / "libcudart.so.13")
    (folder / "libcublas.so.13").write_text("no library")
    (folder / "libnvblas.so.13").write_text("not asked for")
    records.note(tmp_path, Installed("cuda", "RTX", "cu130", str(tmp_path / "cuda")))
    assert libraries.load(tmp_path) == ["libcudart.so.13"]
    shutil.rmtree(folder)
    assert libraries.load(tmp_path) == []
