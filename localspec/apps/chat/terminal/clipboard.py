"""The clipboard, by the system's own command, or through the terminal, also remotely."""

from __future__ import annotations

import base64
import shutil
import subprocess
from pathlib import Path
from typing import IO

from localspec.base.errors import UsageError

COMMANDS = (
    ("pbcopy",),
    ("wl-copy",),
    ("xclip", "-selection", "clipboard"),
    ("xsel", "--clipboard", "--input"),
    ("clip",),
)
SECONDS = 5.0


def copy(text: str, terminal: IO[str] | None) -> str:
    """Copy a text, through the terminal if it may be one; return how it was done."""
    for name, *arguments in COMMANDS:
        if (path := shutil.which(name)) and accepts(path, arguments, text):
            return f"copied with {name}"
    if terminal is None:
        raise UsageError("there is no clipboard here: /save or /export FILE takes a file")
    data = base64.b64encode(text.encode()).decode()
    terminal.write(f"\x1b]52;c;{data}\x07")
    terminal.flush()
    return "sent to the terminal, which copies it if it is allowed to"


def accepts(path: str, arguments: list[str], text: str) -> bool:
    """Return whether a command accepted the text; without a desktop it fails."""
    encoding = "utf-16" if Path(path).stem.lower() == "clip" else "utf-8"
    quiet = subprocess.DEVNULL
    try:
        done = subprocess.run(
            [path, *arguments],
            input=text.encode(encoding),
            stdout=quiet,
            stderr=quiet,
            timeout=SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0
