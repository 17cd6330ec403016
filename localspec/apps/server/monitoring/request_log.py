"""Logs a line for each request and reply, and for fields without effect; texts if asked for."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from prometheus_client import Counter
from starlette.requests import Request
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localspec.apps.server.monitoring.metrics import Metrics
from localspec.apps.server.requests.leniency import header, safe
from localspec.apps.server.requests.prepared import Prepared
from localspec.core.requests.job import Result

log = logging.getLogger("localspec.server")
SILENT = (  # paths that are asked every few seconds, among others by the page
    *("/health", "/v1/health", "/metrics", "/slots"),
    *("/localspec/machine", "/localspec/log", "/localspec/bench"),
)
SILENT_BELOW = "/page/"  # the page's files, a dozen each time it is opened
HEADER = b"x-localspec-ignored"
SCOPE = "localspec.ignored"  # key of the fields that the answer's header lists
MAX_LOGGED = 1000  # lines about such fields, whatever clients make up
MAX_LABELS = 200  # fields that are counted by name
OTHERS = "(others)"
DIRECT = "localspec.send"  # key of the `send` by which `streaming.Streaming` sends its pieces


class RequestLog:
    """Wraps the application: logs method, path, status and time."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http" or silent(scope["path"]):
            await self._app(scope, receive, send)
            return
        begun, status = time.perf_counter(), "nothing sent"

        async def watched(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = str(message["status"])
                if names := scope[SCOPE]:
                    ignored = (HEADER, header(names).encode())
                    message = {**message, "headers": [*message["headers"], ignored]}
            await send(message)

        try:
            scope[DIRECT], scope[SCOPE] = send, []
            await self._app(scope, receive, watched)
        finally:
            seconds = time.perf_counter() - begun
            log.info("%s %r %s %.3f s", scope["method"], scope["path"], status, seconds)


def silent(path: str) -> bool:
    """Say whether requests for a path leave no line."""
    return path in SILENT or path.startswith(SILENT_BELOW)


def note(model: str, result: Result) -> None:
    """Log the figures of a reply."""
    speed = result.timings.tokens_per_second
    log.info(
        "%s: %d tokens after %d (%d held)%s, %d of %d draft tokens accepted, %s",
        model,
        result.usage.completion_tokens,
        result.usage.prompt_tokens,
        result.usage.cached_tokens,
        f", {speed:.1f} tokens/s" if speed else "",
        result.speculation.accepted,
        result.speculation.drafted,
        result.finish_reason,
    )


def quote(prompts: Sequence[Prepared]) -> None:
    for prompt in prompts:
        tokenizer = prompt.served.runtime.tokenizer
        tokens = (token for token in prompt.tokens if token >= 0)  # below: pictures
        text = b"".join(map(tokenizer.token_bytes, tokens))
        log.info("prompt: %s", text.decode("utf-8", "replace"))


class Ignored:
    """Request fields without effect: logged once per client and field, and counted."""

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
