"""One process of a group: `python -m localspec_mlx.member COMMAND...`, started on each machine.

The first runs the command; the others hold their shares of its model until it ends.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import mlx.core as mx

from localspec.backend_spec import MEMBERS
from localspec.cli import run
from localspec_mlx import loading
from localspec_mlx.group import Call, Group, unpacked, wished
from localspec_mlx.model import MlxModel


def main(arguments: Sequence[str]) -> int:
    group = Group(mx.distributed.init(strict=True))
    loading.join(group)
    if group.rank:
        follow(group)
        return 0
    os.environ[MEMBERS] = str(group.size)
    try:
        return run(arguments)
    finally:
        if not group.lost:
            group.tell(Call.END)


def follow(group: Group) -> None:
    """Do what the leader tells, until it ends; an error ends this process, and so the group."""
    model: MlxModel | None = None
    while True:
        call, numbers = group.hear()
        if call is Call.END:
            return
        if call is Call.LOAD:
            model = loading.load(*wished(numbers))
        elif model is not None:
            obey(model, call, numbers)


def obey(model: MlxModel, call: Call, numbers: Sequence[int]) -> None:
    if call is Call.FORWARD:
        model.forward(unpacked(numbers))
    elif call is Call.TRUNCATE:
        model.truncate(*numbers)
    elif call is Call.COPY:
        model.copy(*numbers)
    else:
        model.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
