"""Records of the build chosen for this machine, and of the build in each environment."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from localspec_build import folders

BUILT = "built here"  # the source of a build that no index has
CUSTOM = "custom"  # the kind of a build by the user's own CMAKE_ARGS
NAME = "localspec-build.json"


class BuildRequest(NamedTuple):
    """The kind of build that was chosen, for all environments of a user."""

    kind: str
    cmake: str = ""  # the user's own options
    asked: bool = False  # by the user, rather than found out


class Installed(NamedTuple):
    """The build that an environment has."""

    kind: str
    because: str
    source: str  # BUILT, or the index that it comes from; empty: it is not on record
    libraries: str = ""  # a folder with those that have to be loaded before it
    cmake: tuple[str, ...] = ()
    products: str = ""  # the version of LocalSpec's own products that it was built with


def requested(environment: Mapping[str, str] = os.environ) -> BuildRequest | None:
    """Return the choice that holds; CMAKE_ARGS in the environment is a new one."""
    if cmake := environment.get("CMAKE_ARGS", "").strip():
        return BuildRequest(CUSTOM, cmake, True)
    record = _record(folders.data() / NAME)
    try:
        return BuildRequest(str(record["kind"]), str(record["cmake"]), record["asked"] is True)
    except KeyError:
        return None


def remember(request: BuildRequest) -> None:
    _write(folders.data() / NAME, request._asdict())


def installed(prefix: Path) -> Installed | None:
    """Return what was installed under this prefix; None where it was not by us."""
    record = _record(prefix / NAME)
    try:
        fields = {"products": "", **record}  # records of earlier LocalSpecs name none
        kind, because, source, libraries, cmake, products = (
            str(fields[name]) for name in Installed._fields
        )
        return Installed(kind, because, source, libraries, tuple(shlex.split(cmake)), products)
    except (KeyError, ValueError):
        return None


def note(prefix: Path, made: Installed) -> None:
    _write(prefix / NAME, {**made._asdict(), "cmake": shlex.join(made.cmake)})


def _record(place: Path) -> dict[str, object]:
    try:
        content = json.loads(place.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return content if isinstance(content, dict) else {}


def _write(place: Path, content: Mapping[str, object]) -> None:
    place.parent.mkdir(parents=True, exist_ok=True)
    aside = place.with_suffix(f".{os.getpid()}")
    aside.write_text(json.dumps(content, indent=1), encoding="utf-8")
    aside.replace(place)
