"""Plain decoding through the whole engine against a bare loop of llama_decode and argmax.

Both run in one process in turns of a few tokens, so that the machine's moods hit both; the memory
of each is taken in a process of its own.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Generator, Iterator
from itertools import islice
from pathlib import Path

import llama_cpp.llama_cpp as lib
import numpy as np
import psutil

from benchmarks.machine import heading
from localspec.backend import Options
from localspec.engine.engine import Engine
from localspec.engine.job import Chunk, Event
from localspec.engine.settings import Settings
from localspec.models.locate import locate
from localspec.proposers.silent import Silent
from localspec.runtime.runtime import Runtime
from localspec.tokens import Tokens
from localspec_llamacpp import backend as llamacpp
from localspec_llamacpp.bindings.context import kv_numbers
from localspec_llamacpp.bindings.library import requantise
from localspec_llamacpp.headers.footprint import inspect
from localspec_llamacpp.loading import kv_type, physical_cores

CONTEXT = 2048
PROMPT = "The history of the sea is the history of"
TURN = 16  # tokens one of them says before it is the other's turn
TURNS = 40
SLOWER, HEAVIER_BYTES = 1.03, 60 << 20  # goals


def bare_loop(
    path: Path, threads: int | None = None, *, as_localspec: bool = True
) -> Generator[int, None, None]:
    """Generate greedy tokens with a bare loop; KV types are LocalSpec's or llama.cpp's."""
    model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
    params = lib.llama_context_default_params()
    params.n_ctx = CONTEXT
    if as_localspec:
        params.type_k, params.type_v = kv_numbers(kv_type(Options(), inspect(path).quantisation))
    params.n_threads = params.n_threads_batch = threads or physical_cores()
    context = lib.llama_init_from_model(model, params)
    width = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
    tokens = (lib.llama_token * 64)()
    size = lib.llama_tokenize(
        lib.llama_model_get_vocab(model), PROMPT.encode(), len(PROMPT), tokens, 64, False, False
    )
    try:
        while True:
            lib.llama_decode(context, lib.llama_batch_get_one(tokens, size))
            logits = np.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), (width,))
            tokens[0], size = int(logits.argmax()), 1
            yield tokens[0]
    finally:
        lib.llama_free(context)
        lib.llama_model_free(model)


def through_engine(path: Path, threads: int | None = None) -> Generator[int, None, None]:
    """Generate the same tokens through slots, rounds, sampling and text, as a stream does."""
    target = llamacpp.load(path, Options(context=CONTEXT, threads=threads))
    engine = Engine(target, Silent(), 0)
    prompt: Tokens = target.tokenizer.encode(PROMPT)
    heard: list[Event] = []
    engine.add(engine.prepare(prompt, Settings(ignore_end=True), heard.append))
    try:
        while True:
            engine.step()
            for event in heard:
                assert isinstance(event, Chunk), event
                yield from event.tokens
            heard.clear()
    finally:
        target.close()


def seconds_a_token(loop: Iterator[int]) -> tuple[float, list[int]]:
    start = time.perf_counter()
    tokens = list(islice(loop, TURN))
    return (time.perf_counter() - start) / TURN, tokens


def resident(name: str, path: Path) -> int:
    """Measure the bytes that a process of its own holds after some tokens."""
    command = [sys.executable, "-m", "benchmarks.plain", name, str(path)]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def weigh(name: str, path: Path) -> None:
    """Run one of the two in this process and print what the process holds then."""
    if name == "bare":
        list(islice(bare_loop(path), 64))
    else:
        runtime = Runtime(Engine(llamacpp.load(path, Options(context=CONTEXT)), Silent(), 0))
        runtime.generate(PROMPT, Settings(max_tokens=64, ignore_end=True))
    print(psutil.Process().memory_info().rss)


def compare(path: Path) -> bool:
    bare, ours = bare_loop(path), through_engine(path)
    turns = []
    for _ in range(TURNS):
        (bare_seconds, one), (our_seconds, other) = seconds_a_token(bare), seconds_a_token(ours)
        if one != other:
            print("the two do not say the same")
            return False
        turns.append((bare_seconds, our_seconds))
    del turns[:2]  # the first hold the prompt
    ratio = float(np.median([ours / bare for bare, ours in turns]))
    for name, column in zip(("bare loop", "LocalSpec"), zip(*turns, strict=True), strict=True):
        print(f"{name}   {np.median(column) * 1e3:7.3f} ms a token")
    print(f"ratio       {ratio:7.3f}, median of {len(turns)} pairs of turns; goal {SLOWER}")
    return ratio <= SLOWER


def main() -> bool:
    print(heading(), "\n")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "smollm2-q8_0.gguf"
        requantise(locate("smollm2-135m").path, path, "q8_0")
        quick = compare(path)
        bare, ours = resident("bare", path), resident("ours", path)
    print(f"memory      {bare / 2**20:.0f} MiB bare, {ours / 2**20:.0f} MiB LocalSpec; goal + 60")
    return quick and ours - bare <= HEAVIER_BYTES


if __name__ == "__main__":
    weigh(sys.argv[1], Path(sys.argv[2]))
