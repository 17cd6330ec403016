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
        "API key of that server. LOCALSPEC_API_KEY sets it, too.",
        envvar="LOCALSPEC_API_KEY",
        secret=True,
    )


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Options of a server that is started."""

    cache_dir: Path | None = option(
        FOLDER, "Keep the KV cache of long prompts in this folder, for the next start."
    )


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    print: bool = flag("Print what would be run and set, and run nothing.")
