"""Limits and permissions for clients, as the command line sets them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from localspec.apps.server.media_intake import Fetch, MediaLimits
from localspec.apps.server.model_library import Library
from localspec.apps.server.options import STORED
from localspec.apps.server.safety import Rules


@dataclass(frozen=True, slots=True)
class ServerPolicy:
    rules: Rules = field(default_factory=Rules)
    origins: tuple[str, ...] = ()  # web pages that may ask; none by default
    reply_seconds: float = 600.0
    waiting: int = 64  # requests that may wait for a slot
    idle_seconds: float | None = None  # after which a model leaves memory
    library: Library | None = None  # of models that clients may download and delete
    manage: bool = True  # whether clients may load, unload, download and delete models
    responses: int = STORED  # that are kept for requests that go on from them
    cache_dir: Path | None = None  # keeps them for the next start too
    batch_dir: Path | None = None  # where clients' batches are kept; None: there are none
    batch_bytes: int = 0  # of each client's files
    read_ahead: bool | None = None  # prompts, while nobody waits; None: not on battery
    quotes: bool = False  # whether the log quotes prompts and replies
    prefix: str = ""  # a path under which every path is answered too
    strict: bool = False  # whether fields without effect are rejected
    page: bool = True  # whether browsers get a page at /
    media: MediaLimits = field(default_factory=MediaLimits)
    fetch: Fetch | None = None  # gets pictures at addresses; None: these are refused
