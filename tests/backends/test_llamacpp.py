"""The parts that only llama.cpp has: options, threads, vocabulary, memory."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing, nullcontext
from dataclasses import replace

import numpy as np
import pytest

from localspec.base.errors import ModelFileError, UsageError
from localspec.base.tokens import tokens_of
from localspec.interfaces.backend import DraftOptions, Options, Row
from localspec_llamacpp import backend as llamacpp
from localspec_llamacpp import loading, openmp
from localspec_llamacpp.bindings.log import Log
from localspec_llamacpp.cores import granted_cores
from localspec_llamacpp.gathering import PATIENCE
from localspec_llamacpp.loading import kv_type
from localspec_llamacpp.order import are_neighbours
from tests import engines
from tests.runs import TEXTS
from tests.tiny import write_vocabulary

EXACT = Options(gpu_layers=0, bit_exact=True)


ABORTED = """
from localspec_llamacpp.bindings.log import LOG, lib
LOG._note(4, b"out of luck", None)
lib._lib["ggml_abort"](b"/where/it was/built/some.cpp", 12, b"%s", b"no room for / this")
"""


def test_what_ends_llamacpp_is_one_line_without_its_trace_of_calls():
    done = subprocess.run([sys.executable, "-c", ABORTED], capture_output=True, timeout=60)
    assert done.returncode
    assert done.stderr == b"llama.cpp: out of luck; some.cpp:12: no room for / this\n"


@pytest.mark.skipif(sys.platform != "linux", reason="threads are listed on Linux only")
def test_a_model_at_rest_has_no_threads_and_runs_again():
    def threads():
        return len(os.listdir("/proc/self/task"))

    with closing(engines.target("llama", threads=2, gpu_layers=0)) as model:
        openmp.end_threads()
        before = threads()
        first = model.forward([Row(0, tokens_of([5, 3, 1, 4]))])[0].copy()
        assert threads() == before + 1
        model.rest()
        assert threads() == before
        model.truncate(0, 0)
        assert (model.forward([Row(0, tokens_of([5, 3, 1, 4]))])[0] == first).all()


def test_what_a_driver_says_of_itself_is_kept():
    log = Log()
    log._note(4, b"ggml_cuda_init: failed to initialize CUDA: the driver is too old\n", None)
    assert log.blind == "failed to initialize CUDA: the driver is too old"
    log._note(4, b"another error", None)
    log.forget_errors()
    assert log.blind


def test_a_vocabulary_without_weights_is_not_loaded(tmp_path):
    path = write_vocabulary(tmp_path / "words.gguf")
    with pytest.raises(ModelFileError, match="vocabulary"):
        llamacpp.load(path, engines.OPTIONS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kv_type": "q9"}, "q9"),
        ({"kv_type": "f16,q8_0,f16"}, "K,V for each"),
        ({"cpu_moe": 4000}, "cpu_moe"),
        ({"slots": 0}, "slots"),
        ({"threads": 0}, "threads"),
        ({"threads": 100_000}, "threads"),
        ({"threads_batch": 100_000}, "threads_batch"),
        ({"micro_batch": 0}, "micro_batch"),
        ({"split_mode": "pipe"}, "split_mode"),
        ({"direct_io": True, "mmap": True}, "omit mmap and mlock"),
        ({"gpu_layers": -3}, "gpu_layers"),
        ({"context": 2_000_000_000}, "context"),
        ({"slots": 1000}, "slots"),
        ({"batch": 8, "tentative": 8}, "batch"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options, message):
    with pytest.raises(UsageError, match=message):
        engines.target("llama", **options)


def test_layers_go_to_a_gpu_or_it_is_said_that_there_is_none():
    seen = any("gpu" in device.kind for device in llamacpp.probe())
    with nullcontext() if seen else pytest.raises(UsageError, match="sees no GPU"):
        engines.target("llama", gpu_layers=3).close()


def test_the_devices_include_the_processor_with_its_memory():
    kinds = {device.kind: device for device in llamacpp.probe()}
    assert 0 < kinds["cpu"].free_bytes <= kinds["cpu"].total_bytes


def test_tokens_give_back_the_text_whatever_its_script():
    model = engines.target("llama")
    for text in (*TEXTS, "", "Ω≈ç√ 漢字 \u202e \x00 end", "\r\n\t  ", "a" * 3000):
        tokens = model.tokenizer.encode(text)
        assert b"".join(map(model.tokenizer.token_bytes, tokens.tolist())) == text.encode()
    model.close()


def test_control_tokens_are_read_only_where_they_are_meant():
    model = engines.target("llama")
    [end] = model.tokenizer.encode("<|im_end|>", special=True).tolist()
    assert end in model.tokenizer.ends
    assert model.tokenizer.token_bytes(end) == b""
    assert model.tokenizer.token_text(end) == "<|im_end|>"
    assert end not in model.tokenizer.encode("<|im_end|>").tolist()
    model.close()


def test_logits_are_views_of_the_engines_own_memory():
    model = engines.target("llama")
    [first] = model.forward([Row(0, tokens_of([1, 2, 3]))])
    before = first.copy()
    [second] = model.forward([Row(0, tokens_of([4]))])
    assert not first.flags.owndata
    assert np.shares_memory(first, second)
    assert not np.array_equal(before, second)
    model.close()


@pytest.mark.parametrize("architecture", ["llama", "gemma3"])
def test_what_other_slots_hold_and_give_up_does_not_change_a_bit(architecture):
    first, other = (np.resize(tokens_of(each), 60) for each in ([5, 6, 7, 8, 9], [9, 7, 5]))
    with closing(engines.target(architecture, slots=3, bit_exact=True)) as model:
        model.forward([Row(1, first[:10])])
        alone = said_in_pieces(model, 1, first[10:])
        model.truncate(1, 0)
        model.forward([Row(0, other)])
        model.forward([Row(1, first[:10])])
        model.truncate(0, 5)  # frees what lies before the others
        assert model.copy(1, 2, 10) == 10
        for slot in (1, 2):
            assert np.array_equal(alone, said_in_pieces(model, slot, first[10:]))


@pytest.mark.parametrize(
    ("widths", "batches"),
    [
        ((1, 5), 2),
        ((5, 1), 2),
        ((5, 5), 1),
        ((1, 40), 2),
        ((40, 60), 1),  # long ones wait for nothing, and no logits of the first are copied
        ((1, 1, 15), 1),
        ((1, 1, 16), 2),
        ((1, 1, 70), 2),
        ((70, 1, 1), 2),
        ((1, 70, 1), 1),  # the short ones are no neighbours without the long one
    ],
)
def test_rows_of_any_widths_have_the_logits_that_each_has_alone(widths, batches, monkeypatch):
    """Whether they are run in one batch or in several."""
    tokens = [np.resize(tokens_of([at + 5, 9, 7, at + 11]), 10 + n) for at, n in enumerate(widths)]
    rows = [Row(slot, text[10:], min(len(text) - 10, 3)) for slot, text in enumerate(tokens)]
    with closing(engines.target("llama", batch=128, gpu_layers=0, bit_exact=True)) as model:
        assert model.pool > model.context, "the slots share a KV cache"
        alone = []
        for row in rows:
            model.forward([Row(row.slot, tokens[row.slot][:10])])
            alone.append(model.forward([row])[0].copy())
            model.truncate(row.slot, 10)
        run, decode = [], model._context.decode
        monkeypatch.setattr(model._context, "decode", lambda parts: run.append(0) or decode(parts))
        logits = model.forward(rows)
        assert len(run) == batches
        for one, other in zip(alone, logits, strict=True):
            np.testing.assert_allclose(one, other, atol=1e-3)


@pytest.mark.parametrize("by_itself", [False, True])
def test_slots_that_stay_apart_are_brought_together(by_itself):
    slots = (0, 3)
    with closing(engines.target("llama", gpu_layers=0, bit_exact=True)) as model:
        for slot in slots:
            model.forward([Row(slot, tokens_of([5, 9, 7, slot]))])
        for _ in range(PATIENCE + 2):
            if by_itself:
                model.multi_step(slots, [4, 4], lambda found: None)
            else:
                model.forward([Row(slot, tokens_of([4])) for slot in slots])
        assert are_neighbours([model._context.memory.ids[slot] for slot in slots])
        for slot in slots:
            text = tokens_of([5, 9, 7, slot, *[4] * (PATIENCE + 2), 6])
            [found] = model.forward([Row(slot, text[-1:])])
            [alone] = model.forward([Row(1, text)])
            model.truncate(1, 0)
            np.testing.assert_allclose(found, alone, atol=1e-3)


def said_in_pieces(model, slot, tokens):
    """The logits after each token, fed one at a time."""
    return np.array(
        [model.forward([Row(slot, tokens[at : at + 1])])[0][0] for at in range(len(tokens))]
    )


def test_a_long_text_is_not_copied_for_what_is_read_sooner():
    with closing(engines.target("llama", slots=2, bit_exact=True)) as model:
        for _ in range(10):
            model.forward([Row(0, tokens_of([5, 3, 1] * 10))])
        assert [model.copy(0, 1, length) for length in (1, 2)] == [0, 2]


def test_keys_and_values_may_have_types_of_their_own():
    options = replace(engines.OPTIONS, slots=1, context=2048)
    kept = {}
    with llamacpp.rehearse(engines.tiny("llama")) as rehearsal:
        for name in ("q8_0", "q8_0,f16", "f16,q8_0", "f16"):
            kept[name] = rehearsal.needs(replace(options, kv_type=name)).cache
    assert kept["q8_0"] < kept["q8_0,f16"] == kept["f16,q8_0"] < kept["f16"]
    for name in ("q8_0,f16", "q4_1,q5_0"):
        with closing(engines.target("llama", kv_type=name)) as model:
            assert np.isfinite(model.forward([Row(0, tokens_of([5, 3, 1, 4]))])[0]).all()


def test_a_draft_model_is_not_asked_beyond_what_it_was_trained_for():
    long = DraftOptions(context=8192)
    with closing(engines.draft("llama", context=5000, slots=1, draft=long)) as model:
        assert model.context == 4096
    with closing(engines.target("llama", context=5000, slots=1)) as model:
        assert model.context == 5000


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "max 100000"}, 1 << 16),
        ({"cpu/cpu.cfs_quota_us": "350000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 1 << 16),
        ({"cpu.max": "nonsense"}, 1 << 16),
        ({}, 1 << 16),
    ],
)
def test_a_container_gets_no_more_threads_than_it_was_granted_cores(tmp_path, files, cores):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert granted_cores(tmp_path) == cores


@pytest.mark.parametrize(
    ("quantisation", "options", "expected"),
    [
        ("Q8_0", Options(), "f16"),
        ("Q8_0", EXACT, "f16,bf16"),
        ("Q4_0", EXACT, "f16,bf16"),
        ("Q4_K_M", EXACT, "f16,bf16"),
        ("F16", EXACT, "f16"),  # rounds by the width of a batch in any case
        ("Q8_0", replace(EXACT, drafting=True), "f16"),  # drafts may be rounded anyhow
        ("Q8_0", replace(EXACT, flash_attention=False), "f16"),
        ("Q8_0", replace(EXACT, kv_type="q8_0"), "q8_0"),
    ],
)
def test_values_are_kept_so_that_texts_stay_exact_where_they_can_be(
    quantisation, options, expected
):
    footprint = replace(loading.inspect(engines.tiny("llama")), quantisation=quantisation)
    assert kv_type(options, replace(footprint, even=False)) == expected
