"""What differs elsewhere, in sentences, and the weights that engines without GGUF and MLX run."""

from __future__ import annotations

from collections.abc import Container, Mapping

from localspec.errors import UsageError
from localspec.export.deployment import Deployment, ExportedModel

ALONE = "prompt lookup beside the drafter: this engine runs one method at a time"


def listed(wanted: Deployment, *differences: str) -> list[str]:
    """List all that does not carry over."""
    notes = list(differences)
    if wanted.drafts:
        notes.insert(0, "the depth, which LocalSpec chooses anew each round: here it is fixed")
    return [f"does not carry over: {note}" for note in notes]


def of_original(wanted: Deployment) -> list[str]:
    """Tell what is lost with engines that run the weights as published."""
    notes = []
    if wanted.target.weights:
        notes.append(f"{wanted.target.weights}: these are the weights as published, mostly 16 bits")
    if quantised(wanted):
        kind = wanted.settings.kv_type
        notes.append(f"keys and values in {kind}: FP8 is the nearest here, and rounds otherwise")
    return notes


def by_known_method(wanted: Deployment, methods: Container[str]) -> tuple[Deployment, list[str]]:
    """Have prompt lookup in place of a drafter that an engine has no method for."""
    if not wanted.drafts or wanted.drafter in methods:
        return wanted, []
    lost = f"drafts by {wanted.drafter}, for which no option of this engine is known"
    return wanted.without_draft(), [lost]


def quantised(wanted: Deployment) -> bool:
    """Whether keys and values shall take less than 16 bits."""
    return wanted.settings.kv_type not in ("auto", "f16")


def original(wanted: Deployment) -> str:
    return _original(wanted.target, "--original")


def draft_original(wanted: Deployment) -> str:
    """Name the drafter's weights; nothing where those of the target hold it."""
    return _original(wanted.draft, "--draft-original") if wanted.draft else ""


def _original(model: ExportedModel, option: str) -> str:
    if not model.original:
        raise UsageError(
            "this engine runs weights as their makers published them, and nothing tells where "
            f"those of {model.name} are: say it by {option} ORG/REPOSITORY"
        )
    return model.original


def words(options: Mapping[str, object]) -> list[str]:
    """Write the options that have a value."""
    return [word for key, value in options.items() if value for word in (key, str(value))]


def sampling(wanted: Deployment, options: Mapping[str, str]) -> list[str]:
    """Write the sampling that the makers recommend, by an engine's own options."""
    known = wanted.sampling.items()
    return words({options[key]: f"{value:g}" for key, value in known if key in options})
