"""The application: routes of all APIs, and errors in the format of their API."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from localspec.apps.server.anthropic.routes import ANTHROPIC
from localspec.apps.server.api import error_body
from localspec.apps.server.downloads import Downloads
from localspec.apps.server.faults import Fault, Refused
from localspec.apps.server.handler import RequestHandler
from localspec.apps.server.inspection.bench_run import BenchRun
from localspec.apps.server.inspection.routes import inspection
from localspec.apps.server.llamacpp.routes import LLAMA_CPP
from localspec.apps.server.media_intake import Fetch, MediaIntake, MediaLimits
from localspec.apps.server.model_host import ModelHost
from localspec.apps.server.model_library import Library
from localspec.apps.server.monitoring import request_log
from localspec.apps.server.monitoring.log_lines import RecentLines
from localspec.apps.server.monitoring.metrics import Metrics, Now, status
from localspec.apps.server.monitoring.request_log import Ignored, RequestLog
from localspec.apps.server.not_offered import not_offered
from localspec.apps.server.offers import Offers, ServedOffer
from localspec.apps.server.ollama.routes import OLLAMA
from localspec.apps.server.openai.response_store import ResponseStore
from localspec.apps.server.openai.responses_routes import responses
from localspec.apps.server.openai.routes import OPENAI
from localspec.apps.server.options import STORED
from localspec.apps.server.page.routes import is_for_page, page_routes
from localspec.apps.server.paths import Absolute, MeantRoutes, Prefix
from localspec.apps.server.preparing import Preparing
from localspec.apps.server.replies.exchange import Limit
from localspec.apps.server.replies.streaming import Gone, logged_fault
from localspec.apps.server.safety import APP_ORIGINS, Guard, Manager, Rules
from localspec.apps.server.vectors.routes import vectors
from localspec.base.errors import LocalSpecError
from localspec.core.engine.job import Result

log = logging.getLogger("localspec.server")

APIS = (OPENAI, ANTHROPIC, OLLAMA, LLAMA_CPP)


@dataclass(frozen=True, slots=True)
class Terms:
    """Limits and permissions for clients."""

    rules: Rules = field(default_factory=Rules)
    origins: tuple[str, ...] = ()  # web pages that may ask; none by default
    reply_seconds: float = 600.0
    waiting: int = 64  # requests that may wait for a slot
    idle_seconds: float | None = None  # after which a model leaves memory
    library: Library | None = None  # of models that clients may download and delete
    manage: bool = True  # whether clients may load, unload, download and delete models
    responses: int = STORED  # that are kept for requests that go on from them
    cache_dir: Path | None = None  # keeps them for the next start too
    quotes: bool = False  # whether the log quotes prompts and replies
    prefix: str = ""  # a path under which every path is answered too
    strict: bool = False  # whether fields without effect are rejected
    page: bool = True  # whether browsers get a page at /
    media: MediaLimits = field(default_factory=MediaLimits)
    fetch: Fetch | None = None  # gets pictures at addresses; None: these are refused


def application(offers: Sequence[ServedOffer], terms: Terms) -> Starlette:
    metrics = Metrics()

    def note(model: str, result: Result) -> None:
        metrics.note(model, result)
        request_log.note(model, result)
        if terms.quotes:
            log.info("reply: %s", result.text)

    host = ModelHost(
        Offers({offer.name: offer for offer in offers}, strict=terms.strict),
        note,
        waiting=terms.waiting,
        idle_seconds=terms.idle_seconds,
    )
    metrics.registry.register(Now(host))
    preparing, lines = Preparing(), RecentLines()
    handler = RequestHandler(
        host,
        Limit(terms.reply_seconds),
        Manager(terms.manage, terms.origins),
        Downloads(host, terms.library),
        metrics,
        Ignored(metrics),
        preparing,
        MediaIntake(preparing, terms.media, terms.fetch),
        terms.quotes,
        terms.strict,
        terms.page,
    )

    store = ResponseStore(terms.responses, terms.cache_dir)
    routes = [
        *(page_routes() if terms.page else ()),  # before the greeting at / for Ollama's clients
        *api_routes(handler, store),
        *status(host, metrics),
        *inspection(handler, lines, BenchRun(host)),
    ]
    app = Starlette(
        routes=[MeantRoutes(routes), *routes],
        middleware=list(middleware(terms, routes)),
        exception_handlers={
            HTTPException: unserved,
            **dict.fromkeys((Refused, LocalSpecError, Exception), failed),
            Gone: gone,
        },
        lifespan=lambda _: lifespan(host, preparing, lines),
    )
    app.state.host, app.state.preparing = host, preparing
    return app


@asynccontextmanager
async def lifespan(
    host: ModelHost, preparing: Preparing, lines: RecentLines
) -> AsyncIterator[None]:
    """Keep models tidy and the newest lines of the log while the server runs; close all then."""
    tidying = asyncio.create_task(host.tidy())
    log.addHandler(lines)
    try:
        yield
    finally:
        log.removeHandler(lines)
        tidying.cancel()
        with suppress(asyncio.CancelledError):
            await tidying
        await host.close()
        preparing.close()


def api_routes(handler: RequestHandler, store: ResponseStore) -> Iterator[BaseRoute]:
    """Yield the routes of every API; where two match, the first one answers."""
    for api in APIS:
        yield from api.routes(handler)
    yield from vectors(handler)
    yield from not_offered()  # before /v1/responses/{id}
    yield from responses(handler, store)


def middleware(terms: Terms, routes: Sequence[BaseRoute]) -> Iterator[Middleware]:
    """Yield what surrounds the routes, the outermost first."""
    yield Middleware(Absolute)
    if terms.prefix:
        yield Middleware(Prefix, prefix=terms.prefix, routes=routes)
    yield Middleware(RequestLog)
    yield Middleware(
        CORSMiddleware,
        allow_origins=terms.origins,
        allow_origin_regex=APP_ORIGINS,
        allow_methods=["*"],
        allow_headers=["*"],
        allow_private_network=True,  # of those that may ask at all: this machine is in one
    )
    yield Middleware(
        Guard,
        rules=terms.rules,
        error_body=partial(error_body, APIS),
        needs_no_key=is_for_page if terms.page else lambda _: False,
    )


def error_response(request: Request, fault: Fault) -> Response:
    body = error_body(APIS, request.url.path, fault)
    return JSONResponse(body, fault.status, dict(fault.headers))


async def unserved(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    is_gone, path = error.status_code == 404, request.url.path
    message = f"there is no {path} here" if is_gone else f"{path} does not take {request.method}"
    return error_response(request, Fault(error.status_code, message))


async def failed(request: Request, error: Exception) -> Response:
    return error_response(request, logged_fault(error))


async def gone(request: Request, error: Exception) -> Response:  # noqa: ARG001
    """Answer for the log; the client has left."""
    return Response(status_code=499)
