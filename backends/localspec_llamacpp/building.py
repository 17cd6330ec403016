"""Build llama.cpp anew for the environment that runs this program."""

from __future__ import annotations

import sys
from pathlib import Path

from localspec.errors import BackendError
from localspec_build import records
from localspec_build.choice import AUTO, serves
from localspec_build.failure import SetupFailed
from localspec_build.machine import look
from localspec_build.rebuild import chosen, rebuild
from localspec_build.records import Installed, Wish
from localspec_build.target import Target
from localspec_build.trial import trial

# The backends of ggml, by which a library that somebody else built tells its kind.
BACKENDS = {"CUDA": "cuda", "ROCm": "hip", "Vulkan": "vulkan", "MTL": "metal", "Metal": "metal"}


def build(kind: str, from_source: bool, target: Target | None = None) -> str:
    """Install a kind, or the one that fits here if another is installed; tell what there is."""
    here = target or Target.of(sys.executable, Path(sys.prefix))
    wish = Wish(kind, asked=kind != AUTO) if kind else chosen_before()
    try:
        if not kind and not from_source and (there := fitting(wish, here)):
            why = "as asked for; `--rebuild auto` looks anew" if wish.asked else "which fits"
            return f"is built for {there}, {why}"
        made = rebuild(wish, here, from_source, or_processor=wish.kind == AUTO)
    except (SetupFailed, OSError) as error:
        raise BackendError(str(error)) from error
    return f"is built for {made.kind} ({made.because}), {made.source}"


def chosen_before() -> Wish:
    """Return what the user asked for at some time, or leave it to the machine."""
    wish = records.wished()
    return wish if wish and wish.asked else Wish(AUTO)


def fitting(wish: Wish, here: Target) -> str:
    """Name the kind that is installed, if a rebuild would bring none that serves better."""
    there, machine = present(here), look()
    choice = chosen(machine, wish)
    made = records.installed(here.prefix) or Installed(there, "", "")
    return there if there and serves(made._replace(kind=there), choice, machine) else ""


def present(here: Target) -> str:
    """Name the kind that is installed and can be loaded; empty where there is none."""
    record = records.installed(here.prefix)
    names = trial(here, record.libraries if record else "").names
    if not names:
        return ""
    kinds = (kind for name, kind in BACKENDS.items() if name in names)
    return record.kind if record else next(kinds, "cpu")
