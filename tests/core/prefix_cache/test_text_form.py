"""Texts with pictures in files, which any process can read."""

from __future__ import annotations

import numpy as np
import pytest

from localspec.base.tokens import tokens_of
from localspec.core.prefix_cache.disk import Disk
from localspec.core.prefix_cache.slot_files import SlotFiles
from localspec.core.prefix_cache.text_form import pack, unpack
from localspec.core.prefix_cache.tiers import CacheTiers
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine, EngineParts
from localspec.interfaces.backend import Saved
from localspec.interfaces.media import Medium, RunName
from localspec.interfaces.media_positions import Numbers, names_in
from tests.runs import Want, converse
from tests.seeing import CAT, DOG, Watched, pictured, seeing

TILE, WHOLE = RunName(CAT.digest, 0, 5), RunName(DOG.digest, 3, 4)
SCALES = ((0, 0.5), (2, 1.0))
DATA = Saved(np.arange(100, dtype=np.uint8), whole=False)


def text(numbers, end=None):
    """A text with one run twice and another between, as one process numbers it."""
    tile, whole = (
        [numbers.first(name) - place for place in range(name.length)] for name in (TILE, WHOLE)
    )
    return tokens_of([1, 2, *tile, *whole, 3, *tile, 4][:end])


def numbers(*seen):
    """The numbers of a process that has seen other pictures before."""
    others = Numbers()
    for length in seen:
        others.first(RunName(b"another", 0, length))
    return others


@pytest.mark.parametrize("adapters", [(), SCALES])
@pytest.mark.parametrize("end", [None, 4, 9, 13, 2])
def test_a_text_is_the_same_in_a_process_that_numbers_pictures_otherwise(adapters, end):
    here, there = numbers(), numbers(9, 70)
    data = pack(text(here, end), adapters, here)
    assert data == pack(text(there, end), adapters, there)
    tokens, scales = unpack(data, len(text(here, end)), there)
    assert tokens.tolist() == text(there, end).tolist()
    assert scales == adapters
    assert [name for _, name in names_in(tokens, there)] == [
        name for _, name in names_in(text(here, end), here)
    ]


def test_a_text_without_pictures_has_nothing_behind_its_tokens():
    assert pack(tokens_of([1, 2, 3]), ()) == tokens_of([1, 2, 3]).tobytes()
    assert pack(tokens_of([1]), SCALES) == tokens_of([1]).tobytes() + b"[[0, 0.5], [2, 1.0]]"


def test_a_saved_slot_keeps_its_pictures(tmp_path):
    want = pictured(model := seeing(), [1, 2], CAT, [3])
    files = SlotFiles(tmp_path / "slots", 9000, "a model")
    files.write("a", tokens_of(want.prompt), DATA, SCALES)
    text = files.read("a").text
    assert (text.tokens.tolist(), text.adapters) == (want.prompt, SCALES)
    assert pictured(model, [1, 2], DOG, [3]).prompt != want.prompt


def test_what_the_disk_kept_of_a_picture_is_not_read_again(tmp_path):
    def engine():
        model = Watched(seeing(lengths=(400, 300)))
        tiers = CacheTiers(disk=Disk(tmp_path / "kept", 1 << 30, "model"))
        return model, Engine(model, Silent(), parts=EngineParts(tiers=tiers))

    def ask(model, running, medium, *more):
        want: Want = pictured(model, [1, 2], medium, [3], *more)
        [result] = converse(running, [want])
        return result

    model, running = engine()
    first = ask(model, running, CAT)
    running.close()
    model, running = engine()
    second = ask(model, running, CAT, first.tokens, [1])
    assert (model.read, second.usage.cached_tokens > 700) == (0, True)
    assert ask(model, running, Medium("image", b"a hat")).usage.cached_tokens < 4
