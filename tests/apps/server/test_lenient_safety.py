"""Leniency switches no safety off: keys, hosts, pages, sizes, counts, quotas, however they come."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from starlette.routing import Route

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.page.routes import BELOW
from localspec.apps.server.safety import KEYLESS_PATHS, Rules
from tests.apps.server.requests import REQUESTS
from tests.apps.server.scripted import Server
from tests.apps.server.test_load import until

CHAT, TEXT, GO_ON = "/v1/chat/completions", "/v1/completions", "/completion"
KEY, OTHER, EVIL = "first-key", "other-key", "evil.example"
NOWHERE = ("/docs", "/nowhere")
HERE = [{"role": "user", "content": "here"}]
# What a stranger may hope to be heeded, in a body and in the query.
HOPES = {
    "api_key": KEY,
    "api-key": KEY,
    "key": KEY,
    "insecure": True,
    "strict": False,
    "rules": {"keys": [], "hosts": ["*"]},
    "allow_host": "*",
    "allow_origin": "*",
    "manage": True,
    "body_limit": 1 << 40,
    "queue": 1 << 20,
    "time_limit": 1e9,
    "response_store": 1 << 30,
    "owner": "",
    "priority": 1 << 30,
    "timeout": 1e9,
}
HEADERS = {
    "x-forwarded-host": "localhost",
    "forwarded": "host=localhost;for=127.0.0.1",
    "x-forwarded-for": "127.0.0.1",
    "x-original-url": "/health",
    "x-rewrite-url": "/health",
    "x-http-method-override": "GET",
    "cookie": f"api_key={KEY}",
    "api-key": f"not {KEY}",
    "x-localspec-strict": "false",
}
NO_KEYS = [
    {"authorization": f"Basic {KEY}"},
    {"authorization": KEY},
    {"authorization": "Bearer"},
    {"authorization": "Bearer *"},
    {"authorization": f"Bearer {KEY.upper()}"},
    {"authorization": f"Bearer {KEY}, Bearer x"},
    {"authorization": "Bearer x", "x-api-key": KEY + "x"},
    {"x-api-key": ""},
]


@pytest.fixture(scope="module")
def guarded() -> Iterator[Server]:
    rules = Rules(keys=(KEY, OTHER), body_bytes=3000)
    policy = ServerPolicy(
        rules, prefix="/front", waiting=0, manage=False, responses=4, reply_seconds=3.0
    )
    made = Server(policy=policy, slots=2)
    made.model.context = 512
    yield made
    made.close()


@pytest.fixture(scope="module")
def paged() -> Iterator[Server]:
    """One whose models clients may manage, and no page of another site."""
    made = Server()
    yield made
    made.close()


def asked(server: Server, method: str, path: str, body: object = None, **headers: str):
    own = {"host": "localhost", "content-type": "application/json"} | headers
    sent = None if method == "GET" else json.dumps(body).encode()
    return server.client.request(method, f"{server.address}{path}", content=sent, headers=own)


def ways(server: Server) -> list[tuple[str, str]]:
    """Every path but the page's, with the methods it takes."""
    routes = [route for route in server.app.routes if isinstance(route, Route)]
    assert len(routes) > 60
    offered = [(method, route.path) for route in routes for method in route.methods - {"HEAD"}]
    offered += [(method, path) for path in NOWHERE for method in ("GET", "POST")]
    names = {"{name:path}": "x", "{id}": "0", "{kind}": "speech", "{digest}": "sha256:0"}
    for name, value in names.items():
        offered = [(method, path.replace(name, value)) for method, path in offered]
    return [(method, path) for method, path in offered if not is_keyless(path)]


def is_keyless(path: str) -> bool:
    return path in KEYLESS_PATHS or path.startswith(BELOW)


ONE_OF_EACH = (CHAT, "/v1/messages", "/api/chat", "/props", "/nowhere", "/")


def spelled(path: str) -> Iterator[str]:
    """The same path as clients write it, and as somebody who wants past the guard would."""
    if path not in ONE_OF_EACH:
        yield from (path, f"{path}/")
        return
    yield from (path, f"{path}/", path.removeprefix("/v1"), f"/v1{path}", f"/api{path}")
    yield from (
        f"/front{path}",
        f"/front/front{path}",
        f"/{path}",
        f"/health/..{path}",
        f"{path}/health",
    )
    yield from (f"/health{path}", f"{path}%2f..%2fhealth", path.upper(), f"{path};/health")
    yield f"{path}?{'&'.join(f'{name}={value}' for name, value in HOPES.items())}"


def test_no_path_is_open_to_those_without_a_key(guarded):
    for method, path in ways(guarded):
        body = {**dict(next(iter(REQUESTS.get(path, [{}])))), **HOPES}
        for each in spelled(path):
            answer = asked(guarded, method, each, body, **HEADERS)
            assert answer.status_code == 401, (method, each, answer.text)
    assert asked(guarded, "GET", "/front/v1/models", authorization=f"bearer {KEY}").is_success


@pytest.mark.parametrize("headers", NO_KEYS, ids=str)
@pytest.mark.parametrize("path", ONE_OF_EACH)
def test_nothing_else_is_taken_for_a_key(guarded, headers, path):
    for each in (path, f"{path}?api_key={KEY}"):
        assert asked(guarded, "POST", each, HOPES, **HEADERS, **headers).status_code == 401


STRANGE = (EVIL, f"{EVIL}:80", "", "127.1", "0x7f.0.0.1", "[evil]", "*", "internal", "localhost.")
BEFORE = ("localhost", "127.0.0.1", "a.internal", "a.localhost")  # evil names may begin so


def test_no_path_answers_by_the_name_of_a_page(guarded):
    headers = HEADERS | {"host": EVIL, "x-api-key": KEY}
    for method, path in ways(guarded):
        for each in spelled(path):
            answer = asked(guarded, method, each, HOPES, **headers)
            assert answer.status_code == 403, (method, each, answer.text)


@pytest.mark.parametrize("host", [*STRANGE, *(f"{name}.{EVIL}" for name in BEFORE)])
def test_no_name_that_looks_like_one_of_this_machine_is_taken_for_it(guarded, host):
    headers = HEADERS | {"host": host, "x-api-key": KEY}
    for path in ONE_OF_EACH:
        assert asked(guarded, "POST", path, HOPES, **headers).status_code == 403


@pytest.mark.parametrize(
    "host",
    ["192.168.1.7:8080", "[fe80::1]", "host.docker.internal:8080", "app.localhost", "[::1]:1"],
)
def test_an_address_and_a_name_that_nobody_can_register_are_answered(guarded, host):
    assert asked(guarded, "GET", "/v1/models", host=host, **{"x-api-key": KEY}).is_success


MANAGED: list[tuple[str, str, dict[str, object]]] = [
    ("POST", "/api/generate", {"model": "scripted", "keep_alive": 0}),
    ("POST", "/api/generate", {"model": "any", "keep_alive": "0s", "prompt": ""}),
    ("POST", "/api/chat", {"model": "scripted", "keep_alive": 0.0, "messages": []}),
    ("POST", "/api/chat", {"model": "scripted", "keep_alive": "0m", "messages": None}),
    ("POST", "/api/embed", {"model": "embedder", "keep_alive": 0}),
    ("POST", "/models/unload", {"model": "scripted"}),
    ("POST", "/models/load", {"model": "scripted"}),
    ("POST", "/models", {"model": "small"}),
    ("DELETE", "/models?model=scripted", {}),
    ("POST", "/api/pull", {"model": "small", "insecure": True}),
    ("POST", "/api/copy", {"source": "scripted", "destination": "x"}),
    ("DELETE", "/api/delete", {"model": "scripted"}),
    ("POST", "/slots/0?action=erase", {}),
]


@pytest.mark.parametrize(("method", "path", "body"), MANAGED)
def test_models_are_managed_by_no_page_and_where_that_is_off_by_no_client(
    paged, guarded, method, path, body
):
    paged.ask("here")
    path, _, query = path.partition("?")
    for origin in (f"http://{EVIL}", "null", "http://localhost:3000", f"http://[{EVIL}"):
        for each in (path, f"{path}/", f"/v1{path}"):
            headers = HEADERS | {"origin": origin}
            answer = asked(paged, method, f"{each}?{query}", {**body, **HOPES}, **headers)
            assert answer.status_code == 403, (each, origin, answer.text)
    assert paged.unloads == []
    guarded.client.post("/v1/completions", json={"prompt": "a"}, headers={"x-api-key": KEY})
    answer = asked(guarded, method, f"{path}?{query}", body, **{"x-api-key": KEY})
    assert answer.status_code == 403, answer.text
    assert guarded.unloads == []


def test_programs_of_this_machine_may_ask_and_manage(paged):
    fields = {"access-control-request-method": "POST", "origin": "app://obsidian.md"}
    assert asked(paged, "OPTIONS", "/api/chat", **fields).is_success
    answer = asked(paged, "POST", "/models/load", {"model": "scripted"}, origin=fields["origin"])
    assert answer.headers["access-control-allow-origin"] == fields["origin"]
    assert answer.json()["success"]
    for origin in (
        f"https://tauri.localhost.{EVIL}",
        "http://localhost:3000",
        f"https://app.{EVIL}",
    ):
        answer = asked(paged, "GET", "/v1/models", origin=origin)
        assert "access-control-allow-origin" not in answer.headers


@pytest.mark.parametrize("path", [path for path in REQUESTS if not path.endswith("/cancel")])
def test_no_request_is_larger_than_allowed_whatever_it_says_of_itself(guarded, path):
    body = json.dumps({**HOPES, "padding": "x" * 3000}).encode()
    path = path.replace("{id}", "0")
    for each in (path, f"{path}/", f"/front{path}"):
        for headers in ({"transfer-encoding": "chunked"}, {"x-content-length": "1"}):
            pieces = (body[at : at + 500] for at in range(0, len(body), 500))
            sent = pieces if "transfer-encoding" in headers else body
            own = {"x-api-key": KEY, "host": "localhost", **headers}
            answer = guarded.client.post(each, content=sent, headers=own)
            assert answer.status_code == 413, (each, headers, answer.text)


@pytest.mark.parametrize(
    ("path", "body"),
    [
        (CHAT, '{"messages": %s, "n": 1, "n": 99}'),
        (CHAT, '{"messages": %s, "n": "99"}'),
        (CHAT, '{"messages": %s, "n": 99.0, "N": 1}'),
        (TEXT, '{"prompt": "a", "n": 99, "best_of": 1}'),
        (TEXT, '{"prompt": ["a", "b", "c"], "n": 9}'),
        (GO_ON, '{"prompt": "a", "n_cmpl": 99}'),
        (GO_ON, '{"prompt": ["a", "b", "c"], "n": 9, "n_cmpl": 1}'),
        (GO_ON, '{"prompt": "a", "n_probs": 100000}'),
        (CHAT, '{"messages": %s, "logprobs": true, "top_logprobs": 100000}'),
        (CHAT, '{"messages": %s, "localspec": {"depth": 100000}}'),
    ],
)
def test_counts_that_cost_are_bounded_also_by_keys_that_come_twice(guarded, path, body):
    sent = body.replace("%s", json.dumps(HERE)).encode()
    own = {"x-api-key": KEY, "host": "localhost"}
    answer = guarded.client.post(path, content=sent, headers=own)
    assert answer.status_code == 400, answer.text


@pytest.mark.parametrize("more", [{}, HOPES, {"t_max_predict_ms": -1, "ttl": -1}], ids=str)
def test_a_reply_ends_by_its_context_and_by_the_clock(guarded, more):
    own = {"x-api-key": KEY}
    endless = {"prompt": "a", "n_predict": 1 << 40, "ignore_eos": True, **more}
    ended = guarded.client.post(GO_ON, json=endless, headers=own).json()
    assert ended["tokens_evaluated"] + ended["tokens_predicted"] <= 512
    guarded.model.pause = 0.05
    try:
        answer = guarded.client.post(
            GO_ON, json={**endless, "localspec": {"plain": True}}, headers=own
        )
    finally:
        guarded.model.pause = 0.0
    assert answer.status_code == 504


def test_no_wish_gets_past_the_queue(guarded):
    own = {"x-api-key": KEY, **HEADERS}
    answer = guarded.client.post(TEXT, json={"prompt": ["a", "b", "c"], **HOPES}, headers=own)
    assert answer.status_code == 503
    until(lambda: guarded.client.get("/health").json()["busy"] == 0)


def test_what_is_kept_is_bounded_and_for_its_own_key(guarded):
    def respond(key, **more):
        body = {"input": "here", "max_output_tokens": 3, **more}
        return guarded.client.post("/v1/responses", json=body, headers={"x-api-key": key})

    hopes = {name: value for name, value in HOPES.items() if name != "key"}
    first = respond(KEY, **hopes).json()["id"]
    for way in ("", "/input_items"):
        for path in (
            f"/v1/responses/{first}{way}",
            f"/responses/{first}{way}/",
            f"/front/v1/responses/{first}{way}",
        ):
            answer = asked(guarded, "GET", f"{path}?user={KEY}&owner=", **{"x-api-key": OTHER})
            assert answer.status_code == 404, path
    stolen = respond(OTHER, previous_response_id=first, user=KEY, metadata={"owner": KEY})
    assert stolen.json()["error"]["code"] == "previous_response_not_found"
    assert asked(guarded, "DELETE", f"/v1/responses/{first}", **{"x-api-key": OTHER}).is_error
    assert respond(KEY, previous_response_id=first).is_success
    for _ in range(4):
        respond(KEY, **hopes)
    gone = respond(KEY, previous_response_id=first)
    assert gone.json()["error"]["code"] == "previous_response_not_found"
