"""Devices of engines, remembered for commands that load nothing."""

from __future__ import annotations

import os

import pytest

from localspec.interfaces.backend import Device
from localspec.running.models import seen_devices as module
from localspec.running.models.engines import Engine, engine
from localspec.running.models.seen_devices import KEPT_SECONDS, forget_devices, seen_devices

GGUF_ENGINE = engine("llamacpp")
CARD = Device("a card", "gpu", 8 << 30, 1 << 30)


class Asked:
    def __init__(self):
        self.asked = 0

    def probe(self):
        self.asked += 1
        return [CARD]


@pytest.fixture
def asked(monkeypatch, tmp_path):
    asked = Asked()
    monkeypatch.setattr(module, "folder", lambda: tmp_path)
    monkeypatch.setattr(Engine, "backend", lambda _: asked)
    return asked


def test_an_engine_is_asked_once_and_its_devices_are_taken_for_free(asked):
    for _ in range(3):
        [device] = seen_devices(GGUF_ENGINE)
        assert (device.name, device.free_bytes) == ("a card", 8 << 30)
    assert asked.asked == 1


def test_it_is_asked_again_after_a_day_for_other_workers_or_when_it_is_forgotten(
    asked, monkeypatch, tmp_path
):
    seen_devices(GGUF_ENGINE)
    [place] = tmp_path.glob("*.json")
    os.utime(place, (0, place.stat().st_mtime - KEPT_SECONDS - 60))
    seen_devices(GGUF_ENGINE)
    assert asked.asked == 2
    monkeypatch.setenv("LOCALSPEC_WORKERS", "10.0.0.2:50052")
    seen_devices(GGUF_ENGINE)
    assert asked.asked == 3
    forget_devices()
    seen_devices(GGUF_ENGINE)
    assert asked.asked == 4


@pytest.mark.parametrize("text", ["", "[]", "{}", "[" * 100_000, '{"circumstances": []}'])
def test_a_record_that_is_broken_is_written_anew(asked, tmp_path, text):
    (tmp_path / "llamacpp.json").write_text(text)
    assert len(seen_devices(GGUF_ENGINE)) == 1
    seen_devices(GGUF_ENGINE)
    assert asked.asked == 1
