"""What an API brings to the server: its routes, and the format of its errors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from starlette.routing import BaseRoute

from localspec.apps.server.faults import Fault
from localspec.apps.server.handler import RequestHandler

ErrorBody = Callable[[Fault], Mapping[str, object]]


@dataclass(frozen=True, slots=True)
class Api:
    paths: tuple[str, ...]  # the beginnings of its paths, of which the longest match decides
    routes: Callable[[RequestHandler], Sequence[BaseRoute]]
    error_body: ErrorBody

    def match(self, path: str) -> int:
        """Return the length of the longest beginning that a path shares with this API; -1: none."""
        return max((len(start) for start in self.paths if path.startswith(start)), default=-1)


def error_body(apis: Sequence[Api], path: str, fault: Fault) -> Mapping[str, object]:
    """Format an error as the API of a path does, also where the path has no route."""
    return max(apis, key=lambda api: api.match(path)).error_body(fault)
