"""The application: routes of all APIs, and errors in the format of their API."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from functools import partial
from itertools import chain

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from localspec.apps.server.api import Api, error_body, offered_apis
from localspec.apps.server.batches.routes import batch_routes
from localspec.apps.server.batches.work import BatchWork
from localspec.apps.server.downloads import Downloads
from localspec.apps.server.faults import Fault, Refused
from localspec.apps.server.handler import RequestHandler
from localspec.apps.server.inspection.bench_run import BenchRun
from localspec.apps.server.inspection.routes import inspection
from localspec.apps.server.media_intake import MediaIntake
from localspec.apps.server.model_host import ModelHost
from localspec.apps.server.monitoring import request_log
from localspec.apps.server.monitoring.log_lines import RecentLines
from localspec.apps.server.monitoring.metrics import Metrics, Now, status
from localspec.apps.server.monitoring.request_log import Ignored, RequestLog
from localspec.apps.server.not_offered import not_offered
from localspec.apps.server.offers import Offers, ServedOffer
from localspec.apps.server.page.routes import is_for_page, page_routes
from localspec.apps.server.paths import Absolute, MeantRoutes, Prefix
from localspec.apps.server.preparing import Preparing
from localspec.apps.server.replies.exchange import Limit
from localspec.apps.server.replies.streaming import Gone, logged_fault
from localspec.apps.server.safety import APP_ORIGINS, Guard, Manager, owner_of
from localspec.apps.server.server_policy import ServerPolicy
from localspec.base.errors import LocalSpecError
from localspec.core.requests.job import Result

log = logging.getLogger("localspec.server")


def application(offers: Sequence[ServedOffer], policy: ServerPolicy) -> Starlette:
    metrics = Metrics()

    def note(model: str, result: Result) -> None:
        metrics.note(model, result)
        request_log.note(model, result)
        if policy.quotes:
            log.info("reply: %s", result.text)

    host = ModelHost(
        Offers({offer.name: offer for offer in offers}, strict=policy.strict),
        note,
        waiting=policy.waiting,
        idle_seconds=policy.idle_seconds,
    )
    metrics.registry.register(Now(host))
    preparing, lines = Preparing(), RecentLines()
    handler = RequestHandler(
        host,
        Limit(policy.reply_seconds),
        Manager(policy.manage, policy.origins),
        Downloads(host, policy.library),
        metrics,
        Ignored(metrics),
        preparing,
        MediaIntake(preparing, policy.media, policy.fetch),
        policy,
    )
    work = batch_work(host, policy)
    apis = dict(offered_apis(handler))
    routes = [
        *(page_routes() if policy.page else ()),  # before the greeting at / for Ollama's clients
        *chain.from_iterable(apis.values()),
        *batch_routes(handler, work),
        *not_offered(),
        *status(host, metrics),
        *inspection(handler, lines, BenchRun(host)),
    ]
    app = Starlette(
        routes=[MeantRoutes(routes), *routes],
        middleware=list(middleware(policy, list(apis), routes)),
        exception_handlers={
            HTTPException: unserved,
            **dict.fromkeys((Refused, LocalSpecError, Exception), failed),
            Gone: gone,
        },
        lifespan=partial(lifespan, host, preparing, lines, work),
    )
    app.state.host, app.state.preparing, app.state.apis = host, preparing, list(apis)
    return app


@asynccontextmanager
async def lifespan(
    host: ModelHost,
    preparing: Preparing,
    lines: RecentLines,
    work: BatchWork | None,
    app: Starlette,
) -> AsyncIterator[None]:
    """Keep models tidy, work on batches and keep the newest lines of the log; close all then."""
    tasks = [asyncio.create_task(host.tidy())]
    if work:
        tasks.append(asyncio.create_task(work.run(app)))
    log.addHandler(lines)
    try:
        yield
    finally:
        log.removeHandler(lines)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if work:
            work.close()
        await host.close()
        preparing.close()


def batch_work(host: ModelHost, policy: ServerPolicy) -> BatchWork | None:
    if policy.batch_dir is None:
        return None
    owners = {owner_of(key) for key in policy.rules.keys} or {""}
    return BatchWork(host, policy.batch_dir, policy.batch_bytes, owners)


def middleware(
    policy: ServerPolicy, apis: Sequence[Api], routes: Sequence[BaseRoute]
) -> Iterator[Middleware]:
    """Yield what surrounds the routes, the outermost first."""
    yield Middleware(Absolute)
    if policy.prefix:
        yield Middleware(Prefix, prefix=policy.prefix, routes=routes)
    yield Middleware(RequestLog)
    yield Middleware(
        CORSMiddleware,
        allow_origins=policy.origins,
        allow_origin_regex=APP_ORIGINS,
        allow_methods=["*"],
        allow_headers=["*"],
        allow_private_network=True,  # of those that may ask at all: this machine is in one
    )
    yield Middleware(
        Guard,
        rules=policy.rules,
        error_body=partial(error_body, apis),
        needs_no_key=is_for_page if policy.page else lambda _: False,
    )


def error_response(request: Request, fault: Fault) -> Response:
    body = error_body(request.app.state.apis, request.url.path, fault)
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
