"""System prompts that are kept under names, for all conversations."""

from __future__ import annotations

import json
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path

from localspec.base.errors import UsageError
from localspec.base.system import folders, kept_json
from localspec.base.system.atomic_write import whole, write


def place() -> Path:
    return folders.configuration() / "prompts.json"


def everything() -> Mapping[str, str]:
    """Read the prompts by name, in the order of the alphabet."""
    try:
        kept = kept_json.read(place())
    except FileNotFoundError:
        return {}
    except (OSError, ValueError) as error:
        raise UsageError(f"the prompts in {place()} cannot be read: {error}") from error
    return {name: kept[name] for name in sorted(kept) if isinstance(kept[name], str)}


def named(name: str) -> str:
    prompts = everything()
    if name not in prompts:
        near = get_close_matches(name, prompts, n=1)
        hint = f"did you mean {near[0]}?" if near else "/prompt lists them"
        raise UsageError(f"there is no prompt {name!r}; {hint}")
    return prompts[name]


def save(name: str, text: str) -> None:
    _keep({**everything(), whole(name): whole(text)})


def forget(name: str) -> None:
    named(name)
    _keep({other: text for other, text in everything().items() if other != name})


def _keep(prompts: Mapping[str, str]) -> None:
    """Write a file that only its owner can read."""
    try:
        write(place(), json.dumps(prompts, indent=1))
    except OSError as error:
        why = error.strerror or error
        raise UsageError(f"the prompts cannot be kept in {place()}: {why}") from error
