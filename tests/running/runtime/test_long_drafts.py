"""The longest draft, where the depth is left open."""

from __future__ import annotations

import pytest

from localspec.interfaces.backend import Options
from localspec.running.memory.planner import Limits
from localspec.running.runtime.loading import Loading, resolve
from localspec.running.runtime.long_drafts import open_depth, with_long_drafts
from localspec.running.runtime.pair_files import PairFiles
from tests import engines

GB = 1 << 30
QWEN, GEMMA, SMOL = 151_936, 262_144, 49_152  # tokens of their vocabularies


@pytest.mark.parametrize(
    ("vocabulary", "slots", "memory", "depth"),
    [
        (SMOL, 1, 16 * GB, 510),  # all that a batch has room for
        (SMOL, 4, 16 * GB, 510),
        (QWEN, 1, 16 * GB, 256),
        (QWEN, 4, 16 * GB, 64),
        (GEMMA, 1, 16 * GB, 128),
        (GEMMA, 4, 16 * GB, 32),
        (QWEN, 1, 2 * GB, 64),
        (QWEN, 1, GB // 4, 16),
        (GEMMA, 8, GB // 4, 16),  # however little there is
    ],
)
def test_the_logits_of_the_longest_draft_take_little_memory(vocabulary, slots, memory, depth):
    assert open_depth(Options(slots=slots), vocabulary, memory) == depth


def test_a_small_batch_holds_no_longer_draft_than_it_has_room_for():
    assert open_depth(Options(batch=64), SMOL, GB) == 62
    assert open_depth(Options(batch=10), SMOL, GB) == 8


def test_a_depth_that_was_asked_for_is_kept():
    for loading in (Loading(depth=2), Loading(Options(tentative=20))):
        assert with_long_drafts(loading, None) == loading.options


@pytest.mark.parametrize("name", ["llama", "qwen35", "mamba2"])
@pytest.mark.parametrize(("budget", "depth"), [(None, 510), (20 << 20, 256)])
def test_a_pair_is_planned_for_long_drafts_as_memory_allows(name, budget, depth):
    draft = engines.tiny("llama", seed=1)
    loading = Loading(Options(context=600), limits=Limits(budget=budget))
    with PairFiles.locate(engines.tiny(name), draft, "auto").examine() as examined:
        plan = resolve(examined, loading).plan
    assert plan.options.tentative == depth
    assert plan.drafting.tentative == 16
