"""Load a GGUF, with what was not asked for chosen for this machine."""

from __future__ import annotations

import contextlib
import os
import platform
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from importlib.metadata import version
from pathlib import Path

import psutil

from localspec import host
from localspec.backend import CONTEXT, Build, Device, Footprint, Options, within
from localspec.errors import ModelFileError, UsageError
from localspec.tokenizer import Tokenizer
from localspec_llamacpp import bindings
from localspec_llamacpp.bindings import KV_TYPES, Shape, Weights
from localspec_llamacpp.headers.footprint import inspect
from localspec_llamacpp.model import LlamaModel
from localspec_llamacpp.tokenizer import GgufTokenizer

ROUND_ALIKE = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0")  # on a CPU, in batches of any width
LEARNED_POSITIONS = ("gpt2", "mpt", "starcoder")  # llama.cpp aborts beyond the last one


def load(path: Path, options: Options) -> LlamaModel:
    """Load a model; the file's headers are checked first, as llama.cpp may abort on bad ones."""
    footprint = inspect(path)
    check(footprint, options)
    bindings.LOG.verbose = options.verbose
    weights = Weights(path, all_or(options.gpu_layers), options.split)
    try:
        if not weights.generates:
            raise ModelFileError(f"{path.name} ({footprint.architecture}) does not generate text")
        tokenizer = GgufTokenizer(weights, footprint.tokenizer, footprint.chat_template)
        form = shape(weights, options, footprint.quantisation)
        return LlamaModel(weights, tokenizer, options, form)
    except BaseException:
        weights.close()
        raise


def all_or(gpu_layers: int | None) -> int:
    return -1 if gpu_layers is None else gpu_layers


@contextmanager
def tokenizer(path: Path) -> Iterator[Tokenizer]:
    footprint = inspect(path)
    weights = Weights(path, 0, empty=True)
    try:
        yield GgufTokenizer(weights, footprint.tokenizer, footprint.chat_template)
    finally:
        weights.close()


def shape(weights: Weights, options: Options, quantisation: str) -> Shape:
    context = options.context or min(weights.context, CONTEXT)
    if options.drafting:  # beyond what it was trained for its guesses would be noise
        context = min(context, weights.context)
    # The second half of a recurrent model's sequences are checkpoints of the first.
    sequences = options.slots * (2 if weights.recurrent else 1)
    return Shape(
        sequences=sequences,
        pooled=pooled(weights, options),
        cells=context * options.slots,
        batch=options.batch,
        outputs=max(options.slots * (options.tentative + 1), sequences),
        snapshots=snapshots(weights, options),
        kv_type=kv_type(options, quantisation),
        flash_attention=options.flash_attention,
        threads=options.threads or physical_cores(),
    )


def snapshots(weights: Weights, options: Options) -> int:
    """How many states per slot to ask llama.cpp for, which may not have them.

    They cover one batch, and a draft model rolls over several; and they are lost when slots of
    different widths share a batch, as llama.cpp then moves states about.
    """
    single = options.slots == 1 and not options.drafting
    return options.tentative if weights.recurrent and single else 0


def kv_type(options: Options, quantisation: str) -> str:
    """Sixteen bits each; values as bf16 where that keeps texts the same to the bit.

    With values as f16 llama.cpp takes another way for a single token than for several, from 256
    tokens and with more than one thread, and another for 64 and more, and rounds differently:
    guesses checked in a batch would not be judged as plain decoding judges. bf16 has one way, which
    is slower. It is worth that where weights round alike in batches of any width.
    """
    if options.kv_type != "auto":
        return options.kv_type
    exact = quantisation in ROUND_ALIKE and on_cpu(options) and not options.drafting
    return "f16/bf16" if exact and options.flash_attention is not False else "f16"


def pooled(weights: Weights, options: Options) -> bool:
    """Whether all slots share one pool of keys and values.

    Rows of any widths are run at once then, as suits a GPU. But each token looks at all that is in
    the pool, and sums up what is its own in the order in which it lies there, which depends on who
    came and went. Out of pools of their own, texts round as they do alone. Checkpoints of recurrent
    layers are shared, which only one pool can do.
    """
    return weights.recurrent or not on_cpu(options)


def on_cpu(options: Options) -> bool:
    return options.gpu_layers == 0 or not has_gpu()


def has_gpu() -> bool:
    return any("gpu" in device.kind for device in bindings.devices())


def probe() -> list[Device]:
    """Devices this build of llama.cpp can use; host memory as the system counts it."""
    return [_counted(device) for device in bindings.devices()]


def build() -> Build:
    return Build(version("llama-cpp-python"), bindings.features())


def _counted(device: Device) -> Device:
    if device.kind == "cpu":
        memory = host.memory()
        return replace(device, total_bytes=memory.total_bytes, free_bytes=memory.free_bytes)
    if device.kind == "gpu" and sys.platform == "darwin" and platform.machine() == "arm64":
        return replace(device, kind="integrated gpu")
    return device


def physical_cores() -> int:
    """Cores worth a thread each: hyper-threads and efficiency cores only slow the others down."""
    cores = psutil.cpu_count(logical=False) or os.cpu_count() or 1
    if sys.platform == "linux":
        cores = min(cores, len(os.sched_getaffinity(0)), granted_cores(Path("/sys/fs/cgroup")))
    return max(1, min(cores, performance_cores() or cores))


def granted_cores(cgroup: Path) -> int:
    """The processor time a container may use, in whole cores; a large number if it may all."""
    for quota, period in (("cpu.max", ""), ("cpu/cpu.cfs_quota_us", "cpu/cpu.cfs_period_us")):
        with contextlib.suppress(OSError, ValueError):
            words = (cgroup / quota).read_text().split()
            words += (cgroup / period).read_text().split() if period else []
            if words[0] not in ("max", "-1"):
                return max(1, int(words[0]) // int(words[1]))
    return 1 << 16


def performance_cores() -> int | None:
    """The fast cores of an Apple chip; None elsewhere."""
    if sys.platform != "darwin":
        return None
    return bindings.system_number(b"hw.perflevel0.physicalcpu")


def check(footprint: Footprint, options: Options) -> None:
    """Refuse what llama.cpp cannot do, or not with this model."""
    if not footprint.weight_bytes:
        raise ModelFileError(f"{footprint.path.name} holds a vocabulary only, without weights")
    if footprint.architecture in LEARNED_POSITIONS:
        within("context", options.context, 1, footprint.context)
    known = ("auto", *KV_TYPES)
    if options.kv_type not in known:
        raise UsageError(f"KV type {options.kv_type!r} is unknown; known: {', '.join(known)}")
    within("threads", options.threads, 1, os.cpu_count() or 1)
    if options.adapter:
        raise UsageError(
            "adapters are for MLX models: merge this one with llama.cpp's llama-export-lora"
        )
    if options.gpu_layers and not has_gpu():
        raise UsageError(
            f"gpu_layers is {options.gpu_layers}, but this build of llama.cpp sees no GPU: build "
            "llama-cpp-python for yours (CMAKE_ARGS=-DGGML_CUDA=on), or leave the option away"
        )
