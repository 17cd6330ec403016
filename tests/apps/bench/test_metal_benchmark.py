"""The benchmark of the Metal kernel, on a machine that has no Metal, by times that are invented."""

from __future__ import annotations

import sys

import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx

from benchmarks import metal
from localspec_mlx import few_rows


def test_a_cell_has_the_faster_of_mlx_s_ways_and_the_kernel_s_share_of_it(monkeypatch):
    monkeypatch.setattr(metal, "SHAPES", ((64, 128),))

    def seconds(way, rows, matrices):
        assert {weights.numbers.shape for weights in matrices} == {(64, 16)}
        assert len(matrices) == 20
        return {"own": 0.002 * rows, "padded": 0.008}.get(way.__name__, 0.004)

    *_, head, _, row = "\n".join(metal.table(("affine", 4, 64), seconds)).splitlines()
    assert head == "| outputs, inputs | 1 | 2 | 3 | 4 | 6 | 8 | 12 | 16 |"
    assert row.startswith("| 64, 128 | 2.000 / 4.000 / 2.00 | 4.000 / 4.000 / 1.00 |")
    assert row.endswith("| 8.000 / 4.000 / 0.50 |")


def test_the_kernel_is_written_out_for_each_kind_of_weights_and_numbers():
    text, *kernels = metal.instances()
    assert len(set(kernels)) == len(few_rows.KINDS) * 3 * 2
    assert text.count("{") == text.count("}")
    assert (
        'host_name("nvfp4_4_16_bfloat_2")]] [[kernel]] decltype(product<bfloat, uchar, 2'
        in (kernels[-3])
    )


@pytest.mark.skipif(mx.metal.is_available(), reason="it takes minutes there")
def test_without_metal_the_benchmark_says_so(capsys):
    assert not metal.main([])
    assert capsys.readouterr().out == (
        "MLX has no Metal here: this needs a Mac with Apple silicon\n"
    )
