"""Build llama.cpp anew for the environment that runs this program."""

from __future__ import annotations

import sys
from pathlib import Path

from localspec.base.errors import BackendError
from localspec_build import records
from localspec_build.choice import AUTO, serves
from localspec_build.failure import SetupFailed
from localspec_build.machine import look
from localspec_build.rebuild import choice_for, rebuild
from localspec_build.records import BuildRequest, Installed
from localspec_build.target import Target
from localspec_build.trial import trial

# The backends of ggml, by which a library that somebody else built shows its kind.
BACKENDS = {"CUDA": "cuda", "ROCm": "hip", "Vulkan": "vulkan", "MTL": "metal", "Metal": "metal"}


def build(kind: str, from_source: bool, target: Target | None = None) -> str:
    """Install a kind, or the one that fits here if another is installed; report what there is."""
    target = target or Target.of(sys.executable, Path(sys.prefix))
    request = BuildRequest(kind, asked=kind != AUTO) if kind else earlier_request()
    try:
        if not kind and not from_source and (fit := fitting(request, target)):
            why = "as asked for; `--rebuild auto` looks anew" if request.asked else "which fits"
            return f"is built for {fit}, {why}"
        made = rebuild(request, target, from_source, or_processor=request.kind == AUTO)
    except (SetupFailed, OSError) as error:
        raise BackendError(str(error)) from error
    return f"is built for {made.kind} ({made.because}), {made.source}"


def earlier_request() -> BuildRequest:
    """Return what the user asked for at some time, or leave it to the machine."""
    request = records.requested()
    return request if request and request.asked else BuildRequest(AUTO)


def fitting(request: BuildRequest, target: Target) -> str:
    """Name the kind that is installed, if a rebuild would bring none that serves better."""
    kind, machine = present(target), look()
    choice = choice_for(machine, request)
    made = records.installed(target.prefix) or Installed(kind, "", "")
    return kind if kind and serves(made._replace(kind=kind), choice, machine) else ""


def present(target: Target) -> str:
    """Name the kind that is installed and can be loaded; empty where there is none."""
    record = records.installed(target.prefix)
    names = trial(target, record.libraries if record else "").names
    if not names:
        return ""
    kinds = (kind for name, kind in BACKENDS.items() if name in names)
    return record.kind if record else next(kinds, "cpu")
