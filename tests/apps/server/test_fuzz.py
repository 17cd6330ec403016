"""Requests from whoever wants to hurt: each is answered or refused, and the server lives on."""

from __future__ import annotations

import asyncio
import logging
import random
import re
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import hypothesis
import pytest
import schemathesis
from h11 import LocalProtocolError
from pydantic import BaseModel
from pydantic.json_schema import models_json_schema
from schemathesis import GenerationMode
from starlette.applications import Starlette
from starlette.routing import Route

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.requests.reading import with_body
from tests.apps.server import raw
from tests.apps.server.library import ScriptedLibrary
from tests.apps.server.mutation import mutated
from tests.apps.server.requests import REQUESTS
from tests.apps.server.scripted import Server
from tests.apps.server.test_clients import given
from tests.apps.server.test_load import busy, until
from tests.core.vectors.counting import Counting
from tests.core.vectors.offers import offer

BODIES, STREAMS = 4500, 500
SECONDS = 10.0  # that any request may take
AT_ONCE = 8
STATUS = re.compile(rb"HTTP/1\.1 (\d+)")
GIVEN = list(given())
CANCEL = "/v1/responses/{id}/cancel"  # which takes none
BUSY = (501, 503, 504)  # these say why, and are nobody's fault


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Small, so that what is let through by chance ends soon."""
    made = small(tmp_path_factory.mktemp("cache"))
    yield made
    made.close()


def small(cache: Path | None = None, **more: object) -> Server:
    library = ScriptedLibrary({"small": 1000})
    policy = ServerPolicy(reply_seconds=SECONDS / 2, library=library, **more)
    beside = [offer("embedder", Counting()), offer("ranker", Counting("rank"))]
    made = Server(policy=policy, cache=cache, beside=beside)
    made.model.context = 512
    return made


@pytest.fixture(autouse=True)
def _lives_on(attacked, caplog):
    caplog.set_level(logging.ERROR)
    yield
    until(lambda: busy(attacked) == 0)
    assert attacked.ask("here") == "You said: here"
    kinds = {record.exc_info[0] for record in caplog.get_records("call") if record.exc_info}
    # uvicorn may hang up on what follows a request before that one is answered.
    assert kinds <= {LocalProtocolError}


def fine(status: int, said: bytes) -> bool:
    """Tell whether it is an answer, or a refusal with its reason."""
    is_answer = status < 400 or b'"error"' in said
    return is_answer and (status < 500 or status in BUSY) and b"the server failed" not in said


async def asked(app, path: str, body: bytes, headers: dict[bytes, bytes]) -> tuple[int, bytes]:
    """Ask the application as its web server does."""
    scope = {
        "type": "http",
        "http_version": "1.1",
        "method": "POST",
        "scheme": "http",
        "path": path,
        "raw_path": path.encode(),
        "query_string": b"",
        "root_path": "",
        "headers": list(headers.items()),
        "client": ("127.0.0.1", 1),
        "server": None,
        "asgi": {"version": "3.0"},
        "state": {},
        "extensions": {},
    }
    messages = [{"type": "http.request", "body": body, "more_body": False}]
    status, said = 0, b""

    async def receive():
        return messages.pop() if messages else await asyncio.Event().wait()

    async def send(message):
        nonlocal status, said
        status = message.get("status", status)
        said += message.get("body", b"")

    await asyncio.wait_for(app(scope, receive, send), SECONDS)
    return status, said


def attack(rng: random.Random) -> tuple[str, bytes, dict[bytes, bytes]]:
    """Change a request as rich as its path takes it, or one as a client sends it."""
    path = rng.choice(list(REQUESTS))
    request = rng.choice(REQUESTS[path])
    if rng.random() < 0.4:
        _, path, request = rng.choice(GIVEN)
    body = mutated(rng, request)
    kind = b"application/json"
    if rng.random() < 0.05:
        kind = rng.choice((b"", b"text/plain", b"multipart/form-data", b"application/x\xff"))
    return path, body, {b"host": b"localhost", b"content-type": kind}


async def attack_often(app, count: int, seed: int = 20) -> tuple[list[object], dict[int, int]]:
    """Return what was not fine, and how often each status came."""
    rng = random.Random(seed)
    wrong: list[object] = []
    statuses: dict[int, int] = {}
    attacks = (attack(rng) for _ in range(count))

    async def go_on() -> None:
        for path, body, headers in attacks:
            begun = time.monotonic()
            try:
                status, answer = await asked(app, path, body, headers)
            except Exception as error:
                status, answer = 0, repr(error).encode()
            statuses[status] = statuses.get(status, 0) + 1
            if not status or not fine(status, answer) or time.monotonic() - begun > SECONDS:
                wrong.append((path, body[:600], status, answer[:300]))

    await asyncio.gather(*(go_on() for _ in range(AT_ONCE)))
    return wrong, statuses


def bodies(app: Starlette) -> dict[str, type[BaseModel]]:
    """What is posted to each path that takes a body; of several paths for one thing, the first."""
    routes = [route for route in app.routes if isinstance(route, Route) and "POST" in route.methods]
    found: dict[object, tuple[str, type[BaseModel]]] = {}
    for route in routes:
        if isinstance(route.endpoint, partial) and route.endpoint.func is with_body:
            kind, endpoint, _ = route.endpoint.args
            found.setdefault(endpoint, (route.path, kind))
    return dict(found.values())


def description(kinds: dict[str, type[BaseModel]]) -> dict[str, object]:
    """Describe what is posted as OpenAPI does."""
    place = "#/components/schemas/{model}"
    pairs = [(kind, "validation") for kind in dict.fromkeys(kinds.values())]
    schemas, definitions = models_json_schema(pairs, ref_template=place)
    number = {"name": "id", "in": "path", "required": True, "schema": {"type": "integer"}}
    return {
        "openapi": "3.1.0",
        "info": {"title": "LocalSpec", "version": "1"},
        "components": {"schemas": definitions["$defs"]},
        "paths": {
            path: {
                "parameters": [number] if "{id}" in path else [],
                "post": {
                    "requestBody": {
                        "required": True,
                        "content": {"application/json": {"schema": schemas[kind, "validation"]}},
                    },
                    "responses": {"200": {"description": "an answer"}},
                },
            }
            for path, kind in kinds.items()
        },
    }


@pytest.mark.long
def test_no_body_makes_the_server_fail(attacked):
    going = attack_often(attacked.app, BODIES)
    wrong, statuses = asyncio.run_coroutine_threadsafe(going, attacked.loop).result()
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"
    assert statuses[200] > BODIES / 20, "attacks should reach what is behind the first check"
    assert statuses[400] > BODIES / 3


def test_no_body_makes_a_strict_server_fail():
    strict = small(strict=True)
    try:
        going = attack_often(strict.app, BODIES // 6, seed=22)
        wrong, statuses = asyncio.run_coroutine_threadsafe(going, strict.loop).result()
    finally:
        strict.close()
    assert not wrong, f"{len(wrong)}: {wrong[:5]}"
    assert statuses[400] > BODIES // 6 / 2


def test_no_stream_of_bytes_makes_the_server_fail(attacked):
    rng = random.Random(21)
    port = int(attacked.address.rpartition(":")[2])
    statuses: list[bytes] = []
    streams = list(raw.STREAMS)
    while len(streams) < STREAMS:
        streams.append(rng.choice(raw.CHANGES)(rng, rng.choice(raw.STREAMS)))
    with ThreadPoolExecutor(AT_ONCE) as pool:
        answers = list(pool.map(lambda stream: raw.answer(port, stream, SECONDS), streams))
    for stream, said in zip(streams, answers, strict=True):
        matches = STATUS.findall(said)
        assert all(fine(int(status), b'"error"') for status in matches), (stream[:300], said[:300])
        assert b"the server failed" not in said, stream[:300]
        statuses += matches
    assert {b"400", b"403", b"404", b"405", b"413"} <= set(statuses)


def test_every_path_that_takes_a_body_is_attacked(attacked):
    assert set(bodies(attacked.app)) == set(REQUESTS) - {CANCEL} | {"/models"}


@pytest.mark.parametrize("mode", GenerationMode, ids=str)
def test_nothing_that_the_description_suggests_makes_the_server_fail(attacked, mode):
    schema = schemathesis.openapi.from_dict(description(bodies(attacked.app)))
    schema.config.update(base_url=attacked.address)

    @hypothesis.settings(
        max_examples=25,
        deadline=None,
        derandomize=True,
        database=None,
        suppress_health_check=list(hypothesis.HealthCheck),
    )
    @hypothesis.given(case=schema.include(method="POST").as_strategy(mode))
    def ask(case):
        response = case.call(timeout=SECONDS)
        assert fine(response.status_code, response.content), response.content

    ask()
