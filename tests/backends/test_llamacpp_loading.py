"""Options of how llama.cpp loads and computes reach it, and change no logits."""

from __future__ import annotations

from contextlib import closing

import llama_cpp.llama_cpp as lib
import numpy as np
import pytest

from localspec.base.errors import UsageError
from localspec.base.tokens import tokens_of
from localspec.interfaces.backend import Options, Row
from localspec.running.memory.planner import divided
from localspec.running.models.locate import locate
from localspec_llamacpp import backend as llamacpp
from localspec_llamacpp.bindings.log import Log
from localspec_llamacpp.loading import load_mode
from tests import engines

TEXT = tokens_of([5, 3, 1, 4, 1, 5, 2, 6])


def logits(**options):
    with closing(engines.target("llama", gpu_layers=0, **options)) as model:
        [rows] = model.forward([Row(0, TEXT, outputs=len(TEXT))])
        return rows.copy()


def test_micro_batches_and_their_threads_reach_llama_cpp():
    with closing(
        engines.target("llama", threads=1, threads_batch=2, micro_batch=4, gpu_layers=0)
    ) as model:
        pointer = model._context.pointer
        assert lib.llama_n_ubatch(pointer) == 4
        assert (lib.llama_n_threads(pointer), lib.llama_n_threads_batch(pointer)) == (1, 2)


@pytest.mark.parametrize("options", [{"micro_batch": 3}, {"direct_io": True}, {"mlock": True}])
def test_how_a_model_is_read_and_cut_into_batches_changes_no_logits(options):
    assert np.array_equal(logits(**options), logits())


@pytest.mark.parametrize("name", ["mamba2", "gemma3"])
def test_a_micro_batch_is_refused_where_a_batch_must_stay_whole(name):
    with pytest.raises(UsageError, match="micro_batch is 4"):
        engines.target(name, micro_batch=4)


def test_other_threads_for_batches_are_refused_where_llama_cpp_would_round_otherwise():
    with pytest.raises(UsageError, match=r"as many threads for one token \(1\) as for several"):
        logits(bit_exact=True, products="llama.cpp", threads=1, threads_batch=2)


@pytest.mark.parametrize(
    ("options", "huge_pages", "mode"),
    [
        (Options(), False, lib.LLAMA_LOAD_MODE_AUTO),
        (Options(), True, lib.LLAMA_LOAD_MODE_NONE),
        (Options(mlock=True), False, lib.LLAMA_LOAD_MODE_MMAP_MLOCK),
        (Options(mlock=True), True, lib.LLAMA_LOAD_MODE_MLOCK),
        (Options(direct_io=True), True, lib.LLAMA_LOAD_MODE_DIRECT_IO),
    ],
)
def test_the_mode_of_loading_follows_the_options(options, huge_pages, mode):
    assert load_mode(options, huge_pages=huge_pages) == mode


def test_weights_that_could_not_be_locked_are_noted():
    log = Log()
    log._note(2, b"warning: failed to mlock 4096-byte buffer: Cannot allocate memory\n", None)
    assert log.unlocked


def test_rows_are_divided_among_all_cards_and_not_where_there_is_one():
    wishes = Options(split_mode="tensor")
    assert divided(wishes, 2).split == (1.0, 1.0)
    assert divided(Options(split_mode="row", split=(3.0, 1.0)), 2).split == (3.0, 1.0)
    assert divided(Options(), 1) == Options()
    with pytest.raises(UsageError, match="here is 1 for it"):
        divided(wishes, 1)
    with pytest.raises(UsageError, match="here are 0 for it"):
        divided(Options(split_mode="row", gpu_layers=0), 2)


def test_a_rehearsal_goes_from_a_mapped_file_back_to_products_of_our_own():
    """Weights that were laid out for them met a build that had been told not to use them."""
    usual, mapped = Options(context=256), Options(context=256, mmap=True)
    with llamacpp.rehearse(locate("smollm2-135m").path) as rehearsal:
        needs = rehearsal.needs(usual)
        rehearsal.needs(mapped)
        assert rehearsal.needs(usual) == needs
