"""mlx-lm, by the options of 0.32."""

from __future__ import annotations

from localspec.apps.export.deployment import Deployment, ExportedModel
from localspec.apps.export.script import Script, notes_on, option_words, quantised, sampling
from localspec.running.models.sources import Hub

SAMPLING = {"temperature": "--temp", "top-p": "--top-p", "top-k": "--top-k", "min-p": "--min-p"}


def script(deployment: Deployment) -> Script:
    settings, notes = deployment.settings, []
    if settings.context:
        notes.append("the context: texts grow as long as there is memory")
    if deployment.drafts and deployment.drafter != "model":
        notes.append(f"drafts by {deployment.drafter}: mlx-lm has draft models only")
        deployment = deployment.without_draft(depth=0)
    if deployment.drafts:
        notes.append("requests at once: with a draft model they are answered one by one")
    elif quantised(deployment):
        notes.append("requests at once: with quantised keys and values, one by one")
    options = {
        "--model": folder(deployment.target),
        "--draft-model": folder(deployment.draft) if deployment.drafts and deployment.draft else "",
        "--num-draft-tokens": deployment.depth if deployment.drafts else 0,
        "--kv-bits": settings.kv_type[1] if quantised(deployment) else "",  # as q8_0
        "--decode-concurrency": settings.slots,
    }
    command = ["mlx_lm.server", *option_words(options), *sampling(deployment, SAMPLING)]
    return Script([command], notes_on(deployment, *notes))


def folder(model: ExportedModel) -> str:
    """Name a folder that is here, or a repository."""
    if isinstance(model.source, Hub):
        return model.source.repository
    return model.file(": `localspec pull` it first")
