"""Ollama, by the Modelfile of 0.32."""

from __future__ import annotations

import re
from collections.abc import Iterator

from localspec.errors import UsageError
from localspec.export.deployment import LOOKUP, Deployment, ExportedModel
from localspec.export.differences import listed, quantised
from localspec.export.script import Script
from localspec.models.sources import Hub

PARAMETERS = ("temperature", "top-k", "top-p", "min-p")
FILE = "Modelfile"


def script(wanted: Deployment) -> Script:
    notes = []
    if wanted.drafts and wanted.drafter == LOOKUP:
        notes.append("prompt lookup: Ollama has draft models and MTP only")
        wanted = wanted.without_draft(depth=0)
    name = re.sub(r"[^a-z0-9._-]+", "-", wanted.target.name.lower())
    commands = [["ollama", "create", name, "-f", FILE], ["ollama", "run", name]]
    if variables := " ".join(environment(wanted)):
        notes.append(f"by itself {variables}: set it where Ollama's server is started")
    return Script(commands, listed(wanted, *notes), FILE, "\n".join(lines(wanted)))


def environment(wanted: Deployment) -> Iterator[str]:
    if quantised(wanted):
        yield f"OLLAMA_KV_CACHE_TYPE={wanted.settings.kv_type}"
    if wanted.settings.slots:
        yield f"OLLAMA_NUM_PARALLEL={wanted.settings.slots}"


def lines(wanted: Deployment) -> Iterator[str]:
    """Write the Modelfile."""
    yield f"FROM {weights(wanted.target)}"
    if wanted.drafts:
        if wanted.draft:
            yield f"DRAFT {file(wanted.draft)}"
        yield f"PARAMETER draft_num_predict {wanted.depth}"
    if wanted.settings.context:
        yield f"PARAMETER num_ctx {wanted.settings.context}"
    for key in PARAMETERS:
        if key in wanted.sampling:
            yield f"PARAMETER {key.replace('-', '_')} {wanted.sampling[key]:g}"


def weights(model: ExportedModel) -> str:
    where = model.source
    if isinstance(where, Hub) and not where.file:
        return f"hf.co/{where.repository}:{model.weights.upper()}"
    return file(model)


def file(model: ExportedModel) -> str:
    if path := model.path:
        return str(path)
    raise UsageError(f"{model.name} is not here, and Ollama needs the file: pull it, or --depth 0")
