"""Ollama, by the Modelfile of 0.32."""

from __future__ import annotations

import re
from collections.abc import Iterator

from localspec.apps.export.deployment import LOOKUP, Deployment, ExportedModel
from localspec.apps.export.script import Script, notes_on, quantised
from localspec.running.models.sources import Hub

PARAMETERS = ("temperature", "top-k", "top-p", "min-p")
FILE = "Modelfile"
ADVICE = ", and Ollama needs the file: pull it, or --depth 0"


def script(deployment: Deployment) -> Script:
    notes = []
    if deployment.drafts and deployment.drafter == LOOKUP:
        notes.append("prompt lookup: Ollama has draft models and MTP only")
        deployment = deployment.without_draft(depth=0)
    name = re.sub(r"[^a-z0-9._-]+", "-", deployment.target.name.lower())
    commands = [["ollama", "create", name, "-f", FILE], ["ollama", "run", name]]
    if variables := " ".join(environment(deployment)):
        notes.append(f"by itself {variables}: set it where Ollama's server is started")
    return Script(
        commands, notes_on(deployment, *notes), FILE, "\n".join(modelfile_lines(deployment))
    )


def environment(deployment: Deployment) -> Iterator[str]:
    if quantised(deployment):
        yield f"OLLAMA_KV_CACHE_TYPE={deployment.settings.kv_type}"
    if deployment.settings.slots:
        yield f"OLLAMA_NUM_PARALLEL={deployment.settings.slots}"


def modelfile_lines(deployment: Deployment) -> Iterator[str]:
    """Write the Modelfile."""
    yield f"FROM {weights(deployment.target)}"
    if deployment.drafts:
        if deployment.draft:
            yield f"DRAFT {deployment.draft.file(ADVICE)}"
        yield f"PARAMETER draft_num_predict {deployment.depth}"
    if deployment.settings.context:
        yield f"PARAMETER num_ctx {deployment.settings.context}"
    for key in PARAMETERS:
        if key in deployment.sampling:
            yield f"PARAMETER {key.replace('-', '_')} {deployment.sampling[key]:g}"


def weights(model: ExportedModel) -> str:
    where = model.source
    if isinstance(where, Hub) and not where.file:
        return f"hf.co/{where.repository}:{model.weights.upper()}"
    return model.file(ADVICE)
