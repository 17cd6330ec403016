"""The size and types of a context."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import llama_cpp.llama_cpp as lib

from localspec_llamacpp.ggml import type_numbers

KV_TYPES = ("f16", "q8_0", "q4_0", "bf16", "f32", "q4_1", "q5_0", "q5_1", "iq4_nl")
MODEL, MTP, EAGLE3, DFLASH = "model", "mtp", "eagle3", "dflash"  # graphs


@dataclass(frozen=True, slots=True)
class ContextShape:
    """The size and types of a context."""

    sequences: int
    pooled: bool  # whether they share one pool
    apart: bool  # whether long rows are run apart from short ones
    cells: int  # tokens all sequences can hold together
    batch: int
    micro_batch: int  # tokens of a batch that are computed at once
    outputs: int  # most rows of logits a forward can give
    snapshots: int  # states kept per sequence of a recurrent model, to go back to
    full_windows: bool  # whether layers with a window keep all tokens all the same
    kv_type: str
    flash_attention: bool | None  # None: llama.cpp decides
    threads: int
    threads_batch: int  # of forwards of several tokens
    fixed_threads: bool  # also where other programs use the processors
    graph: str = MODEL  # what is computed: the model, or a kind of head
    pictured: bool = False  # whether texts may hold pictures
    watched: bool = False  # whether what goes into single layers is copied on the way

    @property
    def cuts(self) -> bool:
        """Whether as many tokens of every row as the shortest has are run, then the others."""
        return not self.pooled or self.full_windows

    def params(self) -> Any:
        """Write it down as llama.cpp takes it."""
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_seq_max = self.cells, self.sequences
        params.n_batch, params.n_ubatch = self.batch, min(self.micro_batch, self.batch)
        params.n_outputs_max, params.n_rs_seq = self.outputs, self.snapshots
        params.n_threads, params.n_threads_batch = self.threads, self.threads_batch
        keys, _, values = self.kv_type.upper().partition(",")  # one for both, or one for each
        params.type_k, params.type_v = type_numbers()[keys], type_numbers()[values or keys]
        flash = self.flash_attention
        params.flash_attn_type = -1 if flash is None else int(flash)
        params.kv_unified = self.pooled
        params.swa_full = self.full_windows
        params.no_perf = True
        if self.graph == MTP:
            params.ctx_type = lib.LLAMA_CONTEXT_TYPE_MTP
        return params
