"""The logits that libmtmd's own helper gives behind texts with pictures."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path

import llama_cpp.llama_cpp as lib
import numpy as np

from localspec_llamacpp.bindings.batch import pointer
from localspec_llamacpp.bindings.placement import HOST
from localspec_llamacpp.bindings.projector import MARKER, library
from localspec_llamacpp.bindings.weights import ModelWeights

CONTEXT = 1024


def greedy_logits(
    model: Path, projector: Path, prompt: bytes, pictures: Sequence[np.ndarray], steps: int
) -> Iterator[np.ndarray]:
    """Yield the logits behind a prompt with markers, and behind each likeliest token."""
    mtmd = library()
    with ExitStack() as closing:
        weights = ModelWeights(model, HOST)
        closing.callback(weights.close)
        context = _context(weights)
        closing.callback(lib.llama_free, context)
        params = mtmd.mtmd_context_params_default()
        params.use_gpu, params.n_threads, params.media_marker = False, 1, MARKER
        eyes = mtmd.mtmd_init_from_file(str(projector).encode(), weights.pointer, params)
        closing.callback(mtmd.mtmd_free, eyes)
        chunks = mtmd.mtmd_input_chunks_init()
        closing.callback(mtmd.mtmd_input_chunks_free, chunks)
        text = mtmd.mtmd_input_text(prompt, len(prompt), False, True)
        bitmaps = [
            mtmd.mtmd_bitmap_init(p.shape[1], p.shape[0], pointer(p, ctypes.c_uint8))
            for p in pictures
        ]
        for bitmap in bitmaps:
            closing.callback(mtmd.mtmd_bitmap_free, bitmap)
        every = (mtmd.mtmd_bitmap_p_ctypes * len(bitmaps))(*bitmaps)
        assert not mtmd.mtmd_tokenize(eyes, chunks, ctypes.byref(text), every, len(bitmaps))
        past = lib.llama_pos(0)
        evaluated = mtmd.mtmd_helper_eval_chunks(
            eyes, context, chunks, 0, 0, CONTEXT, True, ctypes.byref(past)
        )
        assert not evaluated
        for step in range(steps + 1):
            place = lib.llama_get_logits_ith(context, -1)
            logits = np.ctypeslib.as_array(place, (weights.vocabulary,)).copy()
            yield logits
            if step < steps:
                _append(context, int(logits.argmax()), past.value + step)


def _context(weights: ModelWeights):
    params = lib.llama_context_default_params()
    params.n_ctx = params.n_batch = params.n_ubatch = CONTEXT
    params.n_threads = params.n_threads_batch = 1
    params.flash_attn_type = 0
    return lib.llama_init_from_model(weights.pointer, params)


def _append(context, token: int, position: int) -> None:
    tokens, positions = np.array([token], np.int32), np.array([position], np.int32)
    batch = lib.llama_batch(
        n_tokens=1,
        token=pointer(tokens, lib.llama_token),
        pos=pointer(positions, lib.llama_pos),
    )
    assert not lib.llama_decode(context, batch)
