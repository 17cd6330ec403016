"""CUDA's libraries of the package index, loaded before llama.cpp."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
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


def test_libraries_from_elsewhere_are_loaded_once_and_from_there_alone(tmp_path):
    shutil.copytree(Path(llama_cpp.__file__).parent / "lib", tmp_path / "lib", symlinks=True)
    script = "from localspec_llamacpp import ggml; print(ggml.library('ggml-base')._name)"
    environment = {**os.environ, "LLAMA_CPP_LIB_PATH": str(tmp_path / "lib")}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert Path(done.stdout.strip()).parent == tmp_path / "lib"
