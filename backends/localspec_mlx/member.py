"""One process of a group: the first runs a command, the others hold their shares of its model."""

from __future__ import annotations

from collections.abc import Sequence

import mlx.core as mx

from localspec_mlx import loading
from localspec_mlx.group import Call, Group, read_request, unpacked
from localspec_mlx.model import MlxModel
from localspec_mlx.watch import watch


def join() -> Member:
    """Join the group that mlx.launch started this process for."""
    group = Group(mx.distributed.init(strict=True))
    loading.join(group)
    return Member(group)


class Member:
    def __init__(self, group: Group) -> None:
        self._group = group
        self._unwatched = watch()  # of other connections it has none yet
        self.leads, self.size = group.leads, group.size

    def follow(self) -> None:
        """Do what the leader tells until it ends; an error ends this process, and so the group."""
        model: MlxModel | None = None
        while True:
            call, numbers = self._group.hear()
            if call is Call.END:
                return self._unwatched()
            if call is Call.LOAD:
                model = loading.load(*read_request(numbers))
            elif model is not None:
                obey(model, call, numbers)

    def end(self) -> None:
        """Let the others end, too."""
        self._unwatched()
        if not self._group.lost:
            self._group.tell(Call.END)


def obey(model: MlxModel, call: Call, numbers: Sequence[int]) -> None:
    if call is Call.FORWARD:
        model.forward(unpacked(numbers))
    elif call is Call.TRUNCATE:
        model.truncate(*numbers)
    elif call is Call.COPY:
        model.copy(*numbers)
    else:
        model.close()
