"""Models of whole texts to be served, without files."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

from localspec.apps.server.offers import ServedOffer
from localspec.core.sampling.parameters import GREEDY
from localspec.interfaces.backend import Footprint
from localspec.running.runtime.vector_runtime import VectorRuntime
from tests.core.vectors.counting import Counting

PREFIXES = {"query": "Q", "document": "D"}


def offer(name: str, model: Counting) -> ServedOffer:
    """Offer a model that is loaded when somebody asks."""

    def load(tell) -> VectorRuntime:
        model.closed = False
        return VectorRuntime(model, prefixes=PREFIXES)

    return ServedOffer(
        name,
        load,
        lambda: nullcontext(model.tokenizer),
        GREEDY,
        "llamacpp",
        "gguf",
        context=model.context,
        family="bert",
        footprint=footprint(model.pooling),
    )


def footprint(pooling: str) -> Footprint:
    return Footprint(
        path=Path("model.gguf"),
        architecture="bert",
        name="model",
        quantisation="F16",
        file_bytes=100,
        weight_bytes=100,
        layers=2,
        heads=2,
        kv_heads=2,
        embedding=4,
        vocabulary=256,
        context=512,
        tokenizer="bert",
        chat_template=None,
        pooling=pooling,
    )
