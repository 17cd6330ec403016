"""The benchmark of memory, on a tiny model."""

from __future__ import annotations

import pytest

from localspec.interfaces.backend import Options
from tests import engines

pytest.importorskip("mlx.core")

from benchmarks import memory


def test_a_row_has_each_part_of_the_plan_its_sum_and_what_the_process_grew_by():
    case = memory.MemoryCase("llamacpp", engines.tiny("llama"), Options(context=4096))
    needs, _ = memory.measure(case)
    weights, cache, working, head, projector, total, grown = (
        float(cell) for cell in memory.figures(needs, 5 << 20).split()
    )
    assert weights + cache + working == pytest.approx(total, abs=2)
    assert (head, projector, grown) == (0, 0, 5)
    assert cache > 0
