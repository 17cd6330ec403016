"""The options of `launch`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from localspec.console.options.declare import FOLDER, TEXT, flag, option, secret


@dataclass(frozen=True, slots=True)
class AttachOptions:
    attach: str | None = option(TEXT, "Address of the server to use, and no other.", "URL")
    key: str | None = secret("API key of the server (env LOCALSPEC_API_KEY).", "LOCALSPEC_API_KEY")


@dataclass(frozen=True, slots=True)
class StartOptions:
    """Options of a server that is started."""

    cache_dir: Path | None = option(
        FOLDER,
        "Folder for the KV cache of long prompts, kept for the next start.",
        otherwise="one of LocalSpec's own, of at most 4 GiB",
    )


@dataclass(frozen=True, slots=True)
class LaunchOptions:
    print: bool = flag("Command and its variables, printed instead of run.")
    forgetful: bool = flag("Nothing of what is read kept on disk.")
