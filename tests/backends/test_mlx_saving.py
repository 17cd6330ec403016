"""What slots of MLX hold, saved in the midst of whatever goes on, and attacked."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx

from localspec.core.prefix_cache.disk import Disk
from localspec.core.prefix_cache.ram import Ram
from localspec.core.prefix_cache.tiers import CacheTiers
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Next, Roll, Row
from localspec_mlx import backend as mlx
from localspec_mlx.array_form import pack, unpack
from localspec_mlx.host import Host
from tests import engines, tiny_mlx
from tests.runs import Want, converse, said

GB = 1 << 30
TEXT = np.random.default_rng(3).integers(300, 380, 300).astype(np.int32)
OTHER = TEXT[::-1].copy()
OPTIONS = replace(engines.OPTIONS, threads=None)
KINDS = engines.there("mlx llama", "mlx gemma3_text", "mlx qwen3_5")


def read(model, slot, text, piece=50):
    for at in range(0, len(text), piece):
        model.forward([Row(slot, text[at : at + piece], 0)])


def following(model, *slots):
    """Logits of some tokens after what slots hold, each by itself."""
    return [
        [np.array(model.forward([Row(s, TEXT[at : at + 1])])[0]) for at in (7, 3)] for s in slots
    ]


def moved(model, source, target, length, into=None):
    """Save a slot, and restore it in another one, which may be of another model."""
    saved = model.save(source, GB)
    assert (into or model).restore(target, saved.data, length) == length


@pytest.mark.parametrize("name", KINDS)
def test_a_slot_that_ran_beside_others_is_saved_like_one_alone(name):
    with closing(engines.target(name)) as model:
        for at in range(0, 240, 12):  # so few tokens that the rows run together
            model.forward([Row(s, t[at : at + 12]) for s, t in enumerate((TEXT, OTHER))])
        moved(model, 1, 2, 240)
        model.copy(1, 3, 240)
        one, other = following(model, 2, 3)
        assert np.array_equal(one, other)
        model.forward([Row(s, TEXT[:1], 0) for s in (0, 1)])  # which the neighbours do not notice


@pytest.mark.parametrize("name", KINDS)
def test_a_token_that_was_fed_ahead_is_not_saved(name):
    with closing(engines.target(name)) as model:
        read(model, 0, TEXT)
        read(model, 1, TEXT)
        hint = Next(Sampler(GREEDY, 0, TEXT), len(TEXT) + 1)
        for slot, following_token in ((0, hint), (1, None)):
            model.forward([Row(slot, OTHER[:1], next=following_token)])
            moved(model, slot, 2 + slot, len(TEXT) + 1)
        one, other = following(model, 2, 3)
        assert np.array_equal(one, other)


@pytest.mark.parametrize(("first", "later"), [(64, 400), (400, 64), (200, 64)])
def test_windows_are_restored_into_more_or_fewer_cells(first, later):
    """Pieces of prompts may be of another size after a restart."""
    path = engines.tiny_folder("gemma3_text")
    with (
        closing(mlx.load(path, replace(OPTIONS, batch=first))) as model,
        closing(mlx.load(path, replace(OPTIONS, batch=later))) as fresh,
    ):
        read(model, 0, TEXT)
        moved(model, 0, 1, len(TEXT), into=fresh)
        read(fresh, 0, TEXT)
        assert np.allclose(*following(fresh, 0, 1), atol=1e-4)
        for slot in (0, 1):
            read(fresh, slot, OTHER[:170], piece=17)
        assert np.allclose(*following(fresh, 0, 1), atol=1e-4)
        shorter = model.truncate(0, 290)
        assert shorter == 290
        moved(model, 0, 1, 290, into=fresh)
        fresh.truncate(0, 0)
        read(fresh, 0, TEXT[:290])
        assert np.allclose(*following(fresh, 0, 1), atol=1e-4)
        for length in range(280, 30, -10):  # what can still be gone back to is right
            moved(model, 0, 1, 290, into=fresh)
            kept = fresh.truncate(1, length)
            assert kept in (0, length)
            fresh.truncate(0, 0)
            read(fresh, 0, TEXT[:length])
            if kept:
                assert np.allclose(*following(fresh, 0, 1), atol=1e-4)


@pytest.mark.parametrize("kv_type", ["auto", "q8_0", "q4_0"])
def test_numbers_of_all_kinds_come_back_to_the_bit(kv_type, tmp_path):
    wishes = replace(OPTIONS, kv_type=kv_type)
    path = tiny_mlx.write(tmp_path / "made", "gemma3_text", head_dim=64)
    tiny_mlx.store_in_16_bits(path)
    with closing(mlx.load(path, wishes)) as model:
        read(model, 0, TEXT[:200])
        with closing(mlx.load(path, wishes)) as fresh:
            moved(model, 0, 2, 200, into=fresh)
            again = fresh.save(2, GB)
            assert again.data.tobytes() == model.save(0, GB).data.tobytes()
            assert np.array_equal(following(model, 0), following(fresh, 2))


def test_what_another_model_saved_is_refused():
    with closing(engines.target("mlx llama")) as model:
        read(model, 0, TEXT)
        saved = model.save(0, GB)
    for name, options in (
        ("mlx qwen3", {}),
        ("mlx gemma3_text", {}),
        ("mlx llama", {"kv_type": "q8_0"}),
    ):
        with closing(engines.target(name, **options)) as other:
            read(other, 1, TEXT)
            assert other.restore(1, saved.data, len(TEXT)) == 0
            assert other.truncate(1, 999) == 0


@pytest.mark.parametrize(
    "name", ["qwen3_5-mtp", "llama-eagle3", "qwen3_5-dflash", "llama-layerskip"]
)
def test_a_draft_that_was_begun_does_not_change_what_is_saved(name, tmp_path):
    folder = tmp_path / "made"
    kind, architecture = name.rpartition("-")[2], tiny_mlx.WITH_HEADS[name]
    head = tiny_mlx.write_with_head(folder, architecture, kind)
    with closing(mlx.load(folder, replace(OPTIONS, head=head))) as model:
        read(model, 0, TEXT[:99])
        draft = rolled(model, 0, TEXT[:100])
        row = Row(0, np.append(TEXT[99:100], draft.tokens), len(draft) + 1, len(draft))
        model.forward([row])  # the next draft is begun
        held = model.truncate(0, 100)
        moved(model, 0, 1, held)
        for slot in (0, 1):
            model.forward([Row(slot, TEXT[held:100])]) if held < 100 else None
        drafts = [rolled(model, slot, TEXT[:101]) for slot in (0, 1)]
        assert drafts[0].tokens.tolist() == drafts[1].tokens.tolist() != []
        assert drafts[0].confidences == pytest.approx(drafts[1].confidences, rel=1e-5)


def rolled(model, slot, text):
    sampler = Sampler(GREEDY, 0, text)
    [draft] = model.head.roll([Roll(Row(slot, text[-1:]), 4, sampler, len(text))])
    return draft


@pytest.mark.parametrize("name", KINDS)
def test_after_a_restart_a_text_goes_on_from_the_disk(name, tmp_path, caplog):
    prompt = np.concatenate((TEXT, OTHER)).tolist()
    first = once(name, tmp_path, prompt)
    longer = [*prompt, *first.tokens, *TEXT[:9].tolist()]
    second, plain = (once(name, folder, longer) for folder in (tmp_path, tmp_path / "empty"))
    assert (second.usage.cached_tokens, plain.usage.cached_tokens) == (len(prompt) + 5, 0)
    assert said([second]) == said([plain])
    for path in (tmp_path / "kept").iterdir():
        raw = bytearray(path.read_bytes())
        raw[len(raw) // 2] ^= 1
        path.write_bytes(raw)
    third = once(name, tmp_path, longer)
    assert third.usage.cached_tokens == 0
    assert said([third]) == said([plain])
    assert "was damaged" in caplog.records[0].getMessage()


def test_what_gives_up_its_slot_comes_back_from_memory():
    with closing(engines.target("mlx llama", slots=1)) as model:
        tiers = CacheTiers(Ram(GB), clock=lambda: 0.0)  # saving is never too slow
        running = Engine(model, Silent(), parts=EngineParts(tiers=tiers))
        texts = [TEXT.tolist(), OTHER.tolist()]
        replies = [converse(running, [Want(text, REPLY)])[0] for text in (*texts, *texts)]
        assert tiers.bytes > 0
        assert [reply.usage.cached_tokens for reply in replies] == [0, 0, 299, 299]
        assert said(replies[:2]) == said(replies[2:])


REPLY = Settings(max_tokens=6, ignore_end=True)


def once(name, folder, prompt):
    """Answer one request with an engine that is closed afterwards."""
    with closing(engines.target(name, context=1024)) as model:
        tiers = CacheTiers(disk=Disk(folder / "kept", GB, name))
        running = Engine(model, Silent(), parts=EngineParts(tiers=tiers))
        [result] = converse(running, [Want(prompt, REPLY)])
        running.close()
        return result


def test_arrays_come_back_as_they_were_or_not_at_all():
    layers = [
        [mx.arange(6, dtype=kind).reshape(1, 2, 3) for kind in (mx.bfloat16, mx.float16)],
        [None, mx.zeros((3, 0)), mx.array([1.5], mx.float32)[::1]],
        [mx.arange(8, dtype=mx.uint32).reshape(2, 4)[:, ::2]],
        [],
    ]
    data = pack(["it", 3], [[*layer] for layer in layers], GB, Host())
    assert pack(["it", 3], layers, len(data) - 1, Host()) is None
    for one, other in zip(layers, unpack(data, ["it", 3]), strict=True):
        assert [a if a is None else (a.dtype, a.tolist()) for a in one] == [
            a if a is None else (a.dtype, a.tolist()) for a in other
        ]
    head = 8 + int(data[:8].view(np.int64)[0])
    for at in range(head):  # sums guard what follows
        damaged = data.copy()
        damaged[at] ^= 1
        try:
            unpacked = unpack(damaged, ["it", 3])
        except Exception:  # whatever it is: `restore` takes it for what it is
            continue
        assert (
            sum(a.nbytes for layer in unpacked for a in layer if a is not None) == len(data) - head
        )
    for length in range(len(data)):
        with pytest.raises(ValueError):
            unpack(data[:length], ["it", 3])
    with pytest.raises(ValueError, match="another"):
        unpack(data, ["it", 4])
