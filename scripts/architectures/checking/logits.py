"""llama.cpp's own logits where answers part, by its bindings alone: FILE, and partings as JSON.

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

CONTEXT = 512
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
    print(json.dumps([margins(model, each) for each in partings]))
    lib.llama_model_free(model)
    return 0


def margins(model: Any, parting: Mapping[str, Any]) -> tuple[float, float]:
    """By how much the token is below the best: as the engine decodes, and the least of all ways."""
    prompt, said, token = parting["prompt"], parting["said"], parting["token"]
    found = [below(model, [prompt, *([each] for each in said)], CONTEXT, F16, token)]
    for kind in (F16, BF16):
        for width in WIDTHS:
            found.append(below(model, [[*prompt, *said]], width, kind, token))
            found.append(below(model, [prompt, *pieces(said, width)], CONTEXT, kind, token))
    return found[0], min(found)


def pieces(tokens: Tokens, width: int) -> Iterator[Tokens]:
    return (tokens[at : at + width] for at in range(0, len(tokens), width))


def below(model: Any, batches: Sequence[Tokens], width: int, kind: int, token: int) -> float:
    """By how much a token is below the best after these batches; far, if there is no such way."""
    with context(model, width, kind) as made:
        if not made:
            return 1e9
        for batch in filter(len, batches):
            tokens = (lib.llama_token * len(batch))(*batch)
            if lib.llama_decode(made, lib.llama_batch_get_one(tokens, len(batch))):
                return 1e9
        count = lib.llama_vocab_n_tokens(lib.llama_model_get_vocab(model))
        logits = np.ctypeslib.as_array(lib.llama_get_logits_ith(made, -1), (count,))
        return float(logits.max() - logits[token])


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
