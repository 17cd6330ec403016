"""KV caches of long texts on disk, for later and for other processes: a file for each."""

from __future__ import annotations

import logging
import os
import re
import tempfile
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from localspec.base.system import free_memory
from localspec.base.system.folders import make_private
from localspec.base.tokens import Tokens
from localspec.core.prefix_cache import text_form
from localspec.core.prefix_cache.early_text import EarlyText
from localspec.core.prefix_cache.kept_file import (
    DiskText,
    ReadText,
    digest_of,
    identity_digest,
    pack,
    parse_named,
    read_file,
)
from localspec.core.prefix_cache.stored_text import MEMORY_SHARE, StoredText, best, needless
from localspec.interfaces.adapter import Scales
from localspec.interfaces.backend import Saved

NAME = re.compile(r"[0-9a-f]{16}-[0-9a-f]{32}\.kept")
PART = re.compile(r"kept-.*\.part")  # a file that is being written
STALE_SECONDS = 3600.0  # after which such a file was left by a process that died
MAX_FILES = 1024

LOG = logging.getLogger("localspec")


class Disk:
    """A folder of texts, together of at most `limit_bytes`. One thread calls it.

    Other models and other processes may share the folder; `identity` stands for everything that
    makes KV caches incompatible.
    """

    def __init__(self, folder: Path, limit_bytes: int, identity: str) -> None:
        self._folder = folder
        self._limit = limit_bytes
        self._identity = identity_digest(identity)
        self._mine = self._identity.hex()[:16]  # how names of files begin
        self._texts: dict[Path, DiskText] = {}
        self._writer = ThreadPoolExecutor(1, "localspec-keeping")
        self._writing: Future[str] | None = None
        self._early: EarlyText[ReadText] | None = None
        self._failed = False
        self._notices: list[str] = []
        make_private(folder)
        make_room(folder, limit_bytes)

    @property
    def allowed_bytes(self) -> int:
        """Return the bytes that one text may take."""
        return min(self._limit, free_memory.memory().free_bytes // MEMORY_SHARE)

    @property
    def busy(self) -> bool:
        """Whether the last text is still being written."""
        return self._writing is not None and not self._writing.done()

    def best_for(self, tokens: Tokens, adapters: Scales = ()) -> DiskText | None:
        """Find the text that serves another best, if any does."""
        self._look()
        return best(self._texts.values(), tokens, adapters)

    @property
    def texts(self) -> Sequence[StoredText]:
        self._look()
        return list(self._texts.values())

    def read(self, text: DiskText) -> NDArray[np.uint8] | None:
        """Read the KV cache of a text; remove the file and return None if it is damaged."""
        if self._early and self._early.path == text.path:
            read_text = self._early.wait()
            self._early = None
        else:
            self.give_up_newest()
            read_text = self._read_file(text.path)
        if read_text is None:
            return None
        mark_used(text.path)
        return read_text.data

    def _read_file(self, path: Path) -> ReadText | None:
        with suppress(OSError, ValueError):
            return read_file(path, self._identity, self.allowed_bytes)
        drop(path)
        return None

    def read_newest(self) -> None:
        """Begin to read the text that was used last, in another thread."""
        if newest := max(self._paths(), key=used_at, default=None):
            self._early = EarlyText(newest, self._writer, self._read_file)

    @property
    def has_newest(self) -> bool:
        """Whether the text used last is being read, or was and is not taken yet."""
        return self._early is not None

    def take_newest(self) -> ReadText | None:
        """Return the text used last, once, if it has been read."""
        if self._early is None or not self._early.is_read:
            return None
        early, self._early = self._early, None
        return early.wait()

    def give_up_newest(self) -> None:
        """Stop reading the text used last; if it has been read, it stays."""
        if self._early and not self._early.is_read:
            self._early.give_up()
            self._early = None

    def wants(self, tokens: Tokens, adapters: Scales = ()) -> bool:
        """Whether a text is not stored yet; one that is counts as used now."""
        self._look()
        for text in self._texts.values():
            if text.adapters == adapters and text.serves(tokens) == len(tokens):
                mark_used(text.path)
                return False
        return True

    def keep(self, tokens: Tokens, saved: Saved, adapters: Scales = ()) -> None:
        """Write a text in another thread, and then remove those that it serves as well."""
        self.wait()
        self._look()
        old = [] if saved.whole else needless(self._texts.values(), tokens, adapters)
        path = self._folder / f"{self._mine}-{digest_of(text_form.pack(tokens, adapters))}.kept"

        def write() -> str:
            head = pack(self._identity, tokens, saved, adapters)
            failure = write_file(path, [*head, saved.data.data], self._limit)
            for text in [] if failure else old:
                remove(text.path)
            return failure

        try:
            self._writing = self._writer.submit(write)
        except RuntimeError:  # the interpreter ends, and lets no thread work any more
            self._writing = Future()
            self._writing.set_result(write())

    def wait(self) -> None:
        """Wait until the last text is written."""
        if self._writing is None:
            return
        failure = self._writing.result()
        self._writing = None
        if failure and not self._failed:
            LOG.warning(failure)
            self._notices.append(failure)
        self._failed = bool(failure)

    def take_notices(self) -> list[str]:
        """Return notices for clients, each once."""
        if not self.busy:
            self.wait()
        notices, self._notices = self._notices, []
        return notices

    def close(self) -> None:
        self.give_up_newest()
        self.wait()
        self._writer.shutdown()

    def _look(self) -> None:
        """List the texts that are there now."""
        paths = self._paths()
        self._texts = {path: text for path, text in self._texts.items() if path in paths}
        for path in paths - self._texts.keys():
            try:
                with path.open("rb") as file:
                    self._texts[path] = parse_named(file, path, self._identity)
            except ValueError:
                drop(path)
            except OSError:
                continue

    def _paths(self) -> set[Path]:
        """Return the files that are of this model."""
        return {path for path in files(self._folder, NAME) if path.name.startswith(self._mine)}


def write_file(path: Path, parts: Sequence[bytes | memoryview], limit: int) -> str:
    """Write a file atomically; return the reason for a failure, or an empty string."""
    try:
        make_room(path.parent, limit - sum(map(len, parts)))
        handle, part = tempfile.mkstemp(".part", "kept-", path.parent)  # for its owner only
        try:
            with os.fdopen(handle, "wb") as file:
                for piece in parts:
                    file.write(piece)
            Path(part).replace(path)
        finally:
            Path(part).unlink(missing_ok=True)
    except OSError as error:
        return f"a text could not be kept in {path.parent}: {error.strerror or error}"
    return ""


def make_room(folder: Path, limit: int) -> None:
    """Remove the least recently used texts until the rest takes at most `limit` bytes."""
    texts = []
    for path in files(folder, NAME):
        with suppress(OSError):
            info = path.stat()
            texts.append((info.st_mtime_ns, info.st_size, path))
    total = sum(size for _, size, _ in texts)
    for at, (_, size, path) in enumerate(sorted(texts)):
        if total <= limit and len(texts) - at < MAX_FILES:
            break
        remove(path)
        total -= size
    for path in files(folder, PART):
        with suppress(OSError):
            if time.time() - path.stat().st_mtime > STALE_SECONDS:
                remove(path)


def files(folder: Path, name: re.Pattern[str]) -> Iterator[Path]:
    with suppress(OSError):
        yield from [path for path in folder.iterdir() if name.fullmatch(path.name)]


def drop(path: Path) -> None:
    """Remove a damaged file, and say so."""
    with suppress(OSError):
        path.unlink()
        LOG.warning("%s was damaged, and is removed: its text is read again", path)


def remove(path: Path) -> None:
    with suppress(OSError):
        path.unlink()


def used_at(path: Path) -> int:
    """Return when a text was used last; 0 if it is gone."""
    with suppress(OSError):
        return path.stat().st_mtime_ns
    return 0


def mark_used(path: Path) -> None:
    with suppress(OSError):
        os.utime(path)
