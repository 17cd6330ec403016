"""The options of `launch` and `connect`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localspec.commands.options.declare import FOLDER, TEXT, flag, option


@dataclass(frozen=True, slots=True)
class AttachOptions:
    attach: str | None = option(TEXT, "Use the server at this address, and no other.", "URL")
    key: str | None = option(
        TEXT,
        "Of that server, if it wants one; or in LOCALSPEC_API_KEY.",
        envvar="LOCALSPEC_API_KEY",
        secret=True,
    )


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Options of a server that is started."""

    cache_dir: Path | None = option(FOLDER, "Keep long prompts there, for the next time.")


@dataclass(frozen=True, slots=True)
class ConnectOptions:
    write: bool = flag("Put it into the editor's own file, and keep what was there beside it.")


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    print: bool = flag("Show what would be run and set, and do nothing.")
