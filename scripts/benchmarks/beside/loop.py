"""A bare loop of llama_decode and argmax, and the same tokens through the whole engine.

Both run in one process in turns of a few tokens, so that the machine's moods hit both.
"""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

import llama_cpp.llama_cpp as lib
import numpy as np

from benchmarks.comparison.plan import rotated
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.requests.job import Chunk, Event
from localspec.core.requests.settings import Settings
from localspec.interfaces.backend import Options
from localspec_llamacpp import backend as llamacpp

CONTEXT = 2048
PROMPT = "The history of the sea is the history of"
TURN = 16  # tokens that one side generates before it is the other's turn
WARM_UP_TOKENS = 16


@dataclass(frozen=True, slots=True)
class Reply:
    """A reply that both sides generate."""

    path: Path
    tokens: int
    threads: int


def bare_loop(path: Path, threads: int) -> Generator[int, None, None]:
    """Generate greedy tokens, with all else as llama.cpp sets it."""
    model = lib.llama_model_load_from_file(str(path).encode(), lib.llama_model_default_params())
    params = lib.llama_context_default_params()
    params.n_ctx = CONTEXT
    params.n_threads = params.n_threads_batch = threads
    context = lib.llama_init_from_model(model, params)
    vocabulary = lib.llama_model_get_vocab(model)
    width = lib.llama_vocab_n_tokens(vocabulary)
    tokens = (lib.llama_token * 64)()
    size = lib.llama_tokenize(vocabulary, PROMPT.encode(), len(PROMPT), tokens, 64, False, False)
    try:
        while True:
            lib.llama_decode(context, lib.llama_batch_get_one(tokens, size))
            logits = np.ctypeslib.as_array(lib.llama_get_logits_ith(context, -1), (width,))
            tokens[0], size = int(logits.argmax()), 1
            yield tokens[0]
    finally:
        lib.llama_free(context)
        lib.llama_model_free(model)


def through_engine(path: Path, threads: int) -> Generator[int, None, None]:
    """Generate the same tokens through slots, rounds, sampling and text, as a stream does."""
    target = llamacpp.load(path, Options(context=CONTEXT, threads=threads))
    engine = Engine(target, Silent(), 0)
    events: list[Event] = []
    prompt = target.tokenizer.encode(PROMPT)
    engine.add(engine.prepare(prompt, Settings(ignore_end=True), events.append))
    try:
        while True:
            engine.step()
            for event in events:
                assert isinstance(event, Chunk), event
                yield from event.tokens
            events.clear()
    finally:
        target.close()


def loop_round(reply: Reply, number: int) -> tuple[float, float]:
    """Return the milliseconds per token on either side, the bare loop first."""
    with (
        closing(bare_loop(reply.path, reply.threads)) as bare,
        closing(through_engine(reply.path, reply.threads)) as engine,
    ):
        loops, seconds = (bare, engine), [0.0, 0.0]
        for loop in loops:
            list(islice(loop, WARM_UP_TOKENS))  # the prompt as well
        turns = reply.tokens // TURN
        for at in range(turns):
            for side in rotated((0, 1), number + at):
                begun = time.perf_counter()
                list(islice(loops[side], TURN))
                seconds[side] += time.perf_counter() - begun
    bare_seconds, our_seconds = (side_seconds / (turns * TURN) for side_seconds in seconds)
    return bare_seconds * 1e3, our_seconds * 1e3
