"""The time for which calls of any thread may use what close() frees."""

from __future__ import annotations

from threading import Condition

from localspec.base.errors import BackendError


class Lifetime:
    """Counts the calls that are inside; the end waits for them and lets no more in."""

    def __init__(self) -> None:
        self._changed = Condition()
        self._inside = 0
        self._over = False

    def __enter__(self) -> None:
        with self._changed:
            if self._over:
                raise BackendError("this model was closed; load it again")
            self._inside += 1

    def __exit__(self, *_: object) -> None:
        with self._changed:
            self._inside -= 1
            self._changed.notify_all()

    def end(self) -> None:
        with self._changed:
            self._over = True
            self._changed.wait_for(lambda: not self._inside)
