"""mlx-lm, by the options of 0.32."""

from __future__ import annotations

from localspec.errors import UsageError
from localspec.export.deployment import Deployment, ExportedModel
from localspec.export.differences import listed, quantised, sampling, words
from localspec.export.script import Script
from localspec.models.sources import Hub

SAMPLING = {"temperature": "--temp", "top-p": "--top-p", "top-k": "--top-k", "min-p": "--min-p"}


def script(wanted: Deployment) -> Script:
    settings, notes = wanted.settings, []
    if settings.context:
        notes.append("the context: texts grow as long as there is memory")
    if wanted.drafts and wanted.drafter != "model":
        notes.append(f"drafts by {wanted.drafter}: mlx-lm has draft models only")
        wanted = wanted.without_draft(depth=0)
    if wanted.drafts:
        notes.append("requests at once: with a draft model they are answered one by one")
    elif quantised(wanted):
        notes.append("requests at once: with quantised keys and values, one by one")
    options = {
        "--model": folder(wanted.target),
        "--draft-model": folder(wanted.draft) if wanted.drafts and wanted.draft else "",
        "--num-draft-tokens": wanted.depth if wanted.drafts else 0,
        "--kv-bits": settings.kv_type[1] if quantised(wanted) else "",  # as q8_0
        "--decode-concurrency": settings.slots,
    }
    command = ["mlx_lm.server", *words(options), *sampling(wanted, SAMPLING)]
    return Script([command], listed(wanted, *notes))


def folder(model: ExportedModel) -> str:
    """Name a folder that is here, or a repository."""
    if isinstance(model.source, Hub):
        return model.source.repository
    if path := model.path:
        return str(path)
    raise UsageError(f"{model.name} is not here: `localspec pull` it first")
