"""Request fields without effect: logged once per client and field, and counted."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from prometheus_client import Counter
from starlette.requests import Request

from localspec.server.monitoring.metrics import Metrics
from localspec.server.requests.leniency import safe

log = logging.getLogger("localspec.server")
SCOPE = "localspec.ignored"  # key of the fields that the answer's header lists
MAX_LOGGED = 1000  # lines, whatever clients make up
MAX_LABELS = 200  # fields that are counted by name
OTHERS = "(others)"


class Ignored:
    def __init__(self, metrics: Metrics) -> None:
        about = "Fields of requests that changed nothing"
        self._count = Counter(
            "localspec_ignored_fields", about, ("field",), registry=metrics.registry
        )
        self._logged: set[tuple[str, str]] = set()
        self._labels: set[str] = set()

    def note(self, request: Request, fields: Sequence[str]) -> None:
        """Note ignored fields for the answer's header, the log and the metrics."""
        client = safe(request.headers.get("user-agent", "").partition(" ")[0])
        request.scope.setdefault(SCOPE, []).extend(fields)
        for field in map(safe, fields):
            if len(self._labels) < MAX_LABELS:
                self._labels.add(field)
            self._count.labels(field if field in self._labels else OTHERS).inc()
            if (client, field) not in self._logged and len(self._logged) < MAX_LOGGED:
                self._logged.add((client, field))
                log.info("%s asks for %s, which changes nothing here", client, field)
