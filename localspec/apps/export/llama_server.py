"""llama.cpp's own server, by the options of the sources in llama-cpp-python 0.3.36."""

from __future__ import annotations

from localspec.apps.export.deployment import LOOKUP, Deployment, ExportedModel
from localspec.apps.export.script import Script, notes_on, option_words, sampling
from localspec.running.models.sources import Hub

TYPES = {
    LOOKUP: "ngram-mod",
    "model": "draft-simple",
    "mtp": "draft-mtp",
    "mtp-inside": "draft-mtp",
    "eagle3": "draft-eagle3",
    "dflash": "draft-dflash",
}
SAMPLING = {"temperature": "--temp", "top-p": "--top-p", "top-k": "--top-k", "min-p": "--min-p"}


def script(deployment: Deployment) -> Script:
    settings = deployment.settings
    kv_type = "" if settings.kv_type == "auto" else settings.kv_type
    options = {
        "-c": (settings.context or 0) * (settings.slots or 1),  # it divides by slots
        "-np": settings.slots,
        "-ctk": kv_type,
        "-ctv": kv_type,
    }
    command = ["llama-server", *gguf(deployment.target, "-m", "-hf"), *option_words(options)]
    if deployment.drafts:
        command += speculation(deployment)
    return Script([[*command, *sampling(deployment, SAMPLING)]], notes_on(deployment))


def speculation(deployment: Deployment) -> list[str]:
    options = ["--spec-type", TYPES[deployment.drafter]]
    if deployment.drafter != LOOKUP:  # which has lengths of its own
        options += ["--spec-draft-n-max", str(deployment.depth)]
    return options + (gguf(deployment.draft, "-md", "-hfd") if deployment.draft else [])


def gguf(model: ExportedModel, file: str, hub: str) -> list[str]:
    """Name a file that is here, or the quantisation of a repository."""
    where = model.source
    if isinstance(where, Hub) and not where.file:
        return [hub, f"{where.repository}:{model.weights.upper()}"]
    return [file, model.file(f", and llama-server cannot get {where}: pull it")]
