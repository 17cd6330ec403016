"""The script that runs a pair on another engine, and what does not carry over."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Iterator, Mapping
from string import Formatter

from localspec.apps.export.deployment import ANY, LOOKUP, Deployment, ExportedModel
from localspec.apps.export.engines import ENGINES, OtherEngine
from localspec.base.errors import UsageError
from localspec.running.models.sources import Hub

SAMPLING = ("temperature", "top-k", "top-p", "min-p")  # that makers recommend
MAX_NGRAM = 4  # tokens that prompt lookup compares
AT_ONCE = ("NGRAM", "DFLASH", "ngram-mod")  # methods that do not draft one token after the other
Values = Mapping[str, object | Callable[[], object]]


def script(name: str, deployment: Deployment) -> str:
    """Write the script for an engine of this name, below its notes."""
    engine, notes = ENGINES[name], []
    if deployment.drafts and deployment.drafter not in engine.methods:
        notes.append(f"drafts by {deployment.drafter}, for which no option is known there")
        deployment = deployment.without_draft(None if LOOKUP in engine.methods else 0)
    if name == "sglang" and not deployment.one_vocabulary:
        notes.append("the draft model: its vocabulary is of another size, which SGLang refuses")
        deployment = deployment.without_draft()
    values = values_of(engine, deployment)
    notes = [*notes_on(name, deployment), *notes]
    lines = [f"# does not carry over: {note}" for note in notes]
    content = list(filled(engine.content, values))
    if content:
        lines += [f"cat > {engine.file} <<'END'", *content, "END"]
    values = {**values, "file": engine.file if content else ""}
    for command in engine.command.split("\n\n"):
        lines.append(" \\\n  ".join(filled(command, values, shlex.quote)))
    return "\n".join(lines)


def filled(template: str, values: Values, quote: Callable[[str], str] = str) -> Iterator[str]:
    """Fill the lines of which no value is empty."""
    for line in template.splitlines():
        asked = {name: values[name] for _, name, _, _ in Formatter().parse(line) if name}
        texts = {
            name: str((value() if callable(value) else value) or "")
            for name, value in asked.items()
        }
        if all(texts.values()):
            yield line.format(**{name: quote(text) for name, text in texts.items()})


def values_of(engine: OtherEngine, deployment: Deployment) -> Values:
    """Return what templates may ask for; what may be unknown is found out only then."""
    settings, target = deployment.settings, deployment.target
    draft = deployment.draft if deployment.drafts else None
    method = engine.methods[deployment.drafter] if deployment.drafts else ""
    depth = deployment.depth
    return {
        "name": re.sub(r"[^a-z0-9._-]+", "-", target.name.lower()),
        "original": lambda: original(target, "--original"),
        "draft_original": lambda: draft and original(draft, "--draft-original"),
        "hub": hub(target),
        "path": lambda: "" if hub(target) else target.file(),
        "draft_hub": draft and hub(draft),
        "draft_path": lambda: draft and not hub(draft) and draft.file(),
        "draft_file": lambda: draft and draft.file(),
        "folder": lambda: folder(target),
        "draft_folder": lambda: draft and folder(draft),
        "context": settings.context,
        "slots": settings.slots,
        "cells": (settings.context or 0) * (settings.slots or 1),  # of all slots together
        "kv_type": settings.kv_type if settings.kv_type != "auto" else "",
        "bits": settings.kv_type[1] if deployment.quantised else "",  # as q8_0
        "method": method,
        "depth": depth,
        "depth_and_one": depth and depth + 1,  # with the target's own
        "steps": depth if method not in AT_ONCE else "",
        "ngram": depth and deployment.drafter == LOOKUP and MAX_NGRAM,
        "config": lambda: deployment.drafts and json.dumps(vllm_config(method, deployment)),
        **dict.fromkeys(SAMPLING, ""),
        **{key: f"{value:g}" for key, value in deployment.sampling.items()},
    }


def vllm_config(method: str, deployment: Deployment) -> dict[str, object]:
    """Describe the drafter as vLLM's SpeculativeConfig has it."""
    config: dict[str, object] = {"method": method, "num_speculative_tokens": deployment.depth}
    if deployment.drafter == LOOKUP:
        config["prompt_lookup_max"] = MAX_NGRAM
    if deployment.draft:
        config["model"] = original(deployment.draft, "--draft-original")
    if not deployment.one_vocabulary:
        config["use_heterogeneous_vocab"] = True
    return config


def original(model: ExportedModel, option: str) -> str:
    """Return the repository of the weights as their makers published them."""
    if not model.original:
        raise UsageError(
            "this engine runs weights as their makers published them, and none are "
            f"known for {model.name}: name them by {option} ORG/REPOSITORY"
        )
    return model.original


def hub(model: ExportedModel) -> str:
    """Name the quantisation in a repository; empty where it is a file."""
    where = model.source
    if isinstance(where, Hub) and not where.file:
        return f"{where.repository}:{model.weights.upper()}"
    return ""


def folder(model: ExportedModel) -> str:
    """Name a folder that is here, or a repository."""
    if isinstance(model.source, Hub):
        return model.source.repository
    return model.file()


def notes_on(name: str, deployment: Deployment) -> Iterator[str]:
    """Yield what is lost on an engine."""
    settings, drafter = deployment.settings, deployment.drafter if deployment.drafts else ""
    if drafter:
        yield "the depth, which LocalSpec chooses anew each round: here it is fixed"
    if ENGINES[name].format == ANY:
        weights = deployment.target.weights
        if weights:
            yield f"{weights}: these are the weights as published, mostly 16 bits"
        if deployment.quantised:
            kind = settings.kv_type
            yield f"keys and values in {kind}: FP8 is the nearest here, and rounds otherwise"
        if drafter not in ("", LOOKUP):
            yield "prompt lookup beside the drafter: this engine runs one method at a time"
    if name == "tensorrt-llm" and drafter in ("mtp", "mtp-inside"):
        yield "perhaps the drafter: MTP is documented for DeepSeek only; else --depth 0"
    if name == "mlx-lm":
        if settings.context:
            yield "the context: texts grow as long as there is memory"
        if drafter or deployment.quantised:
            reason = "a draft model" if drafter else "quantised keys and values"
            yield f"requests at once: with {reason} they are answered one by one"
    if name == "ollama":
        kv_type = f"OLLAMA_KV_CACHE_TYPE={settings.kv_type}" if deployment.quantised else ""
        slots = f"OLLAMA_NUM_PARALLEL={settings.slots}" if settings.slots else ""
        if variables := " ".join(filter(None, (kv_type, slots))):
            yield f"by itself {variables}: set it where Ollama's server is started"
