"""A text that is read from disk before anybody asks for it."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import suppress
from pathlib import Path
from typing import Generic, TypeVar

from localspec.base.errors import LocalSpecError
from localspec.base.interruption import Interrupted, Patience

T = TypeVar("T")


class EarlyText(Generic[T]):
    """Reads a file on another thread; `read` looks now and then whether it was given up."""

    def __init__(self, path: Path, pool: Executor, read: Callable[[Path], T | None]) -> None:
        self.path = path
        self._patience = Patience()
        self._reading = pool.submit(self._read_patiently, read)

    def _read_patiently(self, read: Callable[[Path], T | None]) -> T | None:
        with self._patience.lent(), suppress(Interrupted, LocalSpecError):
            return read(self.path)
        return None

    @property
    def is_read(self) -> bool:
        return self._reading.done()

    def wait(self) -> T | None:
        """Return what was read, waiting for it if need be; None: it is damaged, or too much."""
        return self._reading.result()

    def give_up(self) -> None:
        self._patience.over = True
