"""Slots that clients save, restore and erase, in the words of llama.cpp's server."""

from __future__ import annotations

import pytest

from localspec.apps.server.app import ServerPolicy
from tests.apps.server.scripted import Server
from tests.apps.server.test_load import busy, until

TEXT = "a text that is long enough to be worth keeping " * 3


@pytest.fixture(scope="module")
def shared(tmp_path_factory):
    made = Server(cache=tmp_path_factory.mktemp("cache"))
    yield made
    made.close()


@pytest.fixture
def server(shared):
    """With nothing in its slots."""
    shared.model.pause = 0.0
    for slot in range(shared.slots):
        assert act(shared, "erase", slot).is_success
    return shared


def act(server, action, slot=0, **body):
    return server.client.post(f"/slots/{slot}", params={"action": action}, json=body)


def held(server):
    """Count how much of its text a request finds in a slot."""
    body = {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 1}
    answer = server.client.post("/v1/chat/completions", json=body).json()
    return answer["usage"]["prompt_tokens_details"]["cached_tokens"]


def test_a_slot_is_saved_erased_and_restored(server):
    assert held(server) == 0
    slots = range(server.slots)
    saved = [act(server, "save", slot, filename="one.bin") for slot in slots]
    [slot] = [slot for slot in slots if saved[slot].status_code == 200]
    body = saved[slot].json()
    assert (body["id_slot"], body["filename"]) == (slot, "one.bin")
    assert body["n_saved"] > len(TEXT)
    assert body["n_written"] > 4 * body["n_saved"]
    assert body["timings"]["save_ms"] > 0
    assert act(server, "erase", slot).json() == {"id_slot": slot, "n_erased": body["n_saved"]}
    assert held(server) == 0
    for each in slots:
        act(server, "erase", each)
    other = act(server, "restore", 3, filename="one.bin").json()
    assert (other["id_slot"], other["n_restored"]) == (3, body["n_saved"])
    assert held(server) > len(TEXT)


def test_a_slot_outlives_a_restart(server):
    held(server)
    names = [f"{slot}" for slot in range(server.slots)]
    for slot, name in enumerate(names):
        act(server, "save", slot, filename=name)
    server.client.post("/models/unload", json={"model": "scripted"})
    server.model.held.clear()
    results = [act(server, "restore", slot, filename=name) for slot, name in enumerate(names)]
    assert [answer.status_code for answer in results].count(200) == 1
    assert held(server) > len(TEXT)


@pytest.mark.parametrize(
    ("action", "slot", "name", "why"),
    [
        ("save", 0, "../x", "no name of a file"),
        ("restore", 0, "/etc/passwd", "no name of a file"),
        ("restore", 0, "none", "there is no none"),
        ("save", 99, "x", "there is no slot 99; slots are 0 to 7"),
        ("erase", -1, "", "there is no slot -1"),
        ("save", 0, "x", "holds nothing to save"),
        ("burn", 0, "x", "action"),
        ("save", "x", "x", "id"),
        ("save", 1 << 70, "x", "there is no slot"),
    ],
)
def test_what_makes_no_sense_is_refused(server, action, slot, name, why):
    answer = act(server, action, slot, filename=name)
    assert answer.status_code == 400
    assert why in answer.json()["error"]["message"]


def test_a_slot_with_a_request_is_left_alone(server):
    server.model.pause = 0.05
    body = {"messages": [{"role": "user", "content": TEXT}], "stream": True}
    with server.client.stream("POST", "/v1/chat/completions", json=body) as stream:
        lines = stream.iter_lines()
        next(lines)
        statuses = [act(server, "erase", slot).status_code for slot in range(server.slots)]
    assert sorted(statuses) == [200] * 7 + [503]
    until(lambda: not busy(server))


def test_without_a_folder_nothing_is_saved():
    server = Server(policy=ServerPolicy())
    try:
        for action in ("save", "restore", "erase"):
            answer = act(server, action, filename="x")
            assert answer.status_code == 501
            body = answer.json()["error"]
            assert (body["code"], body["type"]) == (501, "not_supported_error")
            assert "--cache-dir" in body["message"]
        headers = {"origin": "https://other.example"}
        assert server.client.post("/slots/0?action=erase", headers=headers).status_code == 403
    finally:
        server.close()
