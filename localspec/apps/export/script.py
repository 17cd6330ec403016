"""Scripts for other engines: their commands and options, and what does not carry over."""

from __future__ import annotations

import shlex
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from localspec.apps.export.deployment import Deployment, ExportedModel
from localspec.base.errors import UsageError

ALONE = "prompt lookup beside the drafter: this engine runs one method at a time"


@dataclass(frozen=True, slots=True)
class Script:
    """The commands that run a pair on another engine, and what does not carry over."""

    commands: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    file: str = ""  # written before the commands
    content: str = ""

    def __str__(self) -> str:
        lines = [f"# {note}" for note in self.notes]
        if self.content:
            lines += [f"cat > {shlex.quote(self.file)} <<'END'", self.content.rstrip(), "END"]
        return "\n".join([*lines, *map(shell, self.commands)])


def shell(command: Sequence[str]) -> str:
    """Quote a command, one option a line."""
    lines = [""]
    for word in command:
        if word.startswith("--"):
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {shlex.quote(word)}".strip()
    return " \\\n  ".join(lines)


def notes_on(deployment: Deployment, *differences: str) -> list[str]:
    """List the differences as notes, the depth first."""
    notes = list(differences)
    if deployment.drafts:
        notes.insert(0, "the depth, which LocalSpec chooses anew each round: here it is fixed")
    return [f"does not carry over: {note}" for note in notes]


def of_original(deployment: Deployment) -> list[str]:
    """List the losses with engines that run the weights as published."""
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
    """Replace a drafter that an engine has no method for by prompt lookup."""
    if not deployment.drafts or deployment.drafter in methods:
        return deployment, []
    lost = f"drafts by {deployment.drafter}, for which no option of this engine is known"
    return deployment.without_draft(), [lost]


def quantised(deployment: Deployment) -> bool:
    """Return whether keys and values take less than 16 bits."""
    return deployment.settings.kv_type not in ("auto", "f16")


def original(deployment: Deployment) -> str:
    return _original(deployment.target, "--original")


def draft_original(deployment: Deployment) -> str:
    """Name the drafter's weights; empty where the target's weights hold it."""
    return _original(deployment.draft, "--draft-original") if deployment.draft else ""


def _original(model: ExportedModel, option: str) -> str:
    if not model.original:
        raise UsageError(
            "this engine runs weights as their makers published them, and none are "
            f"known for {model.name}: name them by {option} ORG/REPOSITORY"
        )
    return model.original


def option_words(options: Mapping[str, object]) -> list[str]:
    """Write the options that have a value."""
    return [word for key, value in options.items() if value for word in (key, str(value))]


def sampling(deployment: Deployment, options: Mapping[str, str]) -> list[str]:
    """Write the sampling that the makers recommend, by an engine's own options."""
    values = deployment.sampling.items()
    return option_words({options[key]: f"{value:g}" for key, value in values if key in options})
