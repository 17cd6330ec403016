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
from typing import Any

import llama_cpp.llama_cpp as lib
import numpy as np
from numpy.typing import NDArray

from architectures.checking.answers import CONTEXT, NEAR

F16, BF16 = 1, 30  # ggml's numbers
# In batches of other widths, and with values as bf16, llama.cpp rounds differently. Where a router
# is near a tie, a token may then go to another expert, which is no near-tie of the last logits.
WIDTHS = (CONTEXT, 1, 2, 3, 4, 5, 8)
Tokens = Sequence[int]


def main() -> int:
    silent = lib.llama_log_callback(lambda *_: None)
    lib.llama_log_set(silent, ctypes.c_void_p(0))
    lib.llama_backend_init()
    params = lib.llama_model_default_params()
    model = lib.llama_model_load_from_file(sys.argv[1].encode(), params)
    partings = json.load(sys.stdin)
    weigh = sure if "sure" in sys.argv[2:] else margins
    print(json.dumps([weigh(model, each) for each in partings]))
    lib.llama_model_free(model)
    return 0


def margins(model: Any, parting: Mapping[str, Any]) -> tuple[float, float]:
    """By how much the token is below the best: as the engine decodes, and the least of all ways."""
    token = parting["token"]
    found = [
        float(row.max() - row[token])
        for row in every_way(model, parting["prompt"], parting["said"])
    ]
    return found[0], min(found)


def sure(model: Any, answer: Mapping[str, Any]) -> int:
    """How many tokens are the best by more than a near-tie, in every way."""
    prompt, said = answer["prompt"], answer["said"]
    for at, token in enumerate(said):
        for row in every_way(model, prompt, said[:at]):
            others = np.delete(row, token)
            if row[token] - others.max() <= NEAR:
                return at
    return len(said)


def every_way(model: Any, prompt: Tokens, said: Tokens) -> Iterator[NDArray[np.float32]]:
    """The logits after a text: first as the engine decodes it, then in batches of other widths."""
    yield from logits(model, [prompt, *([each] for each in said)], CONTEXT, F16)
    for kind in (F16, BF16):
        for width in WIDTHS:
            yield from logits(model, [[*prompt, *said]], width, kind)
            yield from logits(model, [prompt, *pieces(said, width)], CONTEXT, kind)


def pieces(tokens: Tokens, width: int) -> Iterator[Tokens]:
    return (tokens[at : at + width] for at in range(0, len(tokens), width))


def logits(
    model: Any, batches: Sequence[Tokens], width: int, kind: int
) -> Iterator[NDArray[np.float32]]:
    """Those after the last batch; nothing, where the model cannot be run in this way."""
    with context(model, width, kind) as made:
        if not made:
            return
        for batch in filter(len, batches):
            tokens = (lib.llama_token * len(batch))(*batch)
            if lib.llama_decode(made, lib.llama_batch_get_one(tokens, len(batch))):
                return
        count = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
        row = np.ctypeslib.as_array(lib.llama_get_logits_ith(made, -1), (count,))
        yield row.copy()


@contextmanager
def context(model: Any, width: int, kind: int) -> Iterator[Any]:
    params = lib.llama_context_default_params()
    params.n_ctx, params.n_batch, params.n_ubatch = CONTEXT, CONTEXT, width
    params.n_threads = params.n_threads_batch = 1
    params.type_v = kind
    made = lib.llama_init_from_model(model, params)
    try:
        yield made
    finally:
        if made:
            lib.llama_free(made)


if __name__ == "__main__":
    sys.exit(main())
