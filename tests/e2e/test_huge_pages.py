"""Weights of the starter model in huge pages, or mapped from their file."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from localspec.interfaces.backend import Device, Options, Row, silent
from localspec.running.models.locate import locate
from localspec_llamacpp import loading
from localspec_llamacpp.bindings import huge_pages
from localspec_llamacpp.bindings.weights import Reading
from tests.e2e.conftest import STARTER

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="huge pages are asked for on Linux")

READ = Options(context=64, gpu_layers=0)
MAPPED = Options(context=64, gpu_layers=0, mmap=True)
TOKENS = np.arange(100, 112, dtype=np.int32)


@pytest.fixture
def path():
    return locate(STARTER).path


def asked_for():
    """Count the bytes of this process for which huge pages were asked."""
    total = size = 0
    for line in Path("/proc/self/smaps").read_text().splitlines():
        if line.startswith("Size:"):
            size = int(line.split()[1]) << 10
        if line.startswith("VmFlags:") and "hg" in line.split():
            total += size
    return total


def is_mapped(path):
    return path.name in Path("/proc/self/maps").read_text()


def test_weights_are_read_into_huge_pages_where_the_system_has_them(path):
    before = asked_for()
    with closing(loading.load(path, READ)):
        grown, mapped = asked_for() - before, is_mapped(path)
    assert mapped is not huge_pages.available()
    assert (grown > 0.9 * path.stat().st_size) is huge_pages.available()
    assert asked_for() - before < 1 << 24  # they are given back


def test_they_are_asked_for_before_weights_are_read():
    """A page that was touched before stays small."""
    callback = Reading(silent, huge_pages.allocated()).callback
    data, before = bytearray(64 << 20), asked_for()
    assert callback(0.5, None)
    assert asked_for() == before
    assert callback(0.0, None)
    assert (asked_for() - before >= len(data)) is huge_pages.ENABLED.exists()


def test_who_wants_them_mapped_has_them_mapped(path):
    before = asked_for()
    with closing(loading.load(path, MAPPED)):
        assert is_mapped(path)
        assert asked_for() == before


@pytest.mark.parametrize(("share", "mapped"), [(0.7, False), (0.8, True)])
def test_weights_beside_which_little_is_free_stay_in_their_file(path, share, mapped, monkeypatch):
    host = Device("host memory", "cpu", total := int(path.stat().st_size / share), total)
    monkeypatch.setattr(loading, "memory", lambda: host)
    monkeypatch.setattr(huge_pages, "available", lambda: True)
    with closing(loading.load(path, READ)):
        assert is_mapped(path) is mapped


def test_logits_are_the_same_from_either(path):
    shares = []
    for options in (replace(READ, products="llama.cpp"), MAPPED):
        with closing(loading.load(path, options)) as model:
            shares.append([np.array(each) for each in model.forward([Row(0, TOKENS, 4)])])
    for ours, theirs in zip(*shares, strict=True):
        np.testing.assert_array_equal(ours, theirs)
