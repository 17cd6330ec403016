"""Attention on a processor: right, and for each row the same whatever stands beside it."""

from __future__ import annotations

import ctypes
from ctypes import c_float
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt
import pytest

from localspec_llamacpp import ggml
from tests.ggml_graph import Graph, Numbers, graph, require_products

CLOSED = np.float32(-np.inf)


@pytest.fixture(autouse=True)
def products():
    require_products()


@dataclass(frozen=True)
class Case:
    """Queries [stream, row, head, width] behind a cache [stream, cell, head, width]."""

    rows: int = 3
    cells: int = 300
    heads: tuple[int, int] = (6, 2)
    widths: tuple[int, int] = (64, 64)
    streams: int = 1
    kind: str = "F16"
    bias: float = 0.0
    softcap: float = 0.0
    sinks: bool = False
    window: int = 0
    masked: bool = True


@dataclass(frozen=True)
class Work:
    case: Case
    queries: Numbers
    keys: Numbers
    values: Numbers
    mask: Numbers | None
    sinks: Numbers | None = None
    stored: list[Numbers] = field(default_factory=list)  # keys and values as their type holds them

    @property
    def scale(self) -> float:
        return float(self.case.widths[0] ** -0.5)

    def run(self, threads: int = 1) -> Numbers:
        """Return the results as [stream, row, head, width]."""
        with graph(256) as work:
            keys, values = (work.tensor(self.case.kind, part) for part in (self.keys, self.values))
            result = self.operation(work, keys, values)
            shape = (*self.queries.shape[:3], self.case.widths[1])
            numbers = work.run(result, threads).reshape(shape)
            self.stored[:] = [
                work.numbers(tensor).reshape(part.shape)
                for tensor, part in ((keys, self.keys), (values, self.values))
            ]
            return numbers

    def operation(
        self, work: Graph, keys: ctypes.c_void_p, values: ctypes.c_void_p
    ) -> ctypes.c_void_p:
        parts = work.tensor("F32", self.queries), keys, values
        mask = None if self.mask is None else work.tensor("F16", self.mask[:, None])
        numbers = (c_float(x) for x in (self.scale, self.case.bias, self.case.softcap))
        operands = (*map(work.permuted, parts), mask, *numbers)
        made = work.operation("ggml_flash_attn_ext", *operands)
        if self.sinks is not None:
            sinks = work.tensor("F32", self.sinks)
            ggml.call("ggml_flash_attn_ext_add_sinks", None, made, sinks)
        return made

    def row(self, first: int, count: int = 1) -> Work:
        """Return the work of some of the rows, alone."""
        assert self.mask is not None
        part = slice(first, first + count)
        return replace(self, queries=self.queries[:, part], mask=self.mask[:, part], stored=[])

    def padded(self, more: int) -> Work:
        """Append cells that are closed and hold no numbers."""
        assert self.mask is not None
        width = ((0, 0), (0, more), (0, 0), (0, 0))
        keys = np.pad(self.keys, width, constant_values=np.nan)
        values = np.pad(self.values, width, constant_values=np.nan)
        mask = np.pad(self.mask, ((0, 0), (0, 0), (0, more)), constant_values=CLOSED)
        return replace(self, keys=keys, values=values, mask=mask, stored=[])


def work_of(case: Case, seed: int = 1) -> Work:
    random = np.random.default_rng(seed)
    heads, kv_heads = case.heads

    def normal(*shape: int) -> Numbers:
        return random.standard_normal((case.streams, *shape)).astype(np.float32)

    queries = 2 * normal(case.rows, heads, case.widths[0])
    keys = normal(case.cells, kv_heads, case.widths[0])
    values = normal(case.cells, kv_heads, case.widths[1])
    sinks = 12 * normal(heads)[0] if case.sinks else None
    return Work(case, queries, keys, values, mask_of(case) if case.masked else None, sinks)


def mask_of(case: Case) -> Numbers:
    """Let each row see the cells up to its own, the last rows the last cells."""
    at = np.arange(case.cells - case.rows, case.cells)[:, None] - np.arange(case.cells)
    open_cells = (at >= 0) & (at < (case.window or case.cells))
    bias = -np.abs(at).astype(np.float32) if case.bias else np.float32(0)
    mask = np.where(open_cells, bias, CLOSED)
    return np.tile(mask.astype(np.float32), (case.streams, 1, 1))


def slopes(case: Case) -> npt.NDArray[np.float64]:
    """Return ALiBi's slopes of all heads."""
    heads = case.heads[0]
    if not case.bias:
        return np.ones(heads)
    power = 1 << int(np.log2(heads))
    near, far = 2 ** (-case.bias / power), 2 ** (-case.bias / 2 / power)
    return np.array(
        [
            near ** (head + 1) if head < power else far ** (2 * (head - power) + 1)
            for head in range(heads)
        ]
    )


def truth(work: Work) -> npt.NDArray[np.float64]:
    """Compute attention in doubles, of keys and values as they were stored."""
    case, group = work.case, work.case.heads[0] // work.case.heads[1]
    keys, values = (np.repeat(part.astype(np.float64), group, 2) for part in work.stored)
    scores = np.einsum("srhd,schd->srhc", work.queries.astype(np.float64), keys) * work.scale
    if case.softcap:
        scores = case.softcap * np.tanh(scores / case.softcap)
    if work.mask is not None:
        mask = work.mask.astype(np.float64)[:, :, None]
        scores = np.where(
            np.isinf(mask), mask, scores + slopes(case)[:, None] * np.nan_to_num(mask)
        )
    sinks = np.full(case.heads[0], -np.inf) if work.sinks is None else work.sinks
    top = np.maximum(scores.max(-1), sinks)[..., None]
    weights = np.exp(scores - top)
    total = weights.sum(-1, keepdims=True) + np.exp(sinks[:, None] - top)
    return np.einsum("srhc,schd->srhd", weights / total, values)


CASES = {
    "one row": Case(rows=1),
    "a prompt": Case(rows=70, heads=(12, 2), widths=(128, 128), cells=513),
    "a head of keys for each": Case(heads=(4, 4)),
    "one head of keys": Case(heads=(71, 1), rows=2),
    "streams": Case(streams=3, cells=150),
    "widths of 80": Case(widths=(80, 80)),
    "halves of vectors": Case(widths=(72, 40), cells=131),
    "MLA": Case(rows=2, heads=(16, 1), widths=(576, 512)),
    "ALiBi": Case(heads=(12, 4), rows=5, bias=8.0),
    "soft cap": Case(widths=(256, 256), softcap=50.0),
    "sinks": Case(sinks=True, rows=9),
    "a window": Case(window=100, rows=9, cells=700),
    "no mask": Case(masked=False, cells=701),
    "one cell": Case(rows=1, cells=1),
    "BF16": Case(kind="BF16"),
    "F32": Case(kind="F32"),
    "Q8_0": Case(kind="Q8_0"),
    "Q4_0": Case(kind="Q4_0", rows=9),
    "Q5_1": Case(kind="Q5_1"),
}


@pytest.mark.parametrize("name", CASES)
def test_attention_is_as_exact_as_float32_can_be(name):
    work = work_of(CASES[name])
    for threads in (1, 3):
        error = work.run(threads) - truth(work)
        # llama.cpp's own kernels: 5e-4 for F16, 2.5e-3 for Q8_0 and Q4_0
        assert np.sqrt(np.mean(error**2)) < 3e-7
        assert np.abs(error).max() < 1e-5


WIDE = Case(rows=512, cells=700, heads=(6, 2), widths=(64, 64))


@pytest.mark.parametrize("kind", ["F16", "Q8_0"])
def test_a_row_is_the_same_to_the_bit_in_batches_of_any_width(kind):
    work = work_of(replace(WIDE, kind=kind))
    whole = work.run(2)
    for count in (1, 2, 3, 7, 8, 16, 64, 65):
        for first in (0, 201, 512 - count):
            part = work.row(first, count).run(2)
            assert np.array_equal(part, whole[:, first : first + count]), (count, first)


@pytest.mark.parametrize("rows", [1, 5, 64])
def test_the_number_of_threads_changes_no_bit(rows):
    work = work_of(Case(rows=rows, cells=1500, heads=(6, 2)))
    alone = work.run(1)
    for threads in range(2, 9):
        assert np.array_equal(work.run(threads), alone), threads


@pytest.mark.parametrize("rows", [1, 9])
def test_closed_cells_change_no_bit_whatever_they_hold(rows):
    work = work_of(Case(rows=rows))
    alone = work.run(2)
    for more in (1, 20, 212, 724, 3796):
        assert np.array_equal(work.padded(more).run(2), alone), more


def test_what_others_may_see_changes_no_bit_of_a_row():
    work = work_of(Case(rows=40, cells=200))
    keys, values = work.keys.copy(), work.values.copy()
    keys[:, 180:], values[:, 180:] = np.inf, np.nan
    spoilt = replace(work, keys=keys, values=values).run(2)
    assert np.array_equal(spoilt[:, :20], work.run(2)[:, :20])
    assert np.isnan(spoilt[:, 20:]).any(axis=(2, 3)).all()


def test_a_stream_is_the_same_to_the_bit_beside_others():
    work = work_of(Case(rows=2, cells=600, streams=4))
    together = work.run(3)
    for stream in range(4):
        part = slice(stream, stream + 1)
        assert work.mask is not None
        alone = Work(
            replace(work.case, streams=1),
            *(numbers[part] for numbers in (work.queries, work.keys, work.values, work.mask)),
        )
        assert np.array_equal(alone.run(2), together[part]), stream


def test_a_row_that_may_see_nothing_gets_zeros():
    work = work_of(Case(rows=3))
    assert work.mask is not None
    work.mask[:, 1] = CLOSED
    result = work.run(2)
    assert not result[:, 1].any()
    assert np.isfinite(result).all()
