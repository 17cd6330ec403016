"""Descriptions of models for LM Studio's clients."""

from __future__ import annotations

from collections.abc import Mapping

from localspec.server.model_facts import ModelFacts
from localspec.server.offers import ServedOffer
from localspec.server.served import Served, media_of
from localspec.vector_model import Kind

FORMATS = ("gguf", "mlx")  # that its clients know
PUBLISHER = "localspec"
TYPES: Mapping[Kind, str] = {"text": "llm", "embedding": "embeddings", "reranking": "reranking"}
TYPES_V1: Mapping[Kind, str] = {**TYPES, "embedding": "embedding"}

Object = dict[str, object]


def model_v0(offer: ServedOffer, served: Served | None, facts: ModelFacts) -> Object:
    """Describe a model as the paths of version 0 do."""
    fields: Object = {
        "id": offer.name,
        "object": "model",
        "type": "vlm" if "image" in media_of(offer, served) else TYPES[offer.kind],
        "publisher": PUBLISHER,
        "arch": offer.family,
        "compatibility_type": offer.format,
        "quantization": offer.quantisation,
        "state": "loaded" if served else "not-loaded",
        "max_context_length": trained_context(offer),
        "capabilities": ["tool_use"] if facts.calls else [],
    }
    return fields | ({"loaded_context_length": served.resident.context} if served else {})


def model_v1(offer: ServedOffer, served: Served | None, facts: ModelFacts) -> Object:
    """Describe a model as the paths of version 1 do."""
    return {
        "type": TYPES_V1[offer.kind],
        "publisher": PUBLISHER,
        "key": offer.name,
        "display_name": offer.name,
        "architecture": offer.family,
        "quantization": {"name": offer.quantisation, "bits_per_weight": None},
        "size_bytes": offer.bytes,
        "params_string": offer.parameters or None,
        "loaded_instances": [{"id": served.name, "config": config(served)}] if served else [],
        "max_context_length": trained_context(offer),
        "format": offer.format if offer.format in FORMATS else None,
        "capabilities": {
            "vision": "image" in media_of(offer, served),
            "trained_for_tool_use": facts.calls,
        },
        "description": None,
    }


def config(served: Served) -> Object:
    return {"context_length": served.resident.context}


def trained_context(offer: ServedOffer) -> int:
    """Return the trained context if the files have it, else the served one."""
    return offer.footprint.context if offer.footprint else offer.context
