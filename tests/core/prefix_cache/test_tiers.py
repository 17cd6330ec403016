"""Long texts on disk: found again, never trusted, and bounded."""

from __future__ import annotations

import os
import shutil
import sys
import threading
import time
from dataclasses import replace

import numpy as np
import pytest

from localspec.base.errors import BackendError, UsageError
from localspec.base.tokens import tokens_of
from localspec.core.prefix_cache.disk import Disk
from localspec.core.prefix_cache.kept_file import HEAD
from localspec.core.prefix_cache.tiers import MIN_DISK_TOKENS, CacheTiers
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.settings import Settings
from localspec.interfaces.backend import Options, Row, Saved
from localspec.running.memory.planner import Limits
from localspec.running.models.locate import ModelFiles
from localspec.running.runtime.cache_identity import identity
from localspec.running.runtime.loaded_pair import resolve_and_load
from localspec.running.runtime.pair_files import PairFiles
from tests import engines
from tests.runs import Want, converse, replies, said, scripted, translated

GB = 1 << 30
POSIX = sys.platform != "win32"
DATA = np.arange(256, dtype=np.uint8)


def text(seed, length=600):
    return [int(each) for each in np.random.default_rng(seed).integers(0, 5, length)]


def keeping(folder, limit=GB, identity="model"):
    return Disk(folder / "kept", limit, identity)


def kept(store, *texts, whole=False, data=DATA):
    for each in texts:
        store.keep(tokens_of(each), Saved(data, whole))
        store.wait()


def files(folder):
    return sorted((folder / "kept").iterdir())


def found(store, tokens):
    """Return the cached length of a text, and the data."""
    best = store.best_for(tokens_of(tokens))
    return (0, None) if best is None else (best.serves(tokens_of(tokens)), store.read(best))


def test_a_text_that_was_kept_is_found_by_others(tmp_path):
    kept(keeping(tmp_path), text(1), text(2))
    count, data = found(keeping(tmp_path), [*text(2), 1, 2, 3])
    assert (count, data.tolist()) == (600, DATA.tolist())
    assert found(keeping(tmp_path), text(3))[0] < 10
    assert found(keeping(tmp_path, identity="another"), text(2)) == (0, None)
    assert len(files(tmp_path)) == 2


def test_the_longest_shared_beginning_counts(tmp_path):
    store = keeping(tmp_path)
    common = text(1)
    kept(store, [*common, *text(2)], [*common[:300], *text(3)], text(4))
    assert store.best_for(tokens_of([*common, *text(5)])).tokens.tolist() == [*common, *text(2)]
    assert found(store, common[:200])[0] == 200


def test_what_serves_as_a_whole_only_is_not_cut(tmp_path):
    store = keeping(tmp_path)
    kept(store, text(1), whole=True)
    assert found(store, text(1)[:599]) == (0, None)
    assert found(store, [*text(1)[:599], 6]) == (0, None)
    assert found(store, [*text(1), 6])[0] == 600


def test_a_longer_text_takes_the_place_of_those_it_begins_with(tmp_path):
    store = keeping(tmp_path)
    kept(store, text(1), text(2), [*text(1), *text(3)])
    assert len(files(tmp_path)) == 2
    assert not store.wants(tokens_of(text(1)))
    assert store.wants(tokens_of(text(3)))


def test_but_not_where_texts_serve_as_a_whole_only(tmp_path):
    store = keeping(tmp_path)
    kept(store, text(1), [*text(1), *text(3)], whole=True)
    assert len(files(tmp_path)) == 2
    assert [store.wants(tokens_of(text(1)[:size])) for size in (599, 600)] == [True, False]


DAMAGES = {
    "empty": lambda raw: b"",
    "other": lambda raw: b"GGUF" * 100,
    "longer": lambda raw: raw + b"\0",
    **{
        f"cut at {at}": lambda raw, at=at: raw[:at]
        for at in (1, 100, HEAD.size - 1, HEAD.size, 200, -1)
    },
    **{
        f"changed at {at}": lambda raw, at=at: changed(raw, at)
        for at in (0, 20, 60, 90, 112, 119, 121, 130, 2000, -100, -1)
    },
}


def changed(raw, at):
    made = bytearray(raw)
    made[at] ^= 64
    return bytes(made)


@pytest.mark.parametrize("damage", DAMAGES)
@pytest.mark.parametrize("known", [True, False])
def test_what_is_damaged_is_removed_and_never_handed_over(tmp_path, known, damage, caplog):
    store = keeping(tmp_path)
    kept(store, text(1))
    [path] = files(tmp_path)
    if known:
        assert found(store, text(1))[0] == 600
    path.write_bytes(DAMAGES[damage](path.read_bytes()))
    assert found(store, text(1))[1] is None
    assert [record.getMessage() for record in caplog.records] == [
        f"{path} was damaged, and is removed: its text is read again"
    ]
    assert files(tmp_path) == []
    assert found(store, text(1)) == (0, None)
    kept(store, text(1))
    assert found(store, text(1))[0] == 600


def test_a_file_under_anothers_name_is_not_taken_for_it(tmp_path):
    store = keeping(tmp_path)
    kept(store, text(1), text(2))
    one, other = files(tmp_path)
    one.replace(other)
    assert [found(keeping(tmp_path), text(each)) for each in (1, 2)] == [(0, None)] * 2
    assert files(tmp_path) == []


def test_only_its_own_files_are_ever_removed(tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o700)
    for name in ("notes.txt", "thesis.kept", "0123456789abcdef-x.kept", "kept-.parts"):
        (folder / name).write_text("mine")
    kept(keeping(tmp_path, limit=1200), text(1, 200))
    assert found(keeping(tmp_path, limit=1), text(1, 200)) == (0, None)
    assert len(files(tmp_path)) == 4


def test_the_longest_unused_texts_make_room(tmp_path):
    size = HEAD.size + 4 * 600 + 256
    store = keeping(tmp_path, limit=3 * size)
    for at in range(3):
        kept(store, text(at))
        os.utime(store.best_for(tokens_of(text(at))).path, (at, at))
    found(store, text(0))  # used now
    assert not store.wants(tokens_of(text(1)))  # so is this
    kept(store, text(3))
    other = keeping(tmp_path, limit=3 * size)
    assert [found(other, text(at))[0] == 600 for at in range(4)] == [True, True, False, True]
    assert sum(path.stat().st_size for path in files(tmp_path)) == 3 * size
    assert len([path for path in files(tmp_path) if keeping(tmp_path, size)]) == 3
    assert len(files(tmp_path)) == 1


def test_models_share_the_bytes_of_a_folder(tmp_path):
    size = HEAD.size + 4 * 600 + 256
    kept(keeping(tmp_path, identity="one"), text(1))
    os.utime(files(tmp_path)[0], (1, 1))
    kept(keeping(tmp_path, 2 * size - 1, identity="two"), text(1))
    assert found(keeping(tmp_path, identity="one"), text(1)) == (0, None)
    assert found(keeping(tmp_path, identity="two"), text(1))[0] == 600


def test_what_a_dead_process_left_half_written_goes_in_time(tmp_path):
    folder = tmp_path / "kept"
    folder.mkdir(mode=0o700)
    old, new = folder / "kept-old.part", folder / "kept-new.part"
    for path in (old, new):
        path.write_text("half")
    os.utime(old, (time.time() - 7200,) * 2)
    keeping(tmp_path)
    assert files(tmp_path) == [new]


@pytest.mark.skipif(not POSIX, reason="permissions are POSIX")
def test_nobody_else_can_read_what_was_said(tmp_path):
    kept(keeping(tmp_path), text(1))
    assert (tmp_path / "kept").stat().st_mode & 0o777 == 0o700
    assert files(tmp_path)[0].stat().st_mode & 0o777 == 0o600


@pytest.mark.skipif(not POSIX, reason="permissions are POSIX")
@pytest.mark.parametrize("mode", [0o777, 0o770, 0o702])
def test_a_folder_that_others_can_write_to_is_refused(tmp_path, mode):
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept").chmod(mode)
    with pytest.raises(UsageError, match="others can write"):
        keeping(tmp_path)


def test_a_folder_that_cannot_be_is_an_error(tmp_path):
    (tmp_path / "kept").write_text("a file")
    with pytest.raises(UsageError, match="cannot be used"):
        keeping(tmp_path)


def test_a_disk_that_takes_no_more_is_told_once(tmp_path):
    store = keeping(tmp_path)
    (tmp_path / "kept").rmdir()
    for at in range(3):
        kept(store, text(at))
    [notice] = store.take_notices()
    assert "could not be kept" in notice
    assert store.take_notices() == []
    assert found(store, text(1)) == (0, None)
    (tmp_path / "kept").mkdir(mode=0o700)
    kept(store, text(1))
    assert found(store, text(1))[0] == 600
    shutil.rmtree(tmp_path / "kept")
    kept(store, text(2))
    assert len(store.take_notices()) == 1


def test_two_who_write_and_read_at_once_never_see_half_a_text(tmp_path):
    stores = [keeping(tmp_path, limit=9000) for _ in range(2)]
    seen = []

    def work(store, seed):
        for at in range(60):
            each = text((seed + at) % 5)
            kept(store, each, data=np.full(700, each[0], np.uint8))
            for other in map(text, range(5)):
                count, data = found(store, other)
                if count == 600 and data is not None:
                    seen.append(set(data.tolist()) == {other[0]} and len(data) == 700)

    threads = [threading.Thread(target=work, args=(store, at)) for at, store in enumerate(stores)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(seen) > 100
    assert all(seen)
    assert not [store for store in stores if store.take_notices()]


SHORT = Settings(max_tokens=6, ignore_end=True)


def engine(model, store, proposer=None):
    return Engine(model, proposer or Silent(), parts=EngineParts(tiers=CacheTiers(disk=store)))


def once(model, store, prompt, proposer=None):
    """One request to an engine that is closed afterwards."""
    running = engine(model, store, proposer)
    [result] = converse(running, [Want(prompt, SHORT)])
    running.close()
    return result


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("more", [[], [1, 2, 3], text(9)])
def test_after_a_restart_a_conversation_goes_on_from_the_disk(tmp_path, recurrent, more):
    prompt = text(1)
    first = once(scripted(recurrent=recurrent), keeping(tmp_path), prompt)
    longer = [*prompt, *first.tokens, *more, 4]
    second = once(scripted(recurrent=recurrent), keeping(tmp_path), longer, NgramProposer(3, 1))
    assert second.usage.cached_tokens == 605
    [plain] = replies(scripted(), Silent(), [Want(longer, SHORT)])
    assert said([second]) == said([plain])


def test_a_text_that_parts_midway_is_served_as_far_as_it_goes(tmp_path):
    once(scripted(), keeping(tmp_path), text(1))
    other = [*text(1)[:400], *text(2)]
    assert once(scripted(), keeping(tmp_path), other).usage.cached_tokens >= 400
    once(scripted(recurrent=True), keeping(tmp_path / "r"), text(1))
    result = once(scripted(recurrent=True), keeping(tmp_path / "r"), other)
    assert result.usage.cached_tokens == 0
    assert said([result]) == said(replies(scripted(), Silent(), [Want(other, SHORT)]))


def test_what_is_given_up_for_another_text_comes_back_from_the_disk(tmp_path):
    model = scripted()
    model.slots = 1
    store = keeping(tmp_path)
    running = engine(model, store)
    [first] = converse(running, [Want(text(1), SHORT)])
    converse(running, [Want(text(2), SHORT)])
    store.wait()
    [third] = converse(running, [Want([*text(1), *first.tokens, 2], SHORT)])
    assert third.usage.cached_tokens == 605
    running.close()
    assert len(files(tmp_path)) == 2  # the last grew out of the first


@pytest.mark.parametrize(("length", "count"), [(MIN_DISK_TOKENS - 6, 0), (MIN_DISK_TOKENS - 5, 1)])
def test_short_texts_are_not_kept(tmp_path, length, count):
    once(scripted(), keeping(tmp_path), text(1, length))
    assert len(files(tmp_path)) == count


@pytest.mark.parametrize(("held", "cached"), [(345, 345), (344, 600)])
def test_the_disk_is_asked_where_it_has_much_more(tmp_path, held, cached):
    once(scripted(), keeping(tmp_path), text(1))
    running = engine(scripted(), keeping(tmp_path))
    converse(running, [Want([*text(1)[:held], 6], replace(SHORT, max_tokens=1))])
    [result] = converse(running, [Want([*text(1), 6, *text(7, 300)], SHORT)])
    assert result.usage.cached_tokens == cached


def test_the_last_token_of_a_prompt_is_always_read(tmp_path):
    once(scripted(), keeping(tmp_path), text(1))
    prompt = text(1)[:560]
    result = once(scripted(), keeping(tmp_path), prompt)
    assert result.usage.cached_tokens == 559
    assert said([result]) == said(replies(scripted(), Silent(), [Want(prompt, SHORT)]))


def test_what_goes_on_is_not_written_with_every_turn_nor_what_is_there(tmp_path):
    running = engine(scripted(), keeping(tmp_path))
    [first] = converse(running, [Want(text(1), SHORT)])
    converse(running, [Want([*text(1), *first.tokens, 1], SHORT)])
    assert files(tmp_path) == []
    running.close()
    [path] = files(tmp_path)
    before = path.stat().st_ino
    once(scripted(), keeping(tmp_path), [*text(1), *first.tokens, 1])
    assert [each.stat().st_ino for each in files(tmp_path)] == [before]


def idle(desk, looks=8):
    for _ in range(looks):
        desk.idle()


def test_all_is_kept_where_the_interpreter_ends_and_starts_no_threads(tmp_path, monkeypatch):
    running = engine(scripted(), keeping(tmp_path))
    converse(running, [Want(text(seed), SHORT) for seed in range(3)])
    monkeypatch.setattr("concurrent.futures.thread._shutdown", True)
    running.close()
    assert len(files(tmp_path)) == 3


def test_an_idle_text_is_written_before_anybody_ends_the_process(tmp_path):
    store = keeping(tmp_path)
    desk = engine(scripted(), store)
    converse(desk, [Want(text(1, 800), SHORT)])
    assert desk.waits
    idle(desk, 3)
    store.wait()
    assert files(tmp_path) == []
    idle(desk)
    store.wait()
    assert len(files(tmp_path)) == 1
    assert not desk.waits
    # As of a process that was killed: nothing is closed.
    [result] = converse(engine(scripted(), keeping(tmp_path)), [Want(text(1, 800), SHORT)])
    assert result.usage.cached_tokens == 799


def test_an_idle_conversation_is_not_written_anew_with_every_turn(tmp_path):
    store = keeping(tmp_path)
    desk = engine(scripted(), store)
    sizes = []
    for length in (800, 900, 1000, 1200):
        converse(desk, [Want(text(1, length), SHORT)])
        idle(desk)
        store.wait()
        sizes.append(found(store, text(1, 1200))[0])
    assert sizes == [800, 800, 800, 1200]


def test_a_full_disk_does_not_fail_a_request(tmp_path):
    model = scripted()
    model.slots = 1
    store = keeping(tmp_path)
    running = engine(model, store)
    converse(running, [Want(text(1), SHORT)])
    (tmp_path / "kept").rmdir()
    results = []
    for seed in (2, 3, 4):
        results += converse(running, [Want(text(seed), SHORT)])
        store.wait()
    assert sum(len(result.notices) for result in results) == 1
    running.close()


def test_a_damaged_text_is_read_anew_by_the_model(tmp_path):
    once(scripted(), keeping(tmp_path), text(1))
    [path] = files(tmp_path)
    path.write_bytes(changed(path.read_bytes(), -1))
    assert once(scripted(), keeping(tmp_path), [*text(1), 2]).usage.cached_tokens == 0


def test_all_slots_are_kept_when_the_engine_closes(tmp_path):
    running = engine(scripted(), keeping(tmp_path))
    wants = [Want(text(seed), SHORT) for seed in range(4)]
    converse(running, wants)
    running.close()
    running.close()
    assert len(files(tmp_path)) == 4


def test_a_request_whose_text_cannot_be_restored_hears_of_it(tmp_path):
    once(scripted(), keeping(tmp_path), text(1))
    model, heard = scripted(), []
    running = engine(model, keeping(tmp_path))
    running.add(running.prepare(tokens_of([*text(1), 2]), SHORT, heard.append))
    model.context = 100  # so that it fails
    with pytest.raises(AssertionError):
        running.step()
    running.fail(BackendError("as the thread that owns the models does"))
    assert isinstance(heard[-1], BackendError)


def test_a_text_too_large_for_the_folder_is_not_kept(tmp_path):
    once(scripted(), keeping(tmp_path, limit=1000), text(1))
    assert files(tmp_path) == []


@pytest.fixture(scope="module")
def loaded():
    options = Options(slots=1, context=512, batch=64, threads=1)
    files = PairFiles.locate(engines.tiny("llama"), None, "auto")
    with resolve_and_load(files, options, Limits()) as found:
        yield found


def at(found, path, **options):
    """The same pair, loaded from elsewhere or in another way."""
    plan = replace(found.plan, options=replace(found.plan.options, **options))
    target = replace(found.resolved.target, files=ModelFiles(engines.GGUF_ENGINE, path))
    return identity(replace(found, resolved=replace(found.resolved, target=target, plan=plan)))


def test_what_changes_what_is_held_changes_the_identity(tmp_path, loaded):
    path = tmp_path / "model.gguf"
    path.write_bytes(bytes(5 << 20))
    os.utime(path, (1, 1))
    first = at(loaded, path)
    assert first == at(loaded, path) == at(loaded, path, threads=2, batch=32, verbose=True)
    ways = {"kv_type": "q8_0"}, {"context": 256}, {"flash_attention": False}, {"gpu_layers": 1}
    others = {at(loaded, path, **way) for way in (*ways, {"products": "llama.cpp"})}
    others.add(at(loaded, path, mmap=True))  # by which there are no products of LocalSpec
    with path.open("r+b") as file:  # in the middle, as merging an adapter would
        file.seek(5 << 19)
        file.write(b"1")
    os.utime(path, (1, 1))
    others.add(at(loaded, path))
    os.utime(path, (1, 2))
    others.add(at(loaded, path))
    assert len({first, *others}) == 9


def test_the_projector_counts_wherever_it_lies(tmp_path, loaded):
    """Other embeddings of a picture are other keys and values."""
    path, projector = tmp_path / "model.gguf", tmp_path / "mmproj.gguf"
    for file in (path, projector):
        file.write_bytes(b"0")
    without, first = at(loaded, path), at(loaded, path, projector=projector)
    moved = projector.rename(tmp_path / "mmproj-f16.gguf")
    assert at(loaded, path, projector=moved) == first
    moved.write_bytes(b"1")
    assert len({without, first, at(loaded, path, projector=moved)}) == 3


def test_every_part_of_the_weights_counts(tmp_path, loaded):
    parts = [tmp_path / f"model-0000{part}-of-00003.gguf" for part in (1, 2, 3)]
    (tmp_path / "sub").mkdir()
    for path in (*parts, tmp_path / "config.json", tmp_path / "sub" / "model.safetensors"):
        path.write_bytes(b"0")
    for first, last in ((parts[0], parts[2]), (tmp_path, tmp_path / "sub" / "model.safetensors")):
        before = at(loaded, first)
        last.write_bytes(b"1")
        assert at(loaded, first) != before


LONG = [(at * at + at // 7) % 6 for at in range(300)]


def feed(model, slot, tokens, outputs=1, tentative=0):
    [logits] = model.forward([Row(slot, tokens_of(tokens), outputs, tentative)])
    return logits.copy()


def read(model, slot, tokens):
    for start in range(0, len(tokens), 50):
        feed(model, slot, tokens[start : start + 50], outputs=0)


def same(name, one, other):
    """Compare to the bit. Windows lie in other cells once they are restored, and sum up so."""
    if name == "gemma3":
        return np.allclose(one, other, rtol=0, atol=1e-3)
    return np.array_equal(one, other)


SAVING = [
    pytest.param(name, marks=[pytest.mark.long] if name in engines.LATER else [])
    for name in (*engines.ARCHITECTURES, *engines.MLX)
]
OF_ATTENTION = ("llama", "qwen3", "qwen3_moe")  # alone


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize("name", SAVING)
def test_a_restored_slot_goes_on_to_the_bit(name, slots):
    model, fresh = (engines.target(name, slots=slots) for _ in range(2))
    slot = slots - 1
    read(model, slot, LONG)
    feed(model, slot, [1, 2, 3, 4], outputs=4, tentative=3)
    held = model.truncate(slot, 302)
    saved = model.save(slot, GB)
    assert saved.whole == (name.removeprefix("mlx ") not in OF_ATTENTION)
    assert fresh.restore(0, saved.data, held) == held
    assert fresh.truncate(0, 1 << 20) == held
    for token in (5, 1, 3, 2):
        assert same(name, feed(model, slot, [token]), feed(fresh, 0, [token]))
    pairs = [
        (feed(each, at, [1, 2, 3, 4, 5], 5, 4), each.truncate(at, held + 6))
        for each, at in ((model, slot), (fresh, 0))
    ]
    assert same(name, pairs[0][0], pairs[1][0])
    assert pairs[0][1] == pairs[1][1]
    assert same(name, feed(model, slot, [6]), feed(fresh, 0, [6]))
    for each in (model, fresh):
        each.close()
    assert each.save(0, GB) is None


@pytest.mark.parametrize("slots", [1, 4])
@pytest.mark.parametrize(
    "name", ["llama", "qwen35", "mamba2", *engines.there("mlx llama", "mlx qwen3_5")]
)
def test_a_restored_slot_does_not_go_back_to_what_it_held_before(name, slots):
    model, fresh = (engines.target(name, slots=slots) for _ in range(2))
    read(model, 0, LONG)
    saved = model.save(0, GB)
    for length in (100, 299):
        model.truncate(0, 0)
        read(model, 0, [1] * (length - 2))
        feed(model, 0, [2, 3, 4], outputs=3, tentative=2)
        model.restore(0, saved.data, len(LONG))
        kept = model.truncate(0, length)
        fresh.truncate(0, 0)
        read(model, 0, LONG[kept:length])
        read(fresh, 0, LONG[:length])
        assert np.allclose(feed(model, 0, [5]), feed(fresh, 0, [5]), atol=6e-3, rtol=1e-3)
    for each in (model, fresh):
        each.close()


@pytest.mark.parametrize(
    "name", ["llama", "gemma3", "qwen35", *engines.there("mlx gemma3_text", "mlx qwen3_5")]
)
def test_slots_beside_a_restored_one_do_not_hear_of_it(name):
    model = engines.target(name)
    for slot in (0, 1, 2):
        read(model, slot, LONG[slot:])
    saved = model.save(1, GB)
    before = feed(model, 0, [3, 2])
    model.truncate(0, 0)
    read(model, 0, LONG)
    assert model.restore(2, saved.data, len(LONG) - 1) == len(LONG) - 1
    fed = [feed(model, slot, [3, 2]) for slot in (0, 1, 2)]
    assert np.allclose(fed[0], before, atol=6e-3, rtol=1e-3)
    assert np.allclose(fed[1], fed[2], atol=6e-3, rtol=1e-3)
    model.close()


@pytest.mark.parametrize("name", SAVING)
def test_data_that_does_not_fit_leaves_the_slot_empty_and_usable(name):
    kind = "mlx llama" if name.startswith("mlx ") else "llama"
    model, other = engines.target(name), engines.target(kind, kv_type="q4_0")
    read(model, 0, LONG)
    read(other, 0, LONG)
    saved = model.save(0, GB)
    assert model.save(0, len(saved.data) - 1) is None
    for data, length in (
        (saved.data[:-1].copy(), 300),
        (saved.data[:9].copy(), 300),
        (other.save(0, GB).data, 300),
        (np.zeros(0, np.uint8), 0),
        (saved.data, 299),
    ):
        assert model.restore(1, data, length) == 0
        assert model.truncate(1, 1 << 20) == 0
    assert np.allclose(feed(model, 1, [1, 2]), feed(model, 2, [1, 2]), atol=6e-3)
    for each in (model, other):
        each.close()


def test_a_model_that_cannot_save_says_so():
    model = translated()
    feed(model, 0, [1, 2, 3])
    assert model.save(0, GB) is None
    assert model.restore(0, DATA, 3) == 0
    assert model.truncate(0, 9) == 0
    model.close()
