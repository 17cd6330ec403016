"""The benchmark of products, on tiny models; where llama.cpp has none of ours, by its own alone."""

from __future__ import annotations

import numpy as np
import pytest

from benchmarks import kernels
from benchmarks.beside.reading import Multiplied, multiplied
from benchmarks.kernels import AS_IT_IS, HELD, Measured, Work
from localspec.interfaces.backend import OWN_PRODUCTS, PRODUCTS
from localspec_llamacpp.bindings import products
from localspec_llamacpp.headers.header import read
from localspec_llamacpp.headers.rounding import matrices
from requantising import requantise
from tests import engines
from tests.tiny import EXPERTS  # of which one is active

LLAMACPP = PRODUCTS[1]


class Counting:
    """A model that notes the switch of products at each forward, and what it is given."""

    def __init__(self, switch):
        self.switch, self.held, self.forwards = switch, 0, []

    def truncate(self, _, length):
        self.held = min(self.held, length)
        return self.held

    def forward(self, rows):
        [row] = rows
        self.forwards.append((self.held, len(row.tokens), row.outputs, self.switch[-1]))
        self.held += len(row.tokens)


@pytest.fixture
def switch(monkeypatch):
    """Note how products are switched."""
    states = [None]
    monkeypatch.setattr(products, "use", states.append)
    return states


def test_forwards_of_either_products_take_turns_each_behind_what_is_held(switch):
    models = {name: Counting(switch) for name in PRODUCTS}
    times = kernels.medians(models, np.arange(HELD + 4), Work((1, 4), repeats=2, threads=1))
    turns = kernels.TURNS + 1
    for name, on in ((OWN_PRODUCTS, True), (LLAMACPP, False)):
        once = [*[(HELD, 1, 1, on)] * turns, *[(HELD, 4, 4, on)] * turns]
        assert models[name].forwards == [(0, HELD, 0, on), *once * 2]
        assert times[1][name] > 0
        assert times[4][name] > 0
    assert switch[1:] == [True, False] * turns * 4


def test_the_first_forward_of_a_width_is_not_timed(switch):
    models = {name: Counting(switch) for name in PRODUCTS}
    timed = [name for name, _ in kernels.in_turns(models, np.arange(HELD + 2))]
    assert timed == list(PRODUCTS) * kernels.TURNS


def test_a_model_that_goes_back_further_reads_what_is_missing(switch):
    model = Counting(switch)
    kernels.forward_seconds(model, np.arange(HELD + 2))
    model.truncate = lambda *_: 40
    model.held = 40
    kernels.forward_seconds(model, np.arange(HELD + 2))
    assert [each[:2] for each in model.forwards[2:]] == [(40, HELD - 40), (HELD, 2)]


@pytest.mark.parametrize("kind", [AS_IT_IS, "Q8_0"])
def test_all_widths_are_measured_by_both_products(kind):
    measured = kernels.measure(engines.tiny("llama"), kind, Work((1, 3), repeats=1, threads=1))
    assert list(measured.seconds) == [1, 3]
    for times in measured.seconds.values():
        assert set(times) == set(PRODUCTS)
        assert all(0 < seconds < 60 for seconds in times.values())
    assert ("Q8_0" in measured.weights.bytes_by_type) == (kind == "Q8_0")
    assert measured.read_speed > 1e8


def test_a_row_has_times_bytes_and_operations_of_both():
    weights = Multiplied(50e6, {"Q5_0": 30e6, "Q4_K": 10e6, "F32": 1e3})
    seconds = {
        1: {OWN_PRODUCTS: 0.004, LLAMACPP: 0.005},
        8: {OWN_PRODUCTS: 0.008, LLAMACPP: 0.02},
        128: {OWN_PRODUCTS: 0.1, LLAMACPP: 0.2},
    }
    line = kernels.row("Q4_K", Measured(weights, 20e9, seconds))
    cells = [cell.strip() for cell in line.strip("|").split("|")]
    assert cells[:2] == ["Q4_K", "Q5_0 75%, Q4_K 25%"]
    assert cells[2:5] == [
        "4.00 / 5.00 / 1.00",
        "8.00 / 20.00 / 2.00",
        "100.00 / 200.00 / 25.00",
    ]
    assert cells[5:] == ["10.0 / 8.0 of 20.0", "100 / 40"]  # operations of 8 rows, not of 128
    titles, rule = kernels.head([1, 8, 128])
    assert titles.count("|") == rule.count("|") == line.count("|")
    assert "Gops/s at 8" in titles


def test_weights_of_a_row_are_those_of_all_matrices():
    path = engines.tiny("llama")
    weights = multiplied(path)
    listed = matrices(read(path).tensors)
    assert weights.bytes == sum(tensor.size for tensor in listed)
    assert weights.count == sum(int(np.prod(tensor.shape)) for tensor in listed)


def test_of_experts_only_active_ones_count():
    path = engines.tiny("glm4moe-experts")
    listed = matrices(read(path).tensors)
    experts = [tensor for tensor in listed if len(tensor.shape) > 2]
    assert experts
    inactive = (EXPERTS - 1) / EXPERTS
    for counted, measure in (
        (multiplied(path).bytes, lambda tensor: tensor.size),
        (multiplied(path).count, lambda tensor: np.prod(tensor.shape)),
    ):
        assert counted == pytest.approx(
            sum(map(measure, listed)) - inactive * sum(map(measure, experts))
        )


@pytest.mark.parametrize("kind", ["Q8_0", "IQ4_NL", "MXFP4"])
def test_a_pure_copy_has_all_its_matrices_in_one_type(tmp_path, kind):
    path = tmp_path / "pure.gguf"
    requantise(engines.tiny("llama"), path, kind, pure=True)
    kinds = {tensor.kind for tensor in read(path).tensors if len(tensor.shape) > 1}
    assert kinds == {kind}


@pytest.mark.parametrize(
    ("answer", "advice"), [(None, "localspec doctor --fix"), ("", "no code for the instructions")]
)
def test_a_build_without_products_is_told_before_anything_is_measured(monkeypatch, answer, advice):
    monkeypatch.setattr(products, "answered", lambda: answer)
    monkeypatch.setattr("sys.argv", ["bench", "kernels", str(engines.tiny("llama"))])
    with pytest.raises(SystemExit, match=advice):
        kernels.main()


def test_what_cannot_be_measured_is_told_in_its_row(monkeypatch, capsys):
    monkeypatch.setattr(products, "answered", lambda: "AVX2")
    words = [str(engines.tiny("llama")), "--types", AS_IT_IS, "--rows", "513"]
    monkeypatch.setattr("sys.argv", ["bench", "kernels", *words])
    assert kernels.main()
    assert f"| {AS_IT_IS} | not measured: tentative is 513" in capsys.readouterr().out
