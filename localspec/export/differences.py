"""What differs elsewhere, in sentences, and the weights that engines without GGUF and MLX run."""

from __future__ import annotations

from collections.abc import Container, Mapping

from localspec.errors import UsageError
from localspec.export.deployment import Deployment, ExportedModel

ALONE = "prompt lookup beside the drafter: this engine runs one method at a time"


def notes_on(deployment: Deployment, *differences: str) -> list[str]:
    """List all that does not carry over."""
    notes = list(differences)
    if deployment.drafts:
        notes.insert(0, "the depth, which LocalSpec chooses anew each round: here it is fixed")
    return [f"does not carry over: {note}" for note in notes]


def of_original(deployment: Deployment) -> list[str]:
    """Tell what is lost with engines that run the weights as published."""
    notes = []
    if deployment.target.weights:
        notes.append(
            f"{deployment.target.weights}: these are the weights as published, mostly 16 bits"
        )
    if quantised(deployment):
        kind = deployment.settings.kv_type
        notes.append(f"keys and values in {kind}: FP8 is the nearest here, and rounds otherwise")
    return notes


def with_lookup_if_unknown(
    deployment: Deployment, methods: Container[str]
) -> tuple[Deployment, list[str]]:
    """Have prompt lookup in place of a drafter that an engine has no method for."""
    if not deployment.drafts or deployment.drafter in methods:
        return deployment, []
    lost = f"drafts by {deployment.drafter}, for which no option of this engine is known"
    return deployment.without_draft(), [lost]


def quantised(deployment: Deployment) -> bool:
    """Whether keys and values shall take less than 16 bits."""
    return deployment.settings.kv_type not in ("auto", "f16")


def original(deployment: Deployment) -> str:
    return _original(deployment.target, "--original")


def draft_original(deployment: Deployment) -> str:
    """Name the drafter's weights; nothing where those of the target hold it."""
    return _original(deployment.draft, "--draft-original") if deployment.draft else ""


def _original(model: ExportedModel, option: str) -> str:
    if not model.original:
        raise UsageError(
            "this engine runs weights as their makers published them, and nothing tells where "
            f"those of {model.name} are: say it by {option} ORG/REPOSITORY"
        )
    return model.original


def option_words(options: Mapping[str, object]) -> list[str]:
    """Write the options that have a value."""
    return [word for key, value in options.items() if value for word in (key, str(value))]


def sampling(deployment: Deployment, options: Mapping[str, str]) -> list[str]:
    """Write the sampling that the makers recommend, by an engine's own options."""
    values = deployment.sampling.items()
    return option_words({options[key]: f"{value:g}" for key, value in values if key in options})
