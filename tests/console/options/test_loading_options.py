"""What `--depth` and its like make of the options of an engine."""

from __future__ import annotations

import pytest

from localspec.base.errors import UsageError
from localspec.console.options.loading import DraftingOptions, LoadingOptions, make_loading
from localspec.interfaces.backend import MAX_TENTATIVE, Options


def test_the_longest_draft_has_room_in_a_batch():
    loading = make_loading(LoadingOptions(), DraftingOptions(depth=MAX_TENTATIVE))
    assert loading.depth == loading.options.tentative == 512
    assert loading.options.batch == 514


def test_a_short_draft_leaves_the_batch_alone():
    loading = make_loading(LoadingOptions(), DraftingOptions(depth=4))
    assert loading.options == Options()


def test_the_choice_of_products_reaches_the_engine():
    assert make_loading(LoadingOptions()).options.own_products
    loading = make_loading(LoadingOptions(products="llama.cpp"))
    assert loading.options.products == "llama.cpp"
    assert not loading.options.own_products
    assert not make_loading(LoadingOptions(mmap=True)).options.own_products


def test_a_draft_that_no_batch_would_hold_is_refused_with_both_numbers():
    with pytest.raises(UsageError, match="batch is 512; it must be from 514"):
        Options(tentative=MAX_TENTATIVE)
    with pytest.raises(UsageError, match="tentative is 513; it must be from 0 to 512"):
        Options(tentative=513, batch=1024)


def test_a_batch_that_is_given_is_not_widened_by_a_plan():
    usual, chosen = (make_loading(LoadingOptions(batch=batch)) for batch in (None, 512))
    assert (usual.options.batch, usual.limits.widens) == (512, True)
    assert (chosen.options.batch, chosen.limits.widens) == (512, False)
    with pytest.raises(UsageError, match="batch is 9; it must be from 10 to 65,536"):
        make_loading(LoadingOptions(batch=9))


def test_numbers_to_compute_in_are_those_of_the_model_unless_others_are_named():
    assert make_loading(LoadingOptions()).options.compute == "auto"
    assert make_loading(LoadingOptions(compute="float16")).options.compute == "float16"


def test_a_micro_batch_is_part_of_a_batch():
    options = make_loading(LoadingOptions(batch=1024, micro_batch=1024)).options
    assert (options.batch, options.micro_batch) == (1024, 1024)
    with pytest.raises(UsageError, match="give --batch 1024, too"):
        make_loading(LoadingOptions(micro_batch=1024))
