"""The text that was used last: restored before anybody asks, and never in anybody's way."""

from __future__ import annotations

import os
import threading
import time

import numpy as np
import pytest

from localspec.base.errors import BackendError
from localspec.base.interruption import check_patience
from localspec.base.tokens import tokens_of
from localspec.core.prefix_cache.disk import Disk
from localspec.core.prefix_cache.ram import Ram
from localspec.core.prefix_cache.tiers import CacheTiers
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import EngineParts
from localspec.core.requests.settings import Settings
from localspec.interfaces.backend import Options, Saved
from localspec.running.memory.planner import Limits
from localspec.running.runtime.cache_identity import identity
from localspec.running.runtime.loaded_pair import resolve_and_load
from localspec.running.runtime.loading import parts_of
from localspec.running.runtime.loading_options import Loading
from localspec.running.runtime.pair_files import PairFiles
from tests import engines
from tests.core.requests.test_engine import Harness
from tests.runs import Want, converse, replies, said, scripted

GB = 1 << 30
SHORT = Settings(max_tokens=6, ignore_end=True)


def text(seed, length=600):
    return [int(each) for each in np.random.default_rng(seed).integers(0, 5, length)]


@pytest.fixture
def folder(tmp_path):
    """A folder with texts 1, 2 and 3, of which 2 was used last."""
    disk = Disk(tmp_path / "kept", GB, "model")
    for seed in (1, 2, 3):
        disk.keep(tokens_of(text(seed)), Saved(tokens_of(text(seed)).view(np.uint8), whole=False))
        disk.wait()
        os.utime(disk.best_for(tokens_of(text(seed))).path, (seed, 1000 if seed == 2 else seed))
    return tmp_path / "kept"


def restarted(folder, *, slots=2, identity="model", kind=Disk, reads=True, ram=0):
    """Start an engine as a server does that keeps texts there."""
    model = scripted()
    model.slots = slots
    disk = kind(folder, GB, identity)
    if reads:
        disk.read_newest()
    tiers = CacheTiers(Ram(ram), disk, clock=lambda: 0.0)
    return Harness(model, parts=EngineParts(tiers=tiers)), disk


def idle(harness, most=50):
    """Be without requests until there is nothing more to do."""
    for _ in range(most):
        if not harness.engine.waits:
            return
        harness.engine.idle()
        time.sleep(0.005)


def ask(harness, prompt):
    _, events = harness.ask(prompt, SHORT)
    harness.finish()
    assert said([events[-1]]) == said(replies(scripted(), Silent(), [Want(prompt, SHORT)]))
    return events[-1].usage.cached_tokens


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_the_text_used_last_is_in_a_slot_before_it_is_asked_for(folder, seed):
    assert not Disk(folder, GB, "model").wants(tokens_of(text(seed)))  # so it counts as used
    harness, _ = restarted(folder)
    idle(harness)
    assert [held for held in harness.model.held.values() if held] == [text(seed)]
    for path in folder.iterdir():
        path.unlink()
    assert ask(harness, [*text(seed)[:500], 5, 5]) == 500


def test_where_it_is_not_to_be_read_ahead_slots_stay_empty(folder):
    harness, _ = restarted(folder, reads=False)
    assert not harness.engine.waits
    assert not any(harness.model.held.values())
    assert ask(harness, [*text(2), 5]) == 600


def test_a_request_that_comes_sooner_takes_what_was_read(folder):
    harness, disk = restarted(folder)
    assert disk.has_newest
    assert ask(harness, [*text(2), 5]) == 600
    assert not disk.has_newest


class Slow(Disk):
    """Reads text 2 as from a slow disk, piece by piece, until the test opens the gate."""

    gate = threading.Event()

    def _read_file(self, path):
        while path.stat().st_mtime == 1000 and not self.gate.wait(0.002):
            check_patience()
        return super()._read_file(path)


@pytest.fixture
def slow():
    Slow.gate.clear()
    yield Slow
    Slow.gate.set()


@pytest.mark.parametrize(("prompt", "cached"), [([5, 5, 5], 0), ([*text(1), 5], 600)])
def test_a_request_for_another_text_ends_the_reading_and_does_not_wait(
    folder, slow, prompt, cached
):
    harness, disk = restarted(folder, kind=slow)
    assert ask(harness, prompt) == cached
    assert not disk.has_newest
    assert not any(held == text(2) for held in harness.model.held.values())
    disk.close()


def test_a_request_while_it_is_read_waits_for_it_rather_than_reading_all_anew(folder, slow):
    harness, _ = restarted(folder, kind=slow)
    threading.Timer(0.05, slow.gate.set).start()
    assert ask(harness, [*text(2), 5]) == 600


def test_an_engine_closes_while_it_is_read(folder, slow):
    harness, _ = restarted(folder, kind=slow)
    harness.engine.close()


@pytest.mark.parametrize("slots", [1, 2])
def test_it_never_takes_the_place_of_another_text(folder, slots):
    harness, disk = restarted(folder, slots=slots)
    while not disk._early.is_read:
        time.sleep(0.005)
    prompts = [[*[4, seed] * 200, 5] for seed in range(slots)]
    converse(harness.engine, [Want(prompt, SHORT) for prompt in prompts])
    before = dict(harness.model.held)
    idle(harness)
    assert harness.model.held == before
    assert not harness.engine.waits


def test_nor_room_in_a_pool_that_others_have(folder):
    harness, _ = restarted(folder)
    harness.model.pool = 599
    idle(harness)
    assert not any(harness.model.held.values())


@pytest.mark.parametrize("identity", ["another model", "the same with another type of KV cache"])
def test_texts_of_others_are_left_alone(folder, identity):
    harness, _ = restarted(folder, identity=identity)
    assert not harness.engine.waits
    assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize("at", [0, 100, 500, -1])
def test_one_that_is_cut_is_removed_and_read_anew(folder, at, caplog):
    newest = max(folder.iterdir(), key=lambda path: path.stat().st_mtime)
    newest.write_bytes(newest.read_bytes()[:at])
    harness, _ = restarted(folder)
    idle(harness)
    assert not any(harness.model.held.values())
    assert not newest.exists()
    assert "was damaged" in caplog.text
    assert ask(harness, [*text(2), 5]) == 0


def test_one_that_the_engine_cannot_restore_is_no_matter(folder):
    harness, _ = restarted(folder)
    restore = harness.model.restore

    def refuse(*_):
        raise BackendError("there is no room")

    harness.model.restore = refuse
    idle(harness)
    harness.model.restore = restore
    assert ask(harness, [*text(2), 5]) == 600


def test_memory_that_runs_short_takes_what_was_read_and_not_restored(folder):
    harness, disk = restarted(folder)
    while not disk._early.is_read:
        time.sleep(0.005)
    assert harness.engine.slots.make_room()
    assert not disk.has_newest
    assert not harness.engine.slots.make_room()


def test_a_text_that_was_restored_is_not_written_again(folder):
    harness, _ = restarted(folder)
    before = {path.stat().st_ino for path in folder.iterdir()}
    idle(harness)
    harness.engine.close()
    assert {path.stat().st_ino for path in folder.iterdir()} == before


def test_a_model_restores_it_if_it_was_loaded_so(tmp_path):
    options = Options(slots=1, context=512, batch=64, threads=1)
    pair_files = PairFiles.locate(engines.tiny("llama"), None, "auto")
    with resolve_and_load(pair_files, options, Limits()) as loaded:
        disk = Disk(tmp_path, GB, identity(loaded))
        disk.keep(tokens_of(text(1)), Saved(np.ones(9, np.uint8), whole=False))
        disk.close()
        for restores in (False, True):
            loading = Loading(cache_dir=tmp_path, restores=restores)
            assert parts_of(loaded, loading).tiers.has_newest is restores
