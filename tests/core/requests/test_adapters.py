"""Texts with different adapters at once: each is what it is alone, and shares no other's cache."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from localspec.base.errors import UsageError
from localspec.base.tokens import tokens_of
from localspec.core.prefix_cache.disk import Disk
from localspec.core.prefix_cache.ram import Ram
from localspec.core.prefix_cache.slot_files import SlotFiles
from localspec.core.prefix_cache.tiers import CacheTiers
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.settings import Settings
from localspec.interfaces.abilities import usual_scales
from localspec.interfaces.adapter import Adapter, Scales
from localspec.interfaces.testing import VOCABULARY, ScriptedModel, hashed_logits
from tests.runs import LETTERS, PROPOSERS, Want, converse, replies, said

GB = 1 << 30
LONG = [int(letter) % 5 for letter in "31415926535897932384626433832795" * 20]


class Adapted(ScriptedModel):
    """A model whose logits tell with which scales each of the last tokens was computed."""

    adapters = (Adapter(Path("poet.gguf")), Adapter(Path("judge.gguf"), 0.0))
    numbers: ClassVar[dict[Scales, int]] = {}  # of sets of adapters, the same in all models

    def __init__(self, *, recurrent: bool = False) -> None:
        super().__init__(hashed_logits(1), LETTERS, recurrent=recurrent)
        self.changes = 0
        self._set = -1
        self.adapt(usual_scales(self.adapters))

    def adapt(self, scales: Scales) -> None:
        number = self.numbers.setdefault(scales, len(self.numbers))
        self.changes += number != self._set
        self._set = number

    def forward(self, rows):
        marked = [row._replace(tokens=row.tokens + VOCABULARY * self._set) for row in rows]
        return super().forward(marked)


def settings(adapters, length=40):
    return Settings(max_tokens=length, ignore_end=True, adapters=adapters)


SETS = (None, {}, {0: 1.0}, {0: 0.5, 1: 2.0}, {1: -1.0}, {0: 1.0, 1: 0.0}, None, {0: 0.5, 1: 2.0})
WANTS = [Want([1, 2, 3, at % 5], settings(adapters)) for at, adapters in enumerate(SETS)]


def alone(want, **options):
    [result] = replies(Adapted(**options), Silent(), [want])
    return said([result])[0]


@pytest.mark.parametrize("name", ["silent", "ngram", "suffix", "prediction", "twin", "best"])
@pytest.mark.parametrize("recurrent", [False, True])
def test_texts_with_different_adapters_are_what_they_are_alone(name, recurrent):
    model = Adapted(recurrent=recurrent)
    together = said(replies(model, PROPOSERS[name](), WANTS))
    assert together == [alone(want) for want in WANTS]
    assert len({text for text, *_ in together}) > 4
    assert model.changes > 4


def test_scales_of_zero_are_the_model_without_adapters():
    wants = [Want([1, 2, 3], settings(adapters)) for adapters in ({}, {0: 0.0}, {0: 0, 1: 0.0})]
    model = Adapted()
    one, *others = said(replies(model, Silent(), wants))
    assert others == [one, one]


def ask(engine, prompt, adapters, length=6):
    [result] = converse(engine, [Want(prompt, settings(adapters, length))])
    assert said([result])[0] == alone(Want(prompt, settings(adapters, length)))
    return result.usage.cached_tokens


def test_a_prefix_in_a_slot_serves_texts_with_its_own_adapters_only():
    engine = Engine(Adapted(), Silent())
    assert ask(engine, LONG, None) == 0
    assert ask(engine, LONG, {0: 0.5}) == 0
    assert ask(engine, LONG, {}) == 0
    assert ask(engine, LONG, {0: 1.0}) == len(LONG) - 1  # what None stands for here
    assert ask(engine, LONG, {0: 0.5, 1: 0.0}) == len(LONG) - 1
    assert ask(engine, [*LONG, 3], {}) == len(LONG)


def test_a_text_in_use_is_not_shared_with_one_that_has_other_adapters():
    engine = Engine(Adapted(), Silent())
    wants = [Want(LONG, settings(adapters, 60)) for adapters in ({}, {0: 1.0}, {})]
    events = [[] for _ in wants]
    engine.add(engine.prepare(tokens_of(LONG), wants[0].settings, events[0].append))
    while not events[0]:
        engine.step()
    for want, heard in zip(wants[1:], events[1:], strict=True):
        engine.add(engine.prepare(tokens_of(LONG), want.settings, heard.append))
    while engine.busy:
        engine.step()
    results = [heard[-1] for heard in events]
    assert said(results) == [alone(want) for want in wants]
    assert [result.usage.cached_tokens for result in results] == [0, 0, len(LONG) - 1]


@pytest.mark.parametrize("place", ["memory", "disk"])
def test_a_text_that_was_put_aside_comes_back_with_its_own_adapters_only(place, tmp_path):
    model = Adapted()
    model.slots = 1
    disk = Disk(tmp_path / "kept", GB, "model") if place == "disk" else None
    tiers = CacheTiers(Ram(GB if place == "memory" else 0), disk, clock=lambda: 0.0)
    engine = Engine(model, Silent(), parts=EngineParts(tiers=tiers))
    sets = ({}, {0: 1.0}, {0: 0.5})
    for adapters in sets:
        assert ask(engine, LONG, adapters) == 0
        if disk:
            disk.wait()
    assert [ask(engine, [*LONG, 1], adapters) for adapters in sets[:2]] == [len(LONG)] * 2


def test_texts_on_disk_keep_their_adapters_for_the_next_start(tmp_path):
    for cached in (0, len(LONG) - 1):
        tiers = CacheTiers(Ram(0), Disk(tmp_path / "kept", GB, "model"))
        engine = Engine(Adapted(), Silent(), parts=EngineParts(tiers=tiers))
        for adapters in ({}, {0: 0.25}, None):
            assert ask(engine, LONG, adapters) == cached
        engine.close()


def test_a_slot_is_saved_and_restored_with_its_adapters(tmp_path):
    files = SlotFiles(tmp_path / "slots", GB, "model")
    first = Engine(Adapted(), Silent(), parts=EngineParts(files=files))
    ask(first, LONG, {0: 0.5})
    first.slots.save(0, "poem")
    second = Engine(Adapted(), Silent(), parts=EngineParts(files=files))
    second.slots.restore(0, "poem")
    assert ask(second, LONG, {0: 1.0}) == 0
    second.slots.restore(3, "poem")
    assert ask(second, LONG, {0: 0.5}) == len(LONG) - 1


@pytest.mark.parametrize(
    ("adapters", "message"),
    [
        ({2: 1.0}, "there is no adapter 2; adapters are 0 to 1"),
        ({-1: 1.0}, "there is no adapter -1"),
        ({0: 101.0}, "scale of adapter 0 is 101.0; it must be a number from -100 to 100"),
        ({0: float("nan")}, "scale of adapter 0 is nan"),
        ({"poet": 1.0}, "number of an adapter is 'poet'"),
        ([0], "adapters is"),
    ],
)
def test_scales_that_cannot_be_are_refused_by_number(adapters, message):
    with pytest.raises(UsageError, match=message):
        converse(Engine(Adapted(), Silent()), [Want([1], Settings(adapters=adapters))])


def test_a_model_is_asked_once_for_its_adapters():
    class Counted(Adapted):
        look_count = 0

        @property
        def adapters(self):
            self.look_count += 1
            return Adapted.adapters

    model = Counted()
    engine = Engine(model, Silent())
    look_count = model.look_count
    for _ in range(3):
        engine.prepare(tokens_of([1]), settings({0: 0.5}), lambda _: None)
    assert model.look_count == look_count


def test_a_model_without_adapters_refuses_scales_but_those_of_zero():
    plain = ScriptedModel(hashed_logits(1), LETTERS)
    replies(plain, Silent(), [Want([1], settings({3: 0.0}))])
    with pytest.raises(UsageError, match="without any that a request can scale: --adapter FILE"):
        replies(plain, Silent(), [Want([1], settings({0: 1.0}))])
