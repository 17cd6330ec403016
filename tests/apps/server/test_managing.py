"""Models that clients list, load and unload, in the words of llama.cpp's server."""

from __future__ import annotations

import json
import threading
from contextlib import contextmanager
from dataclasses import replace

import pytest

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.offers import Offers
from localspec.apps.server.safety import Rules
from localspec.base.errors import ModelFileError
from tests.apps.server.scripted import Server
from tests.apps.server.test_load import until

LONG = {"messages": [{"role": "user", "content": "word " * 100}], "stream": True}


@pytest.fixture(scope="module")
def shared():
    made = Server()
    yield made
    made.close()


@pytest.fixture
def fresh(shared):
    """With nothing loaded, as after a start."""
    shared.model.pause = 0.0
    shared.client.post("/models/unload", json={"model": "scripted"})
    until(lambda: state(shared) == "unloaded")
    shared.unloads.clear()
    return shared


def state(server):
    [body] = server.client.get("/models").json()["data"]
    return body["status"]["value"]


def test_a_model_is_listed_with_its_state(fresh):
    for path in ("/models", "/v1/models"):
        [body] = fresh.client.get(path).json()["data"]
        assert body["id"] == "scripted"
        assert body["status"] == {"value": "unloaded", "args": []}
        assert body["meta"]["n_ctx"] == 8192
    fresh.ask("here")
    assert state(fresh) == "loaded"


def test_looking_at_a_model_does_not_load_it(fresh):
    props = fresh.client.get("/props").json()
    assert props["is_sleeping"]
    assert "<|im_start|>" in props["chat_template"]
    assert not any(slot["is_processing"] for slot in fresh.client.get("/slots").json())
    assert state(fresh) == "unloaded"
    fresh.ask("here")
    assert fresh.client.get("/props").json() == props | {"is_sleeping": False}


def test_a_model_is_loaded_and_unloaded_when_a_client_says_so(fresh):
    for path, ends in (("/models/load", "loaded"), ("/models/unload", "unloaded")):
        for _ in range(2):  # what is so already is no error
            assert fresh.client.post(path, json={"model": "scripted"}).json()["success"]
            until(lambda ends=ends: state(fresh) == ends)
    until(lambda: fresh.unloads)  # the model is closed last
    assert len(fresh.unloads) == 1
    assert fresh.ask("here") == "You said: here"
    assert state(fresh) == "loaded"


def test_a_model_is_unloaded_once_its_requests_have_ended(fresh):
    fresh.model.pause = 0.1
    with fresh.client.stream("POST", "/v1/chat/completions", json=LONG) as stream:
        lines = stream.iter_lines()
        next(lines)
        body = fresh.client.post("/models/unload", json={"model": "scripted"}).json()
        assert body == {"success": True, "requests": 1}
        fresh.model.pause = 0.0
        *_, last, done = (line for line in lines if line)
        assert '"finish_reason": "stop"' in last
        assert done == "data: [DONE]"
    until(lambda: fresh.unloads)  # the model is closed last
    assert state(fresh) == "unloaded"


def test_a_model_may_be_unloaded_while_it_is_loaded(fresh):
    fresh.client.post("/models/load", json={"model": "scripted"})
    fresh.client.post("/models/unload", json={"model": "scripted"})
    assert state(fresh) == "unloaded"
    until(lambda: fresh.unloads)
    assert len(fresh.unloads) == 1


def test_a_request_keeps_a_model_that_was_about_to_leave(fresh):
    fresh.model.pause = 0.1
    with fresh.client.stream("POST", "/v1/chat/completions", json=LONG) as stream:
        lines = stream.iter_lines()  # which is closed with what it reads when it goes
        next(lines)
        body = fresh.client.post("/models/unload", json={"model": "scripted"}).json()
        assert body["requests"] == 1
        fresh.model.pause = 0.0
        fresh.ask("here")
    until(lambda: fresh.idle)
    assert state(fresh) == "loaded"


def test_listeners_hear_what_becomes_of_a_model(fresh):
    states = []

    def listen():
        with fresh.client.stream("GET", "/models/sse") as stream:
            for line in stream.iter_lines():
                if line.startswith("data: "):
                    states.append(json.loads(line[6:]))
                if len(states) == 3:
                    return

    listening = threading.Thread(target=listen)
    listening.start()
    until(lambda: len(fresh.app.state.host.events._queues))
    fresh.client.post("/models/load", json={"model": "scripted"})
    until(lambda: state(fresh) == "loaded")
    fresh.client.post("/models/unload", json={"model": "scripted"})
    listening.join()
    assert {(each["model"], each["event"]) for each in states} == {("scripted", "model_status")}
    assert [each["data"]["status"] for each in states] == ["loading", "loaded", "unloaded"]
    until(lambda: not len(fresh.app.state.host.events._queues))


def test_a_server_that_ends_waits_for_no_listener():
    server, ended = Server(), []
    server.uvicorn.config.timeout_graceful_shutdown = 60

    def listen():
        with server.client.stream("GET", "/models/sse") as stream:
            ended.append(list(stream.iter_lines()))

    listening = threading.Thread(target=listen)
    listening.start()
    until(lambda: len(server.app.state.host.events._queues))
    server.uvicorn.should_exit = True
    listening.join()
    assert ended
    server.close()


def test_a_model_that_cannot_be_loaded_says_so_in_the_list(fresh, monkeypatch):
    offer = fresh.app.state.host.offers["scripted"]
    monkeypatch.setattr(fresh.app.state.host, "offers", Offers({"broken": broken(offer)}))
    fresh.client.post("/models/load", json={"model": "broken"})
    until(lambda: "failed" in fresh.client.get("/models").json()["data"][0]["status"])
    [body] = fresh.client.get("/models").json()["data"]
    assert body["status"] == {"value": "unloaded", "args": [], "failed": True, "exit_code": 1}


def broken(offer):
    def load(tell):
        raise RuntimeError("no such file")

    @contextmanager
    def vocabulary():
        raise ModelFileError("no such file")
        yield

    return replace(offer, name="broken", load=load, vocabulary=vocabulary)


@pytest.mark.parametrize("path", ["/models", "/props", "/slots", "/v1/models", "/api/tags"])
def test_a_file_that_is_gone_keeps_no_other_model_out_of_a_list(fresh, monkeypatch, path):
    offers = fresh.app.state.host.offers
    gone = Offers({"broken": broken(offers["scripted"])})
    monkeypatch.setattr(fresh.app.state.host, "offers", gone)
    assert fresh.client.get(path).status_code == 200


@pytest.mark.parametrize("path", ["/models/load", "/models/unload"])
def test_a_name_that_is_not_here_is_told(fresh, path):
    answer = fresh.client.post(path, json={"model": "other"})
    assert answer.status_code == 404
    assert answer.json()["error"]["code"] == "model_not_found"
    assert fresh.client.post(path, json={"model": 1}).json()["error"]["code"] == 400


NAMED = {"model": "scripted"}
MANAGING = [
    ("/models/load", NAMED),
    ("/models/unload", NAMED),
]
WRITING = [
    ("/models", NAMED),
    ("/api/pull", NAMED),
    ("/api/copy", {"source": "scripted", "destination": "other"}),
    ("/api/generate", NAMED | {"keep_alive": 0}),
]


@pytest.mark.parametrize(("path", "body"), MANAGING)
def test_a_page_of_another_site_manages_nothing(fresh, path, body):
    for origin, status in (
        ("https://other.example", 403),
        ("null", 403),
        (fresh.address, 200),
    ):
        headers = {"origin": origin}
        assert fresh.client.post(path, json=body, headers=headers).status_code == status


@pytest.fixture(scope="module")
def closed():
    made = Server(policy=ServerPolicy(Rules(keys=("a-key",)), manage=False))
    yield made
    made.close()


def test_a_page_of_another_site_deletes_nothing(fresh):
    headers = {"origin": "https://other.example"}
    for path in ("/models?model=scripted", "/api/delete"):
        assert fresh.client.request("DELETE", path, json=NAMED, headers=headers).status_code == 403


@pytest.mark.parametrize(("path", "body"), MANAGING + WRITING)
def test_a_server_may_let_nobody_manage_it(closed, path, body):
    assert closed.client.post(path, json=body).status_code == 401
    answer = closed.client.post(path, json=body, headers={"x-api-key": "a-key"})
    assert answer.status_code == 403
    assert "--manage" in answer.text


def test_health_is_told_under_both_names(closed):
    for path in ("/health", "/v1/health"):
        assert closed.client.get(path).json()["status"] == "ok"


def test_figures_are_told_by_the_names_of_llama_cpp(fresh):
    before = figures(fresh)
    fresh.ask("here")
    changes = {name: count - before[name] for name, count in figures(fresh).items()}
    assert changes["llamacpp:tokens_predicted_total"] == len("You said: here") + 1
    assert changes["llamacpp:prompt_tokens_total"] > 20
    assert changes["llamacpp:tokens_predicted_seconds_total"] > 0
    assert changes["llamacpp:n_decode_total"] > 1
    assert changes["llamacpp:requests_processing"] == changes["llamacpp:requests_deferred"] == 0


def figures(server):
    lines = server.client.get("/metrics").text.splitlines()
    samples = [line.rsplit(" ", 1) for line in lines if line.startswith("llamacpp:")]
    return {name: float(count) for name, count in samples}
