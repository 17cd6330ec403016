"""Logs a line for each request and reply; their texts only with --log-prompts."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from localspec.engine.job import Result
from localspec.server.monitoring.ignored import SCOPE
from localspec.server.requests.leniency import header
from localspec.server.requests.prepared import Prepared

log = logging.getLogger("localspec.server")
SILENT = (  # paths that are asked every few seconds, among others by the page
    *("/health", "/v1/health", "/metrics", "/slots"),
    *("/localspec/machine", "/localspec/log", "/localspec/bench"),
)
SILENT_BELOW = "/page/"  # the page's files, a dozen each time it is opened
HEADER = b"x-localspec-ignored"
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


def quote_reply(result: Result) -> None:
    log.info("reply: %s", result.text)
