"""Answers with vectors, written a vector at a time: in one call no other thread would run."""

from __future__ import annotations

import json
import time
from base64 import b64encode
from collections.abc import Iterator

import numpy as np

from localspec.apps.server.vectors.embedding_request import EmbeddingsRequest, OllamaEmbedRequest
from localspec.apps.server.vectors.reading import Rows
from localspec.base.interruption import check_patience
from localspec.base.tokens import Vectors

DIGITS = 8  # after the point, beyond which a number of 32 bits and of length one says nothing


def openai_answer(body: EmbeddingsRequest, result: Rows) -> bytes:
    vectors = body.vectors(result.rows)
    written = in_base64(vectors) if body.encoding_format == "base64" else in_numbers(vectors)
    data = ", ".join(
        f'{{"object": "embedding", "index": {at}, "embedding": {vector}}}'
        for at, vector in enumerate(written)
    )
    details = json.dumps({"model": result.model, "usage": result.usage})
    return f'{{"object": "list", "data": [{data}], {details[1:]}'.encode()


def llamacpp_answer(body: EmbeddingsRequest, result: Rows) -> bytes:
    """Write a list of objects, each with a list of one vector, as llama.cpp's server does."""
    vectors = in_numbers(body.vectors(result.rows))
    parts = (f'{{"index": {at}, "embedding": [{v}]}}' for at, v in enumerate(vectors))
    return f"[{', '.join(parts)}]".encode()


def ollama_answer(body: OllamaEmbedRequest, begun: float, result: Rows) -> bytes:
    vectors = ", ".join(in_numbers(body.vectors(result.rows)))
    details = json.dumps(
        {
            "model": body.model or result.model,
            "total_duration": int((time.perf_counter() - begun) * 1e9),
            "load_duration": 0,
            "prompt_eval_count": result.token_count,
        }
    )
    return f'{{"embeddings": [{vectors}], {details[1:]}'.encode()


def old_ollama_answer(body: OllamaEmbedRequest, result: Rows) -> bytes:
    [vector] = in_numbers(body.vectors(result.rows))
    return f'{{"embedding": {vector}}}'.encode()


def in_base64(vectors: Vectors) -> Iterator[str]:
    for vector in vectors.astype("<f4"):
        check_patience()
        yield f'"{b64encode(vector.tobytes()).decode()}"'


def in_numbers(vectors: Vectors) -> Iterator[str]:
    for vector in np.round(vectors.astype(np.float64), DIGITS):
        check_patience()
        yield json.dumps(vector.tolist())
