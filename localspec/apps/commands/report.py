"""What an issue needs to know of this machine, and nothing of whose it is.

Each field is a number, or a text of ours or of an engine. Models are named where the catalogue
has them. What texts there are go through `PrivateTexts` besides.
"""

from __future__ import annotations

import hashlib
import os
import platform
import re
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from importlib.metadata import distribution
from pathlib import Path
from statistics import median

import click
import psutil

from localspec.apps.commands import config, draft_advice
from localspec.apps.commands.private_texts import PrivateTexts
from localspec.base.errors import LocalSpecError
from localspec.base.system import defects, free_memory
from localspec.base.system.fingerprint import installed_versions
from localspec.console.options import configuration
from localspec.interfaces.backend_spec import Finding
from localspec.interfaces.footprint import Footprint
from localspec.running.models import catalogue, catalogue_file, engines, store, trial_record
from localspec.running.models.sources import Package
from localspec.running.runtime import kept_calibrations, pair_history
from localspec.running.runtime.pair_history import Era

FORMAT = 1
MAX_MODELS, MAX_PAIRS = 8, 8  # the last ones
NUMBER = bool | int | float
UNNAMED = "a model of the user's"
# Facts of a header that are texts of a file's maker, or say where it lies.
NOT_SHOWN = ("path", "name", "chat_template", "projector")

Object = dict[str, object]


def report(findings: Iterable[Finding], root: click.Context) -> object:
    """Collect the report; `root` is the context of the group of commands."""
    names = public_names()
    collected = {
        "format": FORMAT,
        "software": software(),
        "machine": machine(),
        "engines": {name: engine(name) for name in engines.names()},
        "findings": [asdict(finding) for finding in findings],
        "settings": settings(root),
        "models": [header(*record, names) for record in trial_record.newest(MAX_MODELS)],
        "pairs": list(pairs(names)),
        "costs": list(costs(names)),
        "last_error": defects.last(),
    }
    return PrivateTexts.of_this_machine().taken_from(collected)


def software() -> Object:
    own = distribution("localspec")
    lines = [line for line in own.requires or () if "extra ==" not in line]
    required = [re.split(r"[^\w.-]", line, maxsplit=1)[0] for line in lines]
    by_engines = [package for engine in engines.all_engines() for package in engine.versions()]
    return {
        "localspec": own.version,
        "from": "a file or folder" if own.read_text("direct_url.json") else "a package index",
        "python": f"{platform.python_implementation()} {platform.python_version()}",
        "system": f"{platform.system()} {platform.release()} {platform.machine()}",
        "libc": " ".join(platform.libc_ver()).strip(),
        "packages": sorted({*installed_versions(dict.fromkeys(required)), *by_engines}),
    }


def machine() -> Object:
    host = free_memory.memory()
    return {
        "processors": os.cpu_count(),
        "cores": psutil.cpu_count(logical=False),
        "memory_bytes": host.total_bytes,
        "free_bytes": host.free_bytes,
        "terminal": sys.stdout.isatty(),
    }


def engine(name: str) -> Object:
    """Describe an engine's build and the devices that it sees, or why it cannot be used."""
    try:
        installed_engine = engines.engine(name).installed()
    except LocalSpecError as error:
        return {"error": type(error).__name__, "message": str(error)}
    devices = [
        {**asdict(device), "worker": bool(device.worker)} for device in installed_engine.devices
    ]
    return {"build": asdict(installed_engine.build), "devices": devices}


def settings(root: click.Context) -> Object:
    """Name the options that a file or the environment sets; of their values only numbers."""
    assert isinstance(root.command, click.Group)
    try:
        file = configuration.read(root.params["config"])
        return {
            f"{name} {option.key}": option.value if isinstance(option.value, NUMBER) else "set"
            for name in config.set_commands(file, root.command.commands)
            for option in config.shown_options(name, file, root, whole=False)
        }
    except LocalSpecError as error:
        return {"error": type(error).__name__}


def public_names() -> Mapping[Path, str]:
    """Name the files on this machine that are of the built-in catalogue."""
    entries = catalogue_file.read(catalogue.builtin())
    pulled = {
        model.path: pair.name
        for pair in store.everything()
        if pair.name in entries
        for model in pair.models
    }
    packaged = {
        path: entry.name
        for entry in entries.values()
        for offer in entry.offers.values()
        for weights in offer.weights.values()
        if isinstance(weights.source, Package) and (path := weights.source.find())
    }
    return {**packaged, **pulled}


def header(footprint: Footprint, faults: Iterable[str], names: Mapping[Path, str]) -> Object:
    """Describe a model by its header, and by what its trials found."""
    template = (footprint.chat_template or "").encode()
    facts = {key: value for key, value in asdict(footprint).items() if key not in NOT_SHOWN}
    return {
        "name": names.get(footprint.path, UNNAMED),
        **{key: value for key, value in facts.items() if value},
        "template": hashlib.sha256(template).hexdigest()[:16] if template else "",
        "projector": footprint.projector is not None,
        "faults": [without_file(fault, footprint.path) for fault in faults],
    }


def without_file(text: str, path: Path) -> str:
    return text.replace(os.fspath(path), "FILE").replace(path.name, "FILE")


def name_pair(files: str, names: Mapping[Path, str]) -> str:
    """Name the models of a pair whose title is the names of its files."""
    by_file = {path.name: name for path, name in names.items()}
    return " with ".join(by_file.get(file, UNNAMED) for file in files.split(" with "))


def pairs(names: Mapping[Path, str]) -> Iterator[Object]:
    """Report how pairs did with these versions, and with the last good ones."""
    for history in pair_history.newest(MAX_PAIRS):
        before = history.before
        yield {
            "pair": name_pair(history.of, names),
            "now": era(history.now),
            "before": era(before) if before else None,
            "fell": list(history.falls()),
        }


def era(era: Era) -> Object:
    speed = era.speed
    return {
        "versions": era.versions,
        "tries": era.tries,
        "plain_ms": round(median(speed.plain) * 1e3, 2) if speed and speed.plain else None,
        "checking_ms": round(median(speed.checking) * 1e3, 2) if speed and speed.checking else None,
        "agreed": round(speed.agreed.count("1") / len(speed.agreed), 3)
        if speed and speed.agreed
        else None,
    }


def costs(names: Mapping[Path, str]) -> Iterator[Object]:
    for files, calibration in kept_calibrations.newest(MAX_PAIRS):
        advice = list(draft_advice.describe(calibration))
        yield {"pair": name_pair(files, names), "advice": advice}
