"""Texts with different adapters take turns: each set of adapters has as much time as any other."""

from __future__ import annotations

from collections import Counter
from itertools import pairwise

import pytest

from localspec.base.tokens import History, tokens_of
from localspec.core.decoding.adapter_turns import TURN_SECONDS, AdapterTurns
from localspec.core.decoding.generation import Ending, Generation
from localspec.core.decoding.scheduler import Scheduler
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler

POET, JUDGE = ((0, 1.0),), ((1, 0.5),)


def text(adapters, length=5, replied=1):
    prompt = tokens_of([1] * length)
    made = Generation(
        History(prompt),
        Sampler(GREEDY, 0, prompt),
        Ending(1 << 20),
        lambda token: b"x",
        adapters=adapters,
    )
    made.history.extend([2] * replied)
    made.cached = length + replied - 1 if replied else 0
    return made


def run(turns, texts, seconds, rounds):
    """Run rounds that take so long by their adapters; return the time of each set."""
    times = Counter()
    for _ in range(rounds):
        adapters = turns.choose(texts)[0].adapters
        turns.note(seconds[adapters])
        times[adapters] += seconds[adapters]
    return times


def test_texts_with_equal_adapters_run_together():
    texts = [text(POET), text(()), text(POET), text(())]
    turns = AdapterTurns()
    assert turns.choose(texts) == [texts[1], texts[3]]
    turns.note(TURN_SECONDS)
    assert turns.choose(texts) == [texts[0], texts[2]]
    assert turns.choose(texts[1:2]) == texts[1:2]


@pytest.mark.parametrize("seconds", [(0.01, 0.01, 0.01), (0.2, 0.01, 0.05), (0.001, 0.4, 0.1)])
def test_each_set_has_the_same_time_whatever_its_rounds_take(seconds):
    by_set = dict(zip(((), POET, JUDGE), seconds, strict=True))
    texts = [text(()), text(POET), text(POET), text(JUDGE), text(())]
    times = run(AdapterTurns(), texts, by_set, rounds=3000)
    most = TURN_SECONDS + max(seconds)
    assert max(times.values()) - min(times[adapters] for adapters in by_set) <= 2 * most


def test_a_set_that_comes_later_has_nothing_to_catch_up_on():
    turns, seconds = AdapterTurns(), {(): 0.02, POET: 0.02, JUDGE: 0.02}
    run(turns, [text(()), text(POET)], seconds, rounds=1000)
    times = run(turns, [text(()), text(POET), text(JUDGE)], seconds, rounds=300)
    assert max(times.values()) - min(times.values()) <= 2 * TURN_SECONDS
    run(turns, [text(())], seconds, rounds=1000)  # it had the time that nobody else wanted
    times = run(turns, [text(()), text(POET)], seconds, rounds=200)
    assert max(times.values()) - min(times.values()) <= 2 * TURN_SECONDS


def test_short_rounds_are_run_in_a_row_before_adapters_change():
    turns, texts = AdapterTurns(), [text(()), text(POET)]
    row = [turns.choose(texts)[0].adapters]
    for _ in range(100):
        turns.note(1.01 * TURN_SECONDS / 5)
        row.append(turns.choose(texts)[0].adapters)
    changes = sum(one != other for one, other in pairwise(row))
    assert changes == 20


def test_a_prompt_is_read_in_pieces_while_texts_with_other_adapters_wait():
    scheduler, prompt = Scheduler(batch=512, tentative=4), text(POET, 900, replied=0)
    assert scheduler.plan([prompt], 128)[0].feed == 512
    assert scheduler.plan([prompt], 128, alone=False)[0].feed == 128
