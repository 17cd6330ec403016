"""Save slots in files that clients name, for a later start of the same model."""

from __future__ import annotations

import re
from pathlib import Path

from localspec.base.errors import UsageError
from localspec.base.system import free_memory
from localspec.base.system.folders import make_private
from localspec.base.tokens import Tokens
from localspec.core.prefix_cache.disk import PART, write_file
from localspec.core.prefix_cache.kept_file import ReadText, identity_digest, pack, parse, read_data
from localspec.core.prefix_cache.stored_text import MEMORY_SHARE
from localspec.interfaces.adapter import Scales
from localspec.interfaces.backend import Saved

NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_. -]{0,127}")  # no path, nowhere


class SlotFiles:
    """A folder of at most so many bytes; none of its files is removed for another."""

    def __init__(self, folder: Path, limit_bytes: int, identity: str) -> None:
        self._folder = folder
        self._limit = limit_bytes
        self._identity = identity_digest(identity)
        make_private(folder)

    @property
    def allowed_bytes(self) -> int:
        """Return the bytes that one file may have."""
        return min(self._limit, free_memory.memory().free_bytes // MEMORY_SHARE)

    def write(self, name: str, tokens: Tokens, saved: Saved, adapters: Scales = ()) -> int:
        """Write a file, in place of another of its name; return its bytes."""
        path = self.file_path(name)
        head = pack(self._identity, tokens, saved, adapters)
        parts: list[bytes | memoryview] = [*head, saved.data.data]
        total = sum(map(len, parts))
        others = sum(other.stat().st_size for other in self._folder.iterdir() if other != path)
        if others + total > self._limit:
            raise UsageError(
                f"{name} takes {total:,} bytes beside {others:,} in {self._folder}, which may have "
                f"{self._limit:,}: delete some, or raise --cache-size"
            )
        if failure := write_file(path, parts, self._limit):
            raise UsageError(failure)
        return total

    def read(self, name: str) -> ReadText:
        """Read a file: a text and its KV cache."""
        path = self.file_path(name)
        try:
            with path.open("rb") as file:
                text = parse(file, path, self._identity)
                data = read_data(file, text, self.allowed_bytes)
        except FileNotFoundError:
            raise UsageError(f"there is no {name} in {self._folder}: save a slot first") from None
        except (OSError, ValueError) as error:
            raise UsageError(f"{name} cannot be restored: {error}") from error
        if data is None:
            raise UsageError(f"{name} has {text.data_bytes:,} bytes; {self.allowed_bytes:,} may be")
        return ReadText(text, data)

    def file_path(self, name: str) -> Path:
        """Return the path of a file; raise a UsageError if its name is none."""
        if not NAME.fullmatch(name) or PART.fullmatch(name):
            raise UsageError(f"{name[:80]!r} is no name of a file: it must match {NAME.pattern}")
        return self._folder / name
