"""What an API brings to the server: its routes, and the format of its errors."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import EntryPoint, entry_points

from starlette.routing import BaseRoute

from localspec.apps.server.faults import Fault, openai_error
from localspec.apps.server.handler import RequestHandler

GROUP = "localspec.apis"
OWN = "localspec."  # the beginning of what the entry points of its own name

log = logging.getLogger("localspec.server")


@dataclass(frozen=True, slots=True)
class Api:
    """An API of the server; an entry point of the group `localspec.apis` names it."""

    routes: Callable[[RequestHandler], Sequence[BaseRoute]]  # by which it answers; asked for once
    paths: tuple[str, ...] = ()  # the beginnings of its paths, of which the longest match decides
    error_body: Callable[[Fault], Mapping[str, object]] = openai_error  # of errors at these paths

    def match(self, path: str) -> int:
        """Return the length of the longest beginning that a path shares with this API; -1: none."""
        return max((len(start) for start in self.paths if path.startswith(start)), default=-1)


def offered_apis(handler: RequestHandler) -> Iterator[tuple[Api, Sequence[BaseRoute]]]:
    """Yield the APIs of all packages with their routes, LocalSpec's own first.

    Of two routes for one path the first answers. An API that cannot be used is left out.
    """
    entries = set(entry_points(group=GROUP))
    for entry in sorted(entries, key=lambda entry: (not entry.value.startswith(OWN), entry.name)):
        try:
            api, routes = load(entry, handler)
        except Exception as error:  # of whatever kind: it is a stranger's module
            log.error("the API %s is left out: %s: %r", entry.name, entry.value, error)
        else:
            yield api, routes


def load(entry: EntryPoint, handler: RequestHandler) -> tuple[Api, Sequence[BaseRoute]]:
    api = entry.load()
    if not isinstance(api, Api):
        raise TypeError(f"it is no {Api.__qualname__} of {Api.__module__}")
    return api, list(api.routes(handler))


def error_body(apis: Sequence[Api], path: str, fault: Fault) -> Mapping[str, object]:
    """Format an error as the API of a path does, also where the path has no route."""
    return max(apis, key=lambda api: api.match(path)).error_body(fault)
