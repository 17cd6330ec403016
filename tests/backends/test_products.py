"""LocalSpec's products as its engine uses them, by a library that notes what it is asked."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest

from localspec.base.errors import UsageError
from localspec.interfaces.backend import METAL_PRODUCTS, OWN_PRODUCTS, Options
from localspec_build.kernels import FEATURE
from localspec_llamacpp import loading
from localspec_llamacpp.bindings import library, products
from localspec_llamacpp.headers.metadata import Tensor
from localspec_llamacpp.headers.rounding import matrices, packable, rounds_alike
from localspec_llamacpp.rehearsal import rehearse
from tests import engines

ON_CPU = Options(threads=1, context=64, gpu_layers=0)
EXACT = replace(ON_CPU, bit_exact=True)


class FakeLibrary:
    """Has the functions that are compiled into llama.cpp's, if it answers at all."""

    def __init__(self, answer: bytes | None) -> None:
        self.answer, self.used = answer, []

    def call(self, function, _, *arguments):
        if self.answer is None:
            raise AttributeError(function)
        if function == "localspec_products":
            return self.answer
        assert function == "localspec_products_use"
        self.used.append(arguments[0].value)
        return None


@pytest.fixture
def library_of(monkeypatch):
    """Put a library in place of llama.cpp's, for products alone."""

    def put(answer):
        fake = FakeLibrary(answer)
        monkeypatch.setattr(products, "library_answer", fake.call)
        products.answered.cache_clear()
        return fake

    yield put
    products.answered.cache_clear()


def footprint(**facts):
    return replace(loading.inspect(engines.tiny("llama")), **facts)


def matrix(kind, *shape, name="blk.0.ffn_up.weight"):
    return Tensor(name, shape, kind, 0, 0)


def test_the_library_names_its_instructions(library_of):
    library_of(b"AVX2")
    assert products.name() == "AVX2"
    assert library.features()[-1] == f"{FEATURE} (AVX2)"


def test_a_processor_that_is_not_served_is_told_from_a_library_without_products(library_of):
    library_of(b"")
    assert products.name() == ""
    assert library.features()[-1] == f"{FEATURE} (not for this processor)"
    library_of(None)
    assert products.name() == ""
    assert not any(feature.startswith(FEATURE) for feature in library.features())


@pytest.mark.parametrize(
    ("choice", "on"), [(OWN_PRODUCTS, 1), (METAL_PRODUCTS, 1), ("llama.cpp", 0)]
)
def test_the_option_reaches_the_library_before_a_model_is_loaded(library_of, choice, on):
    fake = library_of(b"AVX2")
    loading.load(engines.tiny("llama"), replace(ON_CPU, products=choice)).close()
    assert fake.used == [on]
    with rehearse(engines.tiny("llama")) as rehearsal:
        rehearsal.needs(replace(ON_CPU, products=choice))
    assert fake.used[-1] == on


def test_a_library_without_products_loads_as_before(library_of):
    library_of(None)
    with closing(loading.load(engines.tiny("llama"), ON_CPU)) as model:
        assert model.slots == ON_CPU.slots


def test_an_unknown_choice_is_refused():
    with pytest.raises(UsageError, match="products is 'mine', known: localspec, "):
        Options(products="mine")


@pytest.mark.parametrize(
    ("options", "even", "packed"),
    [
        (ON_CPU, False, True),
        (ON_CPU, True, True),
        (replace(ON_CPU, mmap=True), True, False),  # packing would copy what is mapped
        (EXACT, False, False),
        (EXACT, True, True),
        (replace(EXACT, products="llama.cpp"), True, False),
        (replace(EXACT, mmap=True), True, False),
    ],
)
def test_weights_are_packed_unless_that_would_copy_a_mapped_file_or_round_unevenly(
    options, even, packed
):
    place = loading.placement(options, footprint(even=even))
    assert place.packed is packed
    assert place.own_products is options.own_products


@pytest.mark.parametrize(
    ("options", "even", "expected"),
    [
        (EXACT, True, "f16"),
        (EXACT, False, "f16,bf16"),
        (replace(EXACT, products="llama.cpp"), True, "f16,bf16"),
        (replace(EXACT, mmap=True), True, "f16,bf16"),
    ],
)
def test_values_stay_f16_where_products_round_all_weights_alike(options, even, expected):
    model = footprint(quantisation="Q8_0", even=even)
    assert loading.kv_type(options, model) == expected


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (matrix("Q4_K", 256, 16), True),
        (matrix("Q4_K", 512, 48, 8), True),  # of experts
        (matrix("Q4_K", 384, 16), False),
        (matrix("Q4_K", 256, 24), False),
        (matrix("Q8_0", 32, 16), True),
        (matrix("MXFP4", 96, 32), True),
        (matrix("IQ4_XS", 32, 32), False),
        (matrix("F16", 256, 16), False),
        (matrix("Q8_0", 32), False),
    ],
)
def test_a_matrix_is_taken_by_its_type_and_shape(tensor, expected):
    assert packable(tensor) is expected


@pytest.mark.parametrize(
    ("tensor", "expected"),
    [
        (matrix("Q4_K", 256, 16), True),
        (matrix("Q4_K", 256, 24), False),
        (matrix("F32", 256, 24), True),  # a router of experts
        (matrix("BF16", 8, 3), True),
        (matrix("F16", 100, 16), False),
        (matrix("IQ2_XS", 256, 16), False),
    ],
)
def test_a_matrix_rounds_alike_by_its_type_and_shape(tensor, expected):
    assert rounds_alike(tensor) is expected


def test_embeddings_are_a_matrix_where_they_are_the_output_as_well():
    embeddings = matrix("Q6_K", 256, 32, name="token_embd.weight")
    norm = matrix("F32", 256, name="output_norm.weight")
    assert matrices([embeddings, norm]) == [embeddings]
    output = matrix("Q6_K", 256, 32, name="output.weight")
    assert matrices([embeddings, norm, output]) == [output]


def test_the_plan_counts_packed_weights(library_of, monkeypatch):
    library_of(b"AVX2")
    with rehearse(engines.tiny("llama")) as rehearsal:
        before = rehearsal.needs(ON_CPU).weights
        packed = matrix("Q8_0", 32, 16)
        monkeypatch.setattr(rehearsal, "_matrices", [packed])
        monkeypatch.setattr(products, "packed_bytes", lambda each: 1000)
        assert rehearsal.needs(ON_CPU).weights == before + 1000 - packed.size
        for change in ({"products": "llama.cpp"}, {"mmap": True}):
            assert rehearsal.needs(replace(ON_CPU, **change)).weights == before
