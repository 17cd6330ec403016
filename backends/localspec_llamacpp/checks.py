"""Refuse options and files that llama.cpp lacks, or ends the process for."""

from __future__ import annotations

import os
from pathlib import Path

from localspec.base.errors import ModelFileError, UsageError
from localspec.interfaces.backend import Footprint, Options, within
from localspec_llamacpp import head_kinds
from localspec_llamacpp.bindings import nextn
from localspec_llamacpp.bindings.log import LOG
from localspec_llamacpp.bindings.shape import KV_TYPES
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.devices import has_gpu, on_cpu
from localspec_llamacpp.headers import adapter as adapter_headers
from localspec_llamacpp.headers.projector import describe as describe_projector


def check_kind(weights: ModelWeights, footprint: Footprint) -> None:
    """Refuse a model that does not continue text."""
    name = f"{footprint.path.name} ({footprint.architecture})"
    if not weights.generates:
        raise ModelFileError(f"{name} does not generate text: choose a language model")
    if not weights.layers:
        raise ModelFileError(f"{name} holds a drafting head only: give the model it drafts for")


def check_head(footprint: Footprint, path: Path) -> None:
    """Refuse a head that is not there, or not for this model."""
    if not nextn.available():
        raise UsageError("this release of llama-cpp-python has no drafting heads: upgrade it")
    if path != footprint.path:
        head_kinds.require_fit(footprint, path)
    elif not footprint.drafting_layers:
        raise UsageError(f"{path.name} has no drafting head (MTP) inside")


def check(footprint: Footprint, options: Options) -> None:
    """Refuse options that llama.cpp lacks, or lacks for this model."""
    if not footprint.weight_bytes:
        raise ModelFileError(f"{footprint.path.name} holds a vocabulary only, without weights")
    if footprint.positions:  # llama.cpp aborts beyond the last one
        within("context", options.context, 1, footprint.positions)
    if options.head:
        check_head(footprint, options.head)
    if options.projector:
        describe_projector(options.projector)
    kinds = options.kv_type.split(",")
    if options.kv_type != "auto" and (len(kinds) > 2 or not {*kinds} <= {*KV_TYPES}):
        names = ", ".join(("auto", *KV_TYPES))
        raise UsageError(
            f"KV type {options.kv_type!r} is unknown; known, also as K,V for each: {names}"
        )
    if options.compute != "auto":
        raise UsageError("compute is for MLX; llama.cpp computes in numbers of its own: omit it")
    for name, count in (("threads", options.threads), ("threads_batch", options.threads_batch)):
        within(name, count, 1, os.cpu_count() or 1)
    for adapter in options.adapters:
        adapter_headers.require_fit(footprint, adapter.path)
    within("cpu_moe", options.cpu_moe, 0, footprint.layers)
    if options.cpu_moe and not footprint.experts:
        raise UsageError(f"{footprint.path.name} has no experts: omit cpu_moe")
    if options.bit_exact and not on_cpu(options):
        raise UsageError("texts can be equal to the bit on a CPU only: add --device cpu")
    if options.gpu_layers and not has_gpu():
        why = f" ({LOG.blind})" if LOG.blind else ""
        raise UsageError(
            f"gpu_layers is {options.gpu_layers}, but this build of llama.cpp sees no GPU{why}: "
            "`localspec doctor` reports what to do, or omit the option"
        )
