"""Texts that begin alike, on models whose KV cache cannot be cut: saved once where they part."""

from __future__ import annotations

import numpy as np
import pytest

from localspec.core.prefix_cache.disk import Disk
from localspec.core.prefix_cache.ram import Ram
from localspec.core.prefix_cache.tiers import MIN_DISK_TOKENS, CacheTiers
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.settings import Settings
from localspec.interfaces.testing import ScriptedModel
from tests import engines
from tests.runs import Want, converse, replies, said, scripted

GB = 1 << 30
SHORT = Settings(max_tokens=6, ignore_end=True)


def text(seed, length=700):
    return [int(each) for each in np.random.default_rng(seed).integers(0, 5, length)]


SYSTEM = text(1)  # of all sessions


def session(seed):
    return [*SYSTEM, 5, seed % 5, *text(seed, 40)]


class Saving(ScriptedModel):
    """Counts how often it is asked for what a slot holds."""

    saves = 0

    def save(self, slot, most):
        self.saves += 1
        return super().save(slot, most)


def model_of(*, recurrent, slots=1):
    base = scripted()
    model = Saving(base._logits, base.tokenizer, recurrent=recurrent)
    model.batch, model.slots = 64, slots
    return model


def engine(model, disk=None, ram=GB):
    parts = EngineParts(tiers=CacheTiers(Ram(ram), disk, clock=lambda: 0.0))
    return Engine(model, NgramProposer(3, 1), parts=parts)


def ask(running, prompt):
    [result] = converse(running, [Want(prompt, SHORT)])
    assert said([result]) == said(replies(scripted(), NgramProposer(3, 1), [Want(prompt, SHORT)]))
    return result.usage.cached_tokens


@pytest.mark.parametrize("slots", [1, 4])
def test_from_the_third_session_on_all_begin_where_the_first_two_part(slots):
    running = engine(model_of(recurrent=True, slots=slots))
    assert [ask(running, session(seed)) for seed in range(5)] == [0, 0, 701, 701, 701]


def test_so_does_the_first_after_a_restart(tmp_path):
    for first, cached in ((0, [0, 0]), (2, [701, 701])):
        running = engine(model_of(recurrent=True), Disk(tmp_path / "kept", GB, "model"))
        assert [ask(running, session(first + at)) for at in range(2)] == cached
        running.close()


def test_what_parts_from_a_text_on_disk_counts_too(tmp_path):
    for seed, cached in ((0, 0), (1, 0), (2, 701)):
        running = engine(model_of(recurrent=True), Disk(tmp_path / "kept", GB, "model"))
        assert ask(running, session(seed)) == cached
        running.close()


def test_where_texts_can_be_cut_nothing_is_saved_for_it():
    model = model_of(recurrent=False)
    running = engine(model)
    assert [ask(running, session(seed)) for seed in range(4)] == [0, 701, 701, 701]
    assert model.saves == 0


@pytest.mark.parametrize(
    ("length", "cached"), [(MIN_DISK_TOKENS - 1, 0), (MIN_DISK_TOKENS, MIN_DISK_TOKENS)]
)
def test_short_beginnings_are_read_anew(length, cached):
    running = engine(model_of(recurrent=True))
    prompts = [[*SYSTEM[:length], seed, *text(9, 300)] for seed in range(3)]
    assert [ask(running, prompt) for prompt in prompts] == [0, 0, cached]


class Unrestorable(Saving):
    """Goes back to an old checkpoint, and restores nothing."""

    def truncate(self, slot, length):
        held = self.held.setdefault(slot, [])
        del held[length if length >= len(held) else min(length, 100) :]
        return len(held)

    def restore(self, slot, data, length):
        self.held[slot] = []
        return 0


def test_what_cannot_be_restored_is_read_anew():
    base = scripted()
    model = Unrestorable(base._logits, base.tokenizer)
    model.batch, model.slots = 64, 1
    running = engine(model)
    assert [ask(running, session(seed)) for seed in range(4)] == [0, 100, 0, 0]


def test_without_a_place_to_keep_it_sessions_go_on():
    running = engine(model_of(recurrent=True), ram=0)
    assert [ask(running, session(seed)) for seed in range(4)] == [0] * 4


def test_a_turn_that_rewrites_the_one_before_is_read_from_there():
    """As thoughts are left out of what was said before."""
    running = engine(model_of(recurrent=True))
    history, cached = session(0), []
    for turn in range(4):
        cached.append(ask(running, history))
        history = [*history, 5, turn, 5, *text(turn, 520)]
    assert cached[0] == cached[1] == 0
    assert cached[3] >= len(session(0)) + 520


@pytest.mark.parametrize(("name", "tail"), [("qwen35", 8), ("gemma3", 400)])
def test_models_with_states_and_windows_say_the_same_from_there(name, tail):
    running = engine(engines.target(name, slots=2))
    sessions = [[*SYSTEM[:520], seed, *text(seed, tail)] for seed in (2, 3, 4)]
    results = [converse(running, [Want(prompt, SHORT)])[0] for prompt in sessions]
    assert [result.usage.cached_tokens for result in results] == [0, 0, 520]
    alone = engine(engines.target(name, slots=2), ram=0)
    assert said(results[2:]) == said(converse(alone, [Want(sessions[2], SHORT)]))
