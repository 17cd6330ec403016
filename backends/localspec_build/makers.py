"""The page of wheels by llama-cpp-python's makers, which not every network reaches."""

from __future__ import annotations

import re
import time
from pathlib import Path

from localspec_build.pip import GAVE_UP

SITE = "https://abetlen.github.io/llama-cpp-python/whl"
# pip reports why it could not reach a page only where it is asked to report much.
BRIEFLY = ("-vv", "--retries", "0", "--timeout", "5")
PATIENCE_SECONDS = 15.0  # pip takes its time limit for each of a host's addresses
HOLD_SECONDS = 3600  # in which the command is likely to be given again
UNREACHABLE = re.compile(
    rf"Could not fetch URL .*(?:connection error|ssl certificate|timed out)|{GAVE_UP}"
)


def index(tag: str) -> tuple[str, ...]:
    """Return the options that let pip look at one of their indexes, for wheels alone."""
    return ("--only-binary", ":all:", "--index-url", f"{SITE}/{tag}", *BRIEFLY)


def unreachable(log: str) -> bool:
    """Return whether pip could not get their page, rather than that nothing on it suits."""
    return bool(UNREACHABLE.search(log))


class Reach:
    """Whether the makers' page was out of reach a while ago, remembered in a file."""

    def __init__(self, folder: Path) -> None:
        self.file = folder / "makers-out-of-reach"

    def lost(self) -> bool:
        try:
            return 0 <= time.time() - self.file.stat().st_mtime < HOLD_SECONDS
        except OSError:
            return False

    def note(self) -> None:
        self.file.parent.mkdir(parents=True, exist_ok=True)
        self.file.touch()

    def forget(self) -> None:
        """Ask again next time: it was the whole network that was away."""
        self.file.unlink(missing_ok=True)
