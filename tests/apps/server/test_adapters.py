"""Adapters over HTTP: listed, scaled for all, chosen by a request or by the name of a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from localspec.apps.server.app import ServerPolicy
from localspec.interfaces.adapter import Adapter
from tests.apps.server.scripted import Server

POET, JUDGE = Path("adapters/poet.gguf"), Path("adapters/judge.gguf")
HI = {"role": "user", "content": "hi"}
BODIES = {
    "/v1/chat/completions": {"messages": [HI]},
    "/v1/completions": {"prompt": "hi"},
    "/v1/responses": {"input": "hi", "store": False},
    "/v1/messages": {"messages": [HI], "max_tokens": 9},
    "/completion": {"prompt": "hi", "n_predict": 9},
    "/infill": {"input_prefix": "hi"},
    "/api/chat": {"messages": [HI]},
    "/api/generate": {"prompt": "hi"},
}
TEXT = {path: body for path, body in BODIES.items() if path != "/infill"}


@pytest.fixture(scope="module")
def adapted() -> Iterator[Server]:
    made = Server(adapters=(Adapter(POET), Adapter(JUDGE, 0.0)))
    yield made
    made.close()


@pytest.fixture(autouse=True)
def unscaled(adapted):
    scales = [{"id": 0, "scale": 1.0}, {"id": 1, "scale": 0.0}]
    assert adapted.client.post("/lora-adapters", json=scales).json() == {"success": True}


def used(server, path, **fields):
    """Ask, and return the scales that the reply was computed with."""
    server.model.used.clear()
    if path.startswith("/api/") and "lora" in fields:
        fields = {"options": {"lora": fields.pop("lora")}} | fields
    reply = server.client.post(path, json={"model": "scripted"} | BODIES[path] | fields)
    assert reply.status_code == 200, reply.text
    assert "lora" not in reply.headers.get("x-localspec-ignored", "")
    [scales] = set(server.model.used)
    return scales


@pytest.mark.parametrize("path", TEXT)
@pytest.mark.parametrize("stream", [False, True])
def test_every_api_takes_scales_and_names_of_adapters(adapted, path, stream):
    fields = {"stream": stream}
    assert used(adapted, path, **fields) == ((0, 1.0),)
    assert used(adapted, path, lora=[], **fields) == ((0, 1.0),)
    assert used(adapted, path, lora=[{"id": 1, "scale": 0.5}], **fields) == ((1, 0.5),)
    both = [{"id": 1, "scale": 0.5}, {"id": 0, "scale": -1}]
    assert used(adapted, path, lora=both, **fields) == ((0, -1.0), (1, 0.5))
    assert used(adapted, path, lora=[{"id": 0, "scale": 0}], **fields) == ()
    assert used(adapted, path, model="scripted+judge", **fields) == ((1, 1.0),)
    assert used(adapted, path, model="scripted+poet:latest", **fields) == ((0, 1.0),)


def test_adapters_are_listed_with_the_scales_of_requests_that_name_none(adapted):
    listed = [{"id": 0, "path": str(POET), "scale": 1.0}, {"id": 1, "path": str(JUDGE), "scale": 0}]
    assert adapted.client.get("/lora-adapters").json() == listed
    scales = [{"id": 1, "scale": 0.25}]
    assert adapted.client.post("/lora-adapters", json=scales).json() == {"success": True}
    props = adapted.client.get("/props").json()["default_generation_settings"]["params"]
    for now in (adapted.client.get("/lora-adapters").json(), props["lora"]):
        assert [adapter["scale"] for adapter in now] == [0, 0.25]
    assert used(adapted, "/completion") == ((1, 0.25),)
    assert used(adapted, "/completion", lora=[{"id": 0, "scale": 2}]) == ((0, 2.0),)
    adapted.client.post("/lora-adapters", json=[])
    assert used(adapted, "/completion") == ()
    assert used(adapted, "/completion", model="scripted+poet") == ((0, 1.0),)


def test_scales_stay_set_when_the_model_is_unloaded(adapted):
    adapted.client.post("/lora-adapters", json=[{"id": 1, "scale": 0.75}])
    assert adapted.client.post("/models/unload", json={"model": "scripted"}).status_code == 200
    assert used(adapted, "/completion") == ((1, 0.75),)


def test_scales_that_change_do_not_touch_replies_under_way(adapted):
    used = adapted.model.used
    used.clear()
    body = {"prompt": "hi", "stream": True, "n_predict": 8000, "ignore_eos": True}
    with adapted.client.stream("POST", "/completion", json=body) as reply:
        lines = reply.iter_lines()
        next(lines)
        adapted.client.post("/lora-adapters", json=[])
        asked = adapted.client.post("/completion", json={"prompt": "ho", "n_predict": 8})
        assert asked.status_code == 200
        while used[-1] == ():
            next(lines)
    assert set(used) == {((0, 1.0),), ()}


def test_a_reply_tells_its_scales_as_llamacpp_does(adapted):
    body = BODIES["/completion"] | {"lora": [{"id": 1, "scale": 0.5}]}
    reply = adapted.client.post("/completion", json=body).json()
    assert reply["generation_settings"]["lora"] == [{"id": 1, "scale": 0.5}]


@pytest.mark.parametrize(
    ("lora", "message"),
    [
        ([{"id": 2, "scale": 1}], "lora: there is no adapter 2; adapters are 0 to 1"),
        ([{"id": -1, "scale": 1}], "no adapter -1"),
        ([{"id": 0}], "scale"),
        ([{"scale": 1}], "id"),
        ([{"id": 0, "scale": 1e9}], "scale"),
        ("poet", "lora"),
    ],
)
def test_scales_that_cannot_be_are_refused(adapted, lora, message):
    for path in ("/completion", "/v1/chat/completions", "/v1/messages"):
        reply = adapted.client.post(path, json=BODIES[path] | {"lora": lora})
        assert (reply.status_code, message in reply.text) == (400, True), reply.text
    if isinstance(lora, list):
        reply = adapted.client.post("/lora-adapters", json=lora)
        assert (reply.status_code, message in reply.text) == (400, True), reply.text


def test_models_are_listed_with_each_of_their_adapters(adapted):
    names = ["scripted", "scripted+poet", "scripted+judge"]
    data = adapted.client.get("/v1/models").json()["data"]
    assert [model["id"] for model in data] == names
    tags = adapted.client.get("/api/tags").json()["models"]
    assert [model["name"] for model in tags] == [f"{name}:latest" for name in names]
    answer = adapted.client.get("/v1/models/scripted+poet").json()
    assert answer["id"] == "scripted+poet"


def test_without_adapters_none_is_listed_or_scaled(server):
    assert server.client.get("/lora-adapters").json() == []
    assert server.client.post("/lora-adapters", json=[]).json() == {"success": True}
    scales = [{"id": 0, "scale": 0.5}]
    asked = {"/lora-adapters": scales, "/completion": {"prompt": "a", "lora": scales}}
    for path, body in asked.items():
        reply = server.client.post(path, json=body)
        assert (reply.status_code, "--adapter FILE" in reply.text) == (400, True)
    off = {"prompt": "a", "lora": [{"id": 0, "scale": 0}]}
    assert server.client.post("/completion", json=off).status_code == 200


def test_only_who_may_manage_models_scales_them_for_all():
    made = Server(policy=ServerPolicy(manage=False), adapters=(Adapter(POET),))
    try:
        assert made.client.post("/lora-adapters", json=[]).status_code == 403
        assert used(made, "/completion", lora=[{"id": 0, "scale": 0.5}]) == ((0, 0.5),)
    finally:
        made.close()
