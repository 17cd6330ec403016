"""Models that clients download, copy and delete."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path

import httpx
import ollama
import pytest

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.model_library import Download, PulledLibrary, pullable
from localspec.base.errors import PullError, UnknownModel, UsageError
from localspec.running.models import store
from localspec.running.models.stored_pair import File, PulledPair, StoredModel
from tests.apps.server.library import ScriptedLibrary
from tests.apps.server.scripted import Server
from tests.apps.server.test_load import until


@pytest.fixture(scope="module")
def shared():
    library = ScriptedLibrary({"small": 1000, "slow": 1000, "broken": 1000, "event": 1000})
    made = Server(policy=ServerPolicy(library=library))
    yield made, library
    made.close()


@pytest.fixture
def library(shared):
    """With nothing downloaded yet."""
    server, library = shared
    for name in list(library.here):
        assert server.client.delete("/models", params={"model": name}).is_success
    library.piece_seconds = 0.0
    library.stopped.clear()
    return library


@pytest.fixture
def server(shared, library):
    return shared[0]


@pytest.fixture
def client(server):
    with ollama.Client(host=server.address) as made:
        yield made


def names(client):
    return [each.model for each in client.list().models]


def test_a_model_is_downloaded_and_served(client, library):
    library.piece_seconds = 0.1
    listed = list(client.pull("small:latest", stream=True))
    assert listed[0].status == "pulling manifest"
    assert [look.status for look in listed[-2:]] == ["writing manifest", "success"]
    counted = [look for look in listed if look.completed]
    assert {(look.total, look.status) for look in counted} == {(1000, "pulling small")}
    done = [look.completed for look in counted]
    assert done == sorted(done)
    assert counted[0].digest.startswith("sha256:")
    assert names(client) == ["scripted:latest", "small:latest"]
    assert client.generate("small", "abc", options={"num_predict": 3}).eval_count == 3
    assert client.show("small").capabilities == ["completion"]


def test_an_answer_may_come_whole(client):
    assert client.pull("small").status == "success"
    for name, why, status in (("broken", "another one", 502), ("other", "no model 'other'", 404)):
        with pytest.raises(ollama.ResponseError, match=why) as told:
            client.pull(name)
        assert told.value.status_code == status
        with pytest.raises(ollama.ResponseError, match=why):
            list(client.pull(name, stream=True))


def test_a_client_that_goes_away_stops_its_download(server, library):
    library.piece_seconds = 0.05
    with server.client.stream("POST", "/api/pull", json={"model": "slow"}) as stream:
        next(stream.iter_lines())
    until(lambda: library.stopped == ["slow"])
    assert not library.here
    with pytest.raises(httpx.ReadTimeout):
        server.client.post("/api/pull", json={"model": "slow", "stream": False}, timeout=0.1)
    until(lambda: library.stopped == ["slow"] * 2)


def test_few_downloads_run_at_once(server, library):
    library.piece_seconds = 0.05
    for status in (200, 200, 503):
        answer = server.client.post("/models", json={"model": "slow"})
        assert answer.status_code == status
    assert server.client.post("/models/unload", json={"model": "slow"}).json()["success"]
    until(lambda: library.stopped == ["slow"] * 2)


def test_a_model_is_copied_and_deleted(client, library):
    client.pull("small")
    client.copy("small", "tiny")
    assert names(client) == ["scripted:latest", "small:latest", "tiny:latest"]
    client.generate("tiny", "abc", options={"num_predict": 3})
    for name in ("small", "tiny"):
        client.delete(name)
    assert names(client) == ["scripted:latest"]
    assert not client.ps().models
    for lost in (
        lambda: client.delete("small"),
        lambda: client.copy("small", "tiny"),
        lambda: client.delete("scripted"),  # a file of the user's own
    ):
        with pytest.raises(ollama.ResponseError, match="was not pulled") as told:
            lost()
        assert told.value.status_code == 404
    client.pull("small")
    with pytest.raises(ollama.ResponseError, match="is no name"):
        client.copy("small", "../small")


@pytest.mark.parametrize("name", ["small", "event"])  # the second is a word of the listeners' too
def test_listeners_hear_of_a_download(server, library, name):
    states = []
    with server.client.stream("GET", "/models/sse") as stream:
        lines = stream.iter_lines()
        server.client.post("/models", json={"model": name})
        for line in lines:
            if line.startswith("data: "):
                states.append(json.loads(line[6:]))
            if states and states[-1]["event"] == "download_finished":
                break
    far = [each["data"] for each in states if each["event"] == "download_progress"]
    assert far[-1] == {name: {"done": 1000, "total": 1000}}
    assert [each["event"] for each in states if each["model"] == "*"] == ["models_reload"]
    assert server.client.delete("/models", params={"model": name}).json() == {"success": True}
    assert not library.here


def test_a_model_that_was_pulled_before_is_served_when_it_is_loaded(server, library):
    library.here.append("small")
    assert server.client.post("/models/load", json={"model": "small"}).json()["success"]
    until(lambda: "small" in server.client.get("/health").json()["loaded"])
    assert server.client.post("/models/load", json={"model": "other"}).status_code == 404


@pytest.mark.parametrize(
    ("asked", "wanted"),
    [
        ("qwen3-8b:latest", "qwen3-8b"),
        ("qwen3-8b:Q4_K_M", "qwen3-8b:Q4_K_M"),
        ("hf.co/a/b-GGUF:Q4_K_M", "hf:a/b-GGUF:*Q4_K_M*"),
        ("huggingface.co/a/b", "hf:a/b"),
        ("hf:a/b@main:c/d.gguf", "hf:a/b@main:c/d.gguf"),
    ],
)
def test_names_are_taken_as_ollama_writes_them(asked, wanted):
    assert pullable(asked) == wanted


@pytest.mark.parametrize(
    "asked",
    [
        *("/etc/passwd", "../model.gguf", "~/x", "C:\\x", "a b", "", "x" * 100, "file:///x"),
        *("https://10.0.0.1/a#sha256=" + "0" * 64, "package:os/x", "hf:a/b\n", "größe"),
    ],
)
def test_paths_and_addresses_are_not_for_clients(asked):
    with pytest.raises(UsageError, match="no name of the catalogue"):
        pullable(asked)


@pytest.mark.parametrize("name", ["../../etc/passwd", "file:///etc/passwd", "a/b", "A B"])
def test_a_name_that_can_never_be_downloaded_is_refused(server, name):
    for path in ("/api/pull", "/models"):
        answer = server.client.post(path, json={"model": name})
        assert (answer.status_code, "is no name of the catalogue" in answer.text) == (400, True)


def kept(tmp_path: Path, name: str) -> Path:
    path = tmp_path / f"{name}.gguf"
    path.write_bytes(b"weights")
    file = File(path, 7, "", large=True)
    model = StoredModel("hf:a/b", path, (file,))
    store.keep(PulledPair(name, "Q8_0", "llamacpp", model))
    return path


def test_files_go_with_the_last_name_of_theirs(tmp_path):
    path = kept(tmp_path, "mine")
    library = PulledLibrary("auto", lambda name: name)
    library.copy("mine", "again:latest")
    assert [library.offer(name) for name in ("mine", "again:Q8_0")] == ["mine", "again:Q8_0"]
    library.delete("mine:latest")
    assert path.exists()
    library.delete("again")
    assert not path.exists()
    for lost in (library.delete, library.offer):
        with pytest.raises(UnknownModel, match="was not pulled"):
            lost("mine")
    with pytest.raises(UnknownModel):
        library.offer("../../etc/passwd")


@pytest.mark.parametrize("name", ["../x", "a/b", "", "Ä", "smollm2-135m", "mine", "x" * 70])
def test_a_name_that_is_none_or_taken_is_refused(tmp_path, name):
    kept(tmp_path, "mine")
    with pytest.raises(UsageError):
        PulledLibrary("auto", lambda name: name).copy("mine", name)
    assert [each.name for each in store.everything()] == ["mine"]


def test_a_download_that_was_stopped_counts_no_more():
    download = Download()
    download.count(5)
    download.stop()
    with pytest.raises(PullError, match="kept for another time"):
        download.count(5)
    assert download.done == 5


def test_a_model_of_the_starter_package_is_pulled(tmp_path):
    """Through the whole of it, as `localspec pull` does; its file is here already."""
    download = Download()
    offers = []
    library = PulledLibrary("auto", lambda name: offers.append(name) or name)
    assert library.pull("smollm2-135m:latest", download) == "smollm2-135m"
    assert library.offer("smollm2-135m") == "smollm2-135m"
    assert dataclasses.is_dataclass(store.find("smollm2-135m")[0])
