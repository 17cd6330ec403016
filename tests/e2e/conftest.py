"""The starter model in other precisions, by llama.cpp's own quantiser."""

from __future__ import annotations

import pytest

from localspec.running.models.locate import locate
from requantising import requantise

STARTER = "smollm2-135m"


@pytest.fixture(scope="session")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("starter")


@pytest.fixture(scope="session")
def q8(folder):
    path = folder / "q8_0.gguf"
    requantise(locate(STARTER).path, path, "q8_0")
    return path


@pytest.fixture(scope="session")
def q4(folder):
    path = folder / "q4_0.gguf"
    requantise(locate(STARTER).path, path, "q4_0")
    return path
