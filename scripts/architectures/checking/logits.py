"""llama.cpp's own logits where answers part, by its bindings alone: FILE, and partings as JSON.

With the word `sure` after the file, how many tokens of each answer are the same however it rounds.
Its server tells no probabilities of tokens that are pieces of characters.
"""

from __future__ import annotations

import ctypes
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle, islice, zip_longest
from typing import Any

import llama_cpp.llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from architectures.checking.answers import CONTEXT, NEAR

F16, BF16 = 1, 30  # ggml's numbers
# In batches of other widths, beside other texts, and with values as bf16, llama.cpp rounds
# differently. Where a router
# is near a tie, a token may then go to another expert, which is no near-tie of the last logits.
WIDTHS = (CONTEXT, 1, 2, 3, 4, 5, 8)
NEIGHBOURS = (1, 5, 26, 119)  # tokens of another text in the same batch
Tokens = Sequence[int]


def main() -> int:
    silent = lib.llama_log_callback(lambda *_: None)
    lib.llama_log_set(silent, ctypes.c_void_p(0))
    lib.llama_backend_init()
    params = lib.llama_model_default_params()
    model = lib.llama_model_load_from_file(sys.argv[1].encode(), params)
    partings = json.load(sys.stdin)
    weigh = sure if "sure" in sys.argv[2:] else margins
    print(json.dumps([weigh(model, parting) for parting in partings]))
    lib.llama_model_free(model)
    return 0


def margins(model: Any, parting: Mapping[str, Any]) -> tuple[float, float]:
    """Measure a token's distance to the best: as the engine decodes, and the least of all ways."""
    token = parting["token"]
    differences = [
        float(row.max() - row[token])
        for row in every_way(model, parting["prompt"], parting["said"])
    ]
    return differences[0], min(differences)


def sure(model: Any, answer: Mapping[str, Any]) -> int:
    """Count the tokens that are the best by more than a near-tie, in every way."""
    prompt, reply = answer["prompt"], answer["said"]
    for at, token in enumerate(reply):
        for row in every_way(model, prompt, reply[:at]):
            others = np.delete(row, token)
            if row[token] - others.max() <= NEAR:
                return at
    return len(reply)


def every_way(model: Any, prompt: Tokens, reply: Tokens) -> Iterator[NDArray[np.float32]]:
    """Compute the logits after a text: first as the engine decodes it, then in other batches."""
    singly = [prompt, *([token] for token in reply)]
    yield from logits(model, Way(singly))
    for kind in (F16, BF16):
        for width in WIDTHS:
            yield from logits(model, Way([[*prompt, *reply]], (), width, kind))
            yield from logits(model, Way([prompt, *pieces(reply, width)], (), CONTEXT, kind))
        for pooled in (False, True):
            for length in NEIGHBOURS:
                neighbour = list(islice(cycle(prompt), length))
                other = [neighbour, *([token] for token in reply)]
                yield from logits(model, Way(singly, other, CONTEXT, kind, pooled))
                both = [[*prompt, *reply]], [neighbour]
                yield from logits(model, Way(*both, CONTEXT, kind, pooled))


def pieces(tokens: Tokens, width: int) -> Iterator[Tokens]:
    return (tokens[at : at + width] for at in range(0, len(tokens), width))


@dataclass(frozen=True, slots=True)
class Way:
    """A way to feed a text."""

    batches: Sequence[Tokens]
    beside: Sequence[Tokens] = ()  # of another text, in the same batches
    width: int = CONTEXT
    kind: int = F16  # of values
    pooled: bool = False  # whether both texts share one pool of keys and values


def logits(model: Any, way: Way) -> Iterator[NDArray[np.float32]]:
    """Compute the logits after the last batch; none where the model cannot be run in this way."""
    with context(model, way) as made:
        if not made:
            return
        fed = [0, 0]
        for parts in zip_longest(way.batches, way.beside, fillvalue=()):
            batch = fill_batch(parts, fed)
            failed = lib.llama_decode(made, batch)
            lib.llama_batch_free(batch)
            if failed:
                return
            fed = [before + len(part) for before, part in zip(fed, parts, strict=True)]
        last = len(way.batches[-1]) - 1
        count = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
        row = np.ctypeslib.as_array(lib.llama_get_logits_ith(made, last), (count,))
        yield row.copy()


def fill_batch(parts: Sequence[Tokens], fed: Sequence[int]) -> Any:
    """Fill a batch with both texts' next tokens, each in a sequence of its own."""
    total = sum(map(len, parts))
    batch = lib.llama_batch_init(total, 0, 1)
    batch.n_tokens = total
    at = 0
    for sequence, (tokens, before) in enumerate(zip(parts, fed, strict=True)):
        for offset, token in enumerate(tokens):
            batch.token[at], batch.pos[at] = token, before + offset
            batch.n_seq_id[at], batch.seq_id[at][0] = 1, sequence
            batch.logits[at] = offset == len(tokens) - 1
            at += 1
    return batch


@contextmanager
def context(model: Any, way: Way) -> Iterator[Any]:
    params = lib.llama_context_default_params()
    params.n_seq_max = 2 if way.beside else 1
    params.n_ctx, params.n_batch = CONTEXT * params.n_seq_max, CONTEXT
    params.n_ubatch, params.type_v, params.kv_unified = way.width, way.kind, way.pooled
    params.n_threads = params.n_threads_batch = 1
    made = lib.llama_init_from_model(model, params)
    try:
        yield made
    finally:
        if made:
            lib.llama_free(made)


if __name__ == "__main__":
    sys.exit(main())
