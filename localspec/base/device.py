"""A device that holds models, and what memory it has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Device:
    name: str
    kind: str  # "cpu", "gpu", "integrated gpu" (which shares the host's memory) or "accelerator"
    total_bytes: int
    free_bytes: int
    worker: str = ""  # HOST:PORT of the machine that has it; empty: this one
    limit: str = ""  # the setting, in MiB, of how much of the host's memory it may take
