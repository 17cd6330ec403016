"""Descriptions of models for Ollama's clients."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping, Set
from dataclasses import replace
from datetime import UTC, datetime, timedelta

from localspec.apps.server.model_facts import ModelFacts
from localspec.apps.server.model_host import ModelHost
from localspec.apps.server.offers import ServedOffer
from localspec.apps.server.served import Served, media_of
from localspec.interfaces.media import Kind as MediaKind

FORMATS: Mapping[str, str] = {"mlx": "safetensors"}  # that Ollama calls otherwise
NEVER = "9999-12-31T23:59:59Z"

Object = dict[str, object]


def tags(host: ModelHost) -> Object:
    named = [(offer, name) for offer in host.offers.values() for name in offer.names]
    return {"models": [description(replace(offer, name=name)) for offer, name in named]}


def running(host: ModelHost) -> Object:
    models = host.loaded.values()
    return {"models": [loaded(served, host.idle_seconds(served)) for served in models]}


def loaded(served: Served, idle_seconds: float) -> Object:
    plan = served.resident.facts.plan
    on_gpus = sum(plan.taken(pool) for pool in plan.machine.gpus) if plan else 0
    total = sum(item.bytes for item in plan.items) if plan else served.offer.bytes
    return description(served.offer) | {
        "size": total,
        "size_vram": on_gpus,
        "expires_at": expires(idle_seconds - served.unused_seconds),
        "context_length": served.resident.context,
        "pinned": served.offer.pinned,
    }


def expires(seconds: float) -> str:
    """Compute when an unused model will be unloaded."""
    if seconds == math.inf:
        return NEVER
    return (datetime.now(UTC) + timedelta(seconds=seconds)).isoformat()


def description(offer: ServedOffer) -> Object:
    name = offer.name if ":" in offer.name else f"{offer.name}:latest"
    return {
        "name": name,
        "model": name,
        "modified_at": modified(offer),
        "size": offer.bytes,
        "digest": digest(offer),
        "details": details(offer),
    }


def digest(offer: ServedOffer) -> str:
    """Make a digest of a file: clients show its beginning, and compare it to find changes."""
    text = f"{offer.path}\n{offer.bytes}\n{offer.created}"
    return hashlib.sha256(text.encode("utf-8", "replace")).hexdigest()


def details(offer: ServedOffer) -> Object:
    return {
        "parent_model": "",
        "format": FORMATS.get(offer.format, offer.format),
        "family": offer.family,
        "families": [offer.family],
        "parameter_size": offer.parameters or parameter_size(offer),
        "quantization_level": offer.quantisation,
    }


def parameter_size(offer: ServedOffer) -> str:
    """Write how many parameters the file of a model has, as Ollama does."""
    millions = offer.footprint.parameters / 1e6 if offer.footprint else 0
    if not millions:
        return ""
    return f"{millions:.2f}M" if millions < 1000 else f"{millions / 1000:.1f}B"


def modified(offer: ServedOffer) -> str:
    return datetime.fromtimestamp(offer.created, UTC).isoformat()


def model_details(offer: ServedOffer, served: Served | None, facts: ModelFacts) -> Object:
    """Describe a model without loading it: editors ask this of all models."""
    context = served.resident.context if served else offer.context
    return {
        "modelfile": f"FROM {offer.path or offer.name}\n",
        "parameters": parameters(offer, context),
        "template": template(facts),
        "modified_at": modified(offer),
        "details": details(offer),
        "model_info": info(offer, context),
        "capabilities": capabilities(offer, media_of(offer, served), facts),
    }


def parameters(offer: ServedOffer, context: int) -> str:
    """Format a line for each parameter, as editors parse them."""
    usual = offer.usual
    values: dict[str, float] = {"num_ctx": context, "temperature": usual.temperature}
    values |= {"top_k": usual.top_k, "top_p": usual.top_p, "min_p": usual.min_p}
    return "\n".join(f"{name:<30} {value:g}" for name, value in values.items())


def info(offer: ServedOffer, context: int) -> Object:
    family, footprint = offer.family, offer.footprint
    general: Object = {
        "general.architecture": family,
        "general.basename": offer.name,
        f"{family}.context_length": context,  # that is served, which editors fill
    }
    if footprint is None:
        return general
    if footprint.parameters:
        general["general.parameter_count"] = footprint.parameters
    return general | {
        f"{family}.block_count": footprint.layers,
        f"{family}.embedding_length": footprint.embedding,
        f"{family}.attention.head_count": footprint.heads,
        f"{family}.attention.head_count_kv": footprint.kv_heads,
        f"{family}.vocab_size": footprint.vocabulary,
        "tokenizer.ggml.model": footprint.tokenizer,
    }


def capabilities(offer: ServedOffer, media: Set[MediaKind], facts: ModelFacts) -> list[str]:
    if offer.kind != "text":
        return [offer.kind]
    able = {
        "tools": facts.calls,
        "insert": facts.fills_in,
        "vision": "image" in media,
        "audio": "audio" in media,
        "thinking": facts.thinks,
        "embedding": bool(offer.pooling),
    }
    return ["completion", *(name for name, is_able in able.items() if is_able)]


def template(facts: ModelFacts) -> str:
    """Write a template in Ollama's notation, in which editors look for a suffix."""
    if not facts.fills_in:
        return "{{ .Prompt }}"
    return "{{ if .Suffix }}{{ .Prompt }} {{ .Suffix }}{{ else }}{{ .Prompt }}{{ end }}"
