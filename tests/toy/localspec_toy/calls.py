"""Notes in a file which functions of the engine were called, for tests that count them."""

from __future__ import annotations

import os
from pathlib import Path


def noted(call: str) -> None:
    if place := os.environ.get("LOCALSPEC_TOY_CALLS"):
        with Path(place).open("a", encoding="utf-8") as file:
            file.write(f"{os.getpid()} {call}\n")
