"""Texts that slots give up go to memory, come back from it, and never take too much of it."""

from __future__ import annotations

import itertools
from dataclasses import replace

import numpy as np
import pytest

from localspec.base.errors import OutOfMemory
from localspec.base.system import free_memory
from localspec.base.tokens import tokens_of
from localspec.core.prefix_cache.disk import Disk
from localspec.core.prefix_cache.ram import MAX_TEXTS, MemoryText, Ram
from localspec.core.prefix_cache.tiers import MIN_DISK_TOKENS, CacheTiers
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.settings import Settings
from localspec.interfaces.backend import Device, Row, Saved
from localspec.interfaces.testing import ScriptedModel
from tests import engines
from tests.runs import Want, converse, replies, said, scripted

GB = 1 << 30
SHORT = Settings(max_tokens=6, ignore_end=True)


def text(seed, length=600):
    return [int(each) for each in np.random.default_rng(seed).integers(0, 5, length)]


def few(slots, *, recurrent=False):
    model = scripted(recurrent=recurrent)
    model.slots = slots
    return model


def engine(model, ram=GB, disk=None, proposer=None):
    tiers = CacheTiers(Ram(ram), disk, clock=lambda: 0.0)  # what takes long is not done again
    return Engine(model, proposer or Silent(), parts=EngineParts(tiers=tiers))


def ask(running, prompt, settings=SHORT):
    [result] = converse(running, [Want(prompt, settings)])
    return result


def alone(prompt, settings=SHORT):
    """Return the reply of an engine that never cached anything."""
    return said(replies(scripted(), Silent(), [Want(prompt, settings)]))


@pytest.mark.parametrize(
    ("saving", "reading", "kept"),
    [(0.1, 0.0, True), (0.1, 7e-3, True), (0.1, 6e-3, False), (4e-3, 1e-5, True)],
)
def test_texts_are_kept_in_memory_only_if_that_is_quicker_than_reading_them(saving, reading, kept):
    times = iter([0.0, saving])
    tiers = CacheTiers(Ram(GB), clock=lambda: next(times))
    model = few(1)
    held = tokens_of(text(1, 64))
    model.forward([Row(0, held)])
    tiers.reading_seconds = reading
    tiers.keep(model, 0, held)  # the first one shows how long that takes
    assert tiers.bytes > 0
    assert tiers.has_memory is kept


def test_an_engine_that_reads_quickly_saves_only_the_text_that_shows_how_long_that_takes():
    tiers = CacheTiers(Ram(GB), clock=itertools.count(step=1.0).__next__)  # a second for each
    running = Engine(few(1), Silent(), parts=EngineParts(tiers=tiers))
    ask(running, text(1))
    ask(running, text(2))
    saved = tiers.bytes
    assert saved > 0
    ask(running, text(3))
    assert tiers.bytes == saved


@pytest.mark.parametrize("recurrent", [False, True])
@pytest.mark.parametrize("more", [[], [1, 2, 3], text(9)])
def test_what_is_given_up_for_another_text_comes_back_from_memory(recurrent, more):
    running = engine(few(1, recurrent=recurrent), proposer=NgramProposer(3, 1))
    first = ask(running, text(1))
    ask(running, text(2))
    longer = [*text(1), *first.tokens, *more, 4]
    third = ask(running, longer)
    assert third.usage.cached_tokens == 605
    assert said([third]) == alone(longer)


def test_more_conversations_than_slots_go_on():
    running = engine(few(2))
    said_so_far = {seed: text(seed, 100) for seed in range(7)}
    for turn in range(3):
        for seed, history in said_so_far.items():
            result = ask(running, history)
            assert said([result]) == alone(history)
            assert result.usage.cached_tokens >= (len(history) - 3 if turn else 0)
            said_so_far[seed] = [*history, *result.tokens, seed % 5, turn]


def test_where_no_memory_is_given_nothing_is_kept():
    model = few(2)
    running = engine(model, ram=0)
    first = ask(running, text(1))
    converse(running, [Want(text(2), SHORT)] * 2)
    assert ask(running, [*text(1), *first.tokens, 4]).usage.cached_tokens == 0
    assert {len(held) for held in model.held.values()} > {605}


class Counting(ScriptedModel):
    """Counts how often it is asked for what a slot holds."""

    def __init__(self, slots):
        super().__init__(scripted()._logits, scripted().tokenizer)
        self.slots = slots
        self.saves: list[int] = []  # by the forwards until then

    def save(self, slot, most):
        self.saves.append(self.forwards)
        return super().save(slot, most)


def test_a_conversation_that_goes_on_is_not_moved():
    model = Counting(1)
    running = engine(model)
    history = text(1)
    for turn in range(4):
        history = [*history, *ask(running, history).tokens, turn]
    ask(running, [*history[:500], 6])  # nor is one of which little is taken back
    assert model.saves == []


@pytest.mark.parametrize(("count", "pooled", "moved"), [(50, 1, 0), (70, 1, 1), (70, 0, 0)])
def test_an_idle_text_leaves_a_pool_once_others_ran_enough_tokens(count, pooled, moved):
    model = Counting(2)
    model.pool = model.context if pooled else model.slots * model.context
    running = engine(model)
    first = ask(running, text(1))
    ask(running, [6] * count)
    assert len(model.saves) == moved
    assert (sorted(map(len, model.held.values()))[-1] == 605) != moved
    again = [*text(1), *first.tokens, 4]
    result = ask(running, again)
    assert result.usage.cached_tokens == 605
    assert said([result]) == alone(again)


def test_what_is_put_aside_never_takes_more_than_it_may(free):
    ram = Ram(4000)  # one text
    running = Engine(few(1), Silent(), parts=EngineParts(tiers=CacheTiers(ram, clock=lambda: 0.0)))
    for seed in range(4):
        ask(running, text(seed))
    assert 0 < running.tiers.bytes <= 4000
    assert ram.surplus() == []
    assert len(ram.clear()) == 1


def test_what_a_slot_has_got_back_is_not_kept_as_well():
    ram = Ram(GB)
    running = Engine(few(1), Silent(), parts=EngineParts(tiers=CacheTiers(ram, clock=lambda: 0.0)))
    first = ask(running, text(1))
    ask(running, text(2))
    ask(running, [*text(1), *first.tokens, 4])
    [kept] = ram.clear()
    assert kept.tokens[:600].tolist() == text(2)


def test_a_disk_that_is_busy_is_not_waited_for(tmp_path, free):
    class Busy(Disk):
        busy = True

    disk = Busy(tmp_path / "kept", GB, "model")
    running = engine(few(1), ram=4000, disk=disk)
    for seed in range(4):
        ask(running, text(seed))
    disk.wait()
    assert on_disk(tmp_path) == []


def test_another_branch_of_a_text_takes_what_they_share():
    running = engine(few(1))
    ask(running, text(1))
    ask(running, text(2))
    branch = [*text(1)[:400], *text(3)]
    result = ask(running, branch)
    assert result.usage.cached_tokens >= 400
    assert said([result]) == alone(branch)
    ask(running, text(4))
    first = ask(running, [*text(1), 1])
    assert first.usage.cached_tokens == 600  # it was not lost to the branch


@pytest.mark.parametrize(("own", "cached"), [(454, 454), (453, 600)])
def test_a_text_is_kept_if_much_of_it_is_lost_to_another_that_begins_alike(own, cached):
    running = engine(few(1))
    ask(running, text(1))  # the slot holds 605
    ask(running, [*text(1)[:own], 6, *text(2)])
    assert ask(running, [*text(1), 1]).usage.cached_tokens == cached


class Unwilling(ScriptedModel):
    """Can put texts aside, and cannot take them back."""

    def restore(self, slot, data, length):
        self.held[slot] = []
        return 0


def test_what_cannot_be_restored_is_read_again():
    model = Unwilling(scripted()._logits, scripted().tokenizer)
    model.slots = 1
    running = engine(model)
    first = ask(running, text(1))
    ask(running, text(2))
    longer = [*text(1), *first.tokens, 4]
    again = ask(running, longer)
    assert (again.usage.cached_tokens, said([again])) == (0, alone(longer))


class Tight(ScriptedModel):
    """Runs out of memory once, when it is told to."""

    slots = 2
    short = False

    def forward(self, rows):
        if self.short:
            self.short = False
            raise OutOfMemory("no memory")
        return super().forward(rows)


def test_an_engine_without_memory_gives_up_what_was_put_aside():
    model = Tight(scripted()._logits, scripted().tokenizer)
    running = engine(model)
    first = ask(running, text(1))
    for seed in (2, 3):
        ask(running, text(seed))
    model.short = True
    assert said([ask(running, text(4))]) == alone(text(4))
    assert ask(running, [*text(1), *first.tokens, 4]).usage.cached_tokens == 0


@pytest.fixture
def free(monkeypatch):
    """The free memory, as a test sets it."""
    bytes_free = [1 << 40]
    host = lambda: Device("memory", "cpu", 1 << 40, bytes_free[0])  # noqa: E731
    monkeypatch.setattr(free_memory, "memory", host)
    return bytes_free


def put(ram, *seeds):
    for seed in seeds:
        ram.put(tokens_of(text(seed)), Saved(np.zeros(1000, np.uint8), whole=False))


def seeds(ram):
    return [
        seed
        for seed in range(20)
        if (match := ram.best_for(tokens_of(text(seed)))) and whole(match, seed)
    ]


def whole(found: MemoryText, seed: int) -> bool:
    return found.serves(tokens_of(text(seed))) == 600


def test_the_longest_unused_texts_make_room(free):
    ram = Ram(3000)
    put(ram, 0, 1, 2)
    assert ram.surplus() == []
    match = ram.best_for(tokens_of(text(0)[:500]))
    ram.use(match, tokens_of(text(0)[:500]))  # used now, and still there
    put(ram, 3)
    assert [each.tokens.tolist() for each in ram.surplus()] == [text(1)]
    assert seeds(ram) == [0, 2, 3]


def test_what_a_slot_holds_again_is_not_kept_twice(free):
    ram = Ram(GB)
    put(ram, 0, 1)
    ram.use(ram.best_for(tokens_of([*text(0), 1])), tokens_of([*text(0), 1]))
    assert seeds(ram) == [1]


def test_texts_take_at_most_a_quarter_of_what_is_free(free):
    ram = Ram(GB)
    put(ram, 0, 1, 2)
    free[0] = 9000
    assert ram.allowed_bytes == 3000
    assert ram.surplus() == []
    free[0] = 6000
    assert len(ram.surplus()) == 1
    free[0] = 0
    assert len(ram.surplus()) == 2
    assert ram.allowed_bytes == 0


def test_memory_that_grew_short_is_given_back_with_the_next_request(free):
    running = engine(few(1))
    first = ask(running, text(1))
    ask(running, text(2))
    free[0] = 0
    assert ask(running, [*text(1), *first.tokens, 4]).usage.cached_tokens == 0


def test_of_texts_that_serve_alike_the_shortest_is_taken(free):
    ram = Ram(GB)
    for length in (900, 700, 800):
        ram.put(
            tokens_of([*text(1, 600), length, *text(2, length)]),
            Saved(np.zeros(1, np.uint8), False),
        )
    assert len(ram.best_for(tokens_of(text(1))).tokens) == 1301


def test_there_are_only_so_many_texts(free):
    ram = Ram(GB)
    for at in range(MAX_TEXTS + 5):
        ram.put(tokens_of([at]), Saved(np.zeros(1, np.uint8), whole=False))
    assert [int(each.tokens[0]) for each in ram.surplus()] == [0, 1, 2, 3, 4]


def test_a_longer_text_takes_the_place_of_those_it_begins_with(free):
    for whole_only, count in ((False, 1), (True, 2)):
        ram = Ram(GB)
        for length in (300, 600):
            ram.put(tokens_of(text(1)[:length]), Saved(np.zeros(1, np.uint8), whole_only))
        assert len(ram.clear()) == count


@pytest.mark.parametrize(("shared", "cached"), [(99, 0), (100, 100)])
def test_little_of_a_long_text_is_read_rather_than_got_back(shared, cached):
    running = engine(few(1))
    ask(running, text(1, 1600 - 5))
    ask(running, [6, *text(2)])
    assert ask(running, [*text(1)[:shared], 6, *text(3)]).usage.cached_tokens == cached


def on_disk(folder):
    return sorted((folder / "kept").iterdir())


def test_what_memory_has_no_room_for_goes_to_the_disk(tmp_path, free):
    disk = Disk(tmp_path / "kept", GB, "model")
    running = engine(few(1), ram=4000, disk=disk)  # one text
    first = ask(running, text(1))
    ask(running, text(2))
    assert on_disk(tmp_path) == []
    ask(running, text(3))
    disk.wait()
    assert len(on_disk(tmp_path)) == 1
    assert ask(running, [*text(1), *first.tokens, 4]).usage.cached_tokens == 605


def test_all_of_it_is_on_disk_when_the_engine_closes(tmp_path):
    for lengths, count in (((600, 700, 800, 900), 4), ((600, MIN_DISK_TOKENS - 6, 600), 2)):
        folder = tmp_path / str(count)
        running = engine(few(2), disk=Disk(folder / "kept", GB, "model"))
        for seed, length in enumerate(lengths):
            ask(running, text(seed, length))
        running.close()
        running.close()
        assert len(on_disk(folder)) == count


def test_the_longer_of_what_memory_and_disk_have_is_taken(tmp_path):
    before = engine(few(1), disk=Disk(tmp_path / "kept", GB, "model"))
    ask(before, text(1))
    before.close()
    running = engine(few(1), disk=Disk(tmp_path / "kept", GB, "model"))
    ask(running, [*text(1)[:300], 6])
    ask(running, text(2))
    assert ask(running, [*text(1), 1]).usage.cached_tokens == 600  # from the disk
    ask(running, text(2))
    assert ask(running, [*text(1), 1, 2]).usage.cached_tokens >= 601  # from memory


@pytest.mark.parametrize("name", engines.ARCHITECTURES)
def test_real_engines_say_the_same_after_texts_were_put_aside(name):
    model = engines.target(name, slots=2)
    plain = engines.target(name, slots=2)
    running = engine(model, proposer=NgramProposer(3, 1))
    settings = Settings(max_tokens=8, ignore_end=True)
    turns = {seed: text(seed, 150) for seed in range(3)}
    for _ in range(3):
        for seed, history in turns.items():
            result = ask(running, history, settings)
            fresh = Engine(plain, Silent(), depth=0)
            assert said([result]) == said(
                converse(fresh, [Want(history, replace(settings, depth=0))])
            )
            turns[seed] = [*history, *result.tokens, seed]
    for each in (model, plain):
        each.close()
