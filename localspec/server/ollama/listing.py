"""What Ollama's clients are told of the models, before they ask them anything."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime

from localspec.dialects import dialect_of
from localspec.server.model_host import ModelHost, Served, ServedOffer
from localspec.templates.chat_template import ChatTemplate
from localspec.tokenizer import Tokenizer

FORMATS: Mapping[str, str] = {"llamacpp": "gguf", "mlx": "safetensors"}
THOUGHTS = frozenset({"</think>", "[/THINK]", "<|channel|>"})

Object = dict[str, object]


def tags(house: ModelHost) -> Object:
    return {"models": [described(offer) for offer in house.offers.values()]}


def running(house: ModelHost) -> Object:
    return {
        "models": [
            described(served.offer) | {"context_length": served.runtime.context}
            for served in house.loaded.values()
        ]
    }


def described(offer: ServedOffer) -> Object:
    name = offer.name if ":" in offer.name else f"{offer.name}:latest"
    return {
        "name": name,
        "model": name,
        "modified_at": modified(offer),
        "size": offer.bytes,
        "digest": offer.digest,
        "details": details(offer),
    }


def details(offer: ServedOffer) -> Object:
    return {
        "parent_model": "",
        "format": FORMATS.get(offer.engine, offer.engine),
        "family": offer.family,
        "families": [offer.family],
        "parameter_size": "",
        "quantization_level": offer.quantisation,
    }


def modified(offer: ServedOffer) -> str:
    return datetime.fromtimestamp(offer.created, UTC).isoformat()


def shown(offer: ServedOffer, served: Served | None) -> Object:
    """Editors ask this of all models, so none is loaded for it.

    Reads files and asks a chat template what it takes, so not on the event loop.
    """
    if served:
        return told(offer, served.runtime.tokenizer, served.runtime.context)
    with offer.vocabulary() as tokenizer:
        return told(offer, tokenizer, offer.context)


def told(offer: ServedOffer, tokenizer: Tokenizer, context: int) -> Object:
    return {
        "modified_at": modified(offer),
        "details": details(offer),
        "template": template(tokenizer),
        "model_info": {
            "general.architecture": offer.family,
            f"{offer.family}.context_length": context,
        },
        "capabilities": capabilities(tokenizer),
    }


def capabilities(tokenizer: Tokenizer) -> list[str]:
    able = {
        "tools": bool(tokenizer.chat_template) and ChatTemplate(tokenizer).takes.tools,
        "insert": tokenizer.infill is not None,
        "thinking": not THOUGHTS.isdisjoint(dialect_of(tokenizer.chat_template).marks),
    }
    return ["completion", *(name for name, is_able in able.items() if is_able)]


def template(tokenizer: Tokenizer) -> str:
    """In Ollama's own notation, in which editors look for whether there is a suffix."""
    if tokenizer.infill is None:
        return "{{ .Prompt }}"
    return "{{ if .Suffix }}{{ .Prompt }} {{ .Suffix }}{{ else }}{{ .Prompt }}{{ end }}"
