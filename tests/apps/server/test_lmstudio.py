"""LM Studio's API, in the shapes that its clients read."""

from __future__ import annotations

import json

import pytest

from localspec.apps.server.app import Terms
from tests.apps.server.library import ScriptedLibrary
from tests.apps.server.scripted import TEMPLATE, Server
from tests.apps.server.test_load import until


@pytest.fixture(scope="module")
def fresh():
    made = Server()
    yield made
    made.close()


@pytest.fixture(scope="module")
def thinker():
    replies = {"why?": "<think>\nHm.\n</think>\n\nSo."}
    made = Server(replies, template="{# <think> </think> #}" + TEMPLATE)
    yield made
    made.close()


def test_models_are_listed_with_what_they_are(fresh):
    client = fresh.client
    for name, state in (("unload", "not-loaded"), ("load", "loaded")):
        body = {"model": "scripted", "instance_id": "scripted", "context_length": 4096}
        assert client.post(f"/api/v1/models/{name}", json=body).status_code == 200
        [model] = client.get("/api/v0/models").json()["data"]
        assert client.get("/api/v0/models/scripted").json() == model
        assert (model["id"], model["type"], model["state"]) == ("scripted", "llm", state)
        assert (model["arch"], model["compatibility_type"]) == ("llama", "gguf")
        assert model["max_context_length"] == 8192
        assert model["capabilities"] == ["tool_use"]
        [key] = client.get("/api/v1/models").json()["models"]
        assert key["key"] == "scripted"
        assert key["capabilities"] == {"vision": False, "trained_for_tool_use": True}
        loaded = [{"id": "scripted", "config": {"context_length": 8192}}]
        assert key["loaded_instances"] == (loaded if state == "loaded" else [])


def test_a_model_is_loaded_before_the_answer_comes(fresh):
    told = fresh.client.post("/api/v1/models/load", json={"model": "scripted"}).json()
    assert (told["instance_id"], told["status"]) == ("scripted", "loaded")
    assert told["config"] == {"context_length": 8192}
    assert told["load_time_seconds"] >= 0
    gone = fresh.client.post("/api/v1/models/unload", json={"instance_id": "scripted"})
    assert gone.json() == {"instance_id": "scripted"}
    until(lambda: fresh.client.get("/api/v0/models").json()["data"][0]["state"] == "not-loaded")


def test_conversations_are_answered_under_its_path(fresh):
    body = {"messages": [{"role": "user", "content": "here"}], "max_tokens": -1}
    answer = fresh.client.post("/api/v0/chat/completions", json=body).json()
    assert answer["choices"][0]["message"]["content"] == "You said: here"


CHAT = {"model": "scripted", "system_prompt": "Be brief.", "temperature": 0, "repeat_penalty": 1}


def test_a_text_is_answered_whole_and_streamed(thinker):
    given = {**CHAT, "input": [{"type": "message", "content": "why?"}], "reasoning": "on"}
    whole = thinker.client.post("/api/v1/chat", json=given).json()
    output = [{"type": "reasoning", "content": "Hm."}, {"type": "message", "content": "So."}]
    assert whole["output"] == output
    assert whole["model_instance_id"] == "scripted"
    assert whole["stats"]["reasoning_output_tokens"] == len("\nHm.\n")
    assert whole["stats"]["input_tokens"] > 0
    stream = thinker.client.post("/api/v1/chat", json={**given, "input": "why?", "stream": True})
    events = [json.loads(line[6:]) for line in stream.text.splitlines() if line[:5] == "data:"]
    kinds = [each["type"] for each in events if not each["type"].endswith(".delta")]
    around = ["chat.start", "prompt_processing.start", "prompt_processing.end"]
    parts = [f"{kind}.{end}" for kind in ("reasoning", "message") for end in ("start", "end")]
    assert kinds == [*around, *parts, "chat.end"]
    said = [each["content"] for each in events if each["type"] == "message.delta"]
    assert "".join(said) == "So."
    assert events[-1]["result"]["output"] == output


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"previous_response_id": "resp_1"}, "/v1/responses"),
        ({"input": [{"type": "image", "data_url": "data:,"}]}, "takes text only"),
        ({"temperature": -1}, "temperature"),
    ],
)
def test_what_cannot_be_answered_is_refused(fresh, more, said):
    answer = fresh.client.post("/api/v1/chat", json={**CHAT, "input": "a", **more})
    assert (answer.status_code, said in answer.text) == (400, True)


def test_what_changes_nothing_is_told(fresh):
    more = {"integrations": ["mcp/x"], "store": True, "context_length": 4096}
    answer = fresh.client.post("/api/v1/chat", json={**CHAT, "input": "a", **more})
    assert answer.headers["x-localspec-ignored"] == "integrations, store"
    assert answer.json()["output"] == [{"type": "message", "content": "You said: a"}]


@pytest.mark.parametrize("path", ["/api/v0/nothing", "/api/v1/nothing"])
def test_errors_are_in_the_words_of_openai(fresh, path):
    answer = fresh.client.get(path)
    assert answer.status_code == 404
    assert answer.json()["error"]["message"]


@pytest.fixture
def puller():
    library = ScriptedLibrary({"small": 1000, "broken": 10, "hf.co/a/b:Q8_0": 5}, 0.05)
    made = Server(terms=Terms(library=library))
    yield made
    made.close()


def ended(server, job):
    def told():
        return server.client.get(f"/api/v1/models/download/status/{job}").json()

    until(lambda: told()["status"] != "downloading")
    return told()


@pytest.mark.parametrize(
    ("body", "size"),
    [
        ({"model": "small"}, 1000),
        ({"model": "https://hf.co/a/b", "quantization": "Q8_0"}, 5),
    ],
)
def test_a_download_is_begun_and_asked_about(puller, body, size):
    begun = puller.client.post("/api/v1/models/download", json=body).json()
    assert begun["status"] == "downloading"
    told = ended(puller, begun["job_id"])
    assert told["status"] == "completed"
    assert told["downloaded_bytes"] == told["total_size_bytes"] == size
    assert told["completed_at"] >= told["started_at"]
    again = puller.client.post("/api/v1/models/download", json=body).json()
    assert again == {"status": "already_downloaded"}


@pytest.mark.parametrize("name", ["../../etc/passwd", "file:///etc/passwd", "a/b", "A B"])
def test_a_name_that_can_never_be_downloaded_is_refused(puller, name):
    for path in ("/api/v1/models/download", "/api/pull", "/models"):
        answer = puller.client.post(path, json={"model": name})
        assert (answer.status_code, "is no name of the catalogue" in answer.text) == (400, True)


def test_a_download_that_failed_says_why(puller):
    begun = puller.client.post("/api/v1/models/download", json={"model": "broken"}).json()
    told = ended(puller, begun["job_id"])
    assert (told["status"], told["error"]) == ("failed", "its sum is another one")
    missing = puller.client.get("/api/v1/models/download/status/job_x")
    assert missing.status_code == 404
