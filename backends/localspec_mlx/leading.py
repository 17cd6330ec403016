"""A model of which each member of a group holds a share; this is the leader's."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import numpy as np
from numpy.typing import NDArray

from localspec.base.tokens import LogitRows
from localspec.interfaces.backend import Options, Row, Saved
from localspec.interfaces.forward_loop import check
from localspec_mlx.blueprint import Blueprint
from localspec_mlx.folder.tokenizer import FolderTokenizer
from localspec_mlx.group import Call, Group, packed
from localspec_mlx.model import MlxModel


class LeadingModel(MlxModel):
    """Sends each call to the other members before it runs the call itself."""

    def __init__(
        self, blueprint: Blueprint, tokenizer: FolderTokenizer, options: Options, group: Group
    ) -> None:
        super().__init__(blueprint, tokenizer, options)
        self._group = group

    def forward(self, rows: Sequence[Row]) -> list[LogitRows]:
        # Nothing is begun ahead: the others are not told what the core will choose.
        rows = [row._replace(next=None) for row in rows]
        at = [row.slot for row in rows]
        with self._device(at) as runner:
            check(self, rows, [self._length(runner, slot) for slot in at])
        with self._telling(at, Call.FORWARD, packed(rows)):
            return super().forward(rows)

    def truncate(self, slot: int, length: int) -> int:
        with self._telling([slot], Call.TRUNCATE, [slot, length]):
            return super().truncate(slot, length)

    def copy(self, source: int, target: int, length: int) -> int:
        with self._telling([target], Call.COPY, [source, target, length]):
            return super().copy(source, target, length)

    def save(self, slot: int, most: int) -> Saved | None:
        return None  # each machine holds a share

    def restore(self, slot: int, data: NDArray[np.uint8], length: int) -> int:
        return self.truncate(slot, 0)

    @contextmanager
    def _telling(self, slots: Sequence[int], call: Call, numbers: Sequence[int]) -> Iterator[None]:
        with self._device(slots):
            self._group.tell(call, numbers)
        try:
            yield
        except BaseException:
            self._group.leave()  # the others may have come further, or wait for this one
            raise

    def close(self) -> None:
        if self._runner is not None and not self._group.lost:
            with self._device([]):
                self._group.tell(Call.CLOSE)
        super().close()
