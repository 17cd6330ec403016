"""A worker that is killed, at any point, ends requests with an error, and nothing else."""

from __future__ import annotations

import shutil
import signal
import time
from collections.abc import Callable
from contextlib import contextmanager

import httpx
import pytest

from localspec.running.models import trial_record
from localspec.running.runtime import kept_calibrations
from tests.watched_link import WatchedLink
from tests.worker_process import ServerProcess, WorkerProcess

# Messages of llama.cpp's protocol.
ALLOCATE, FREE, WRITE, READ, MEMORY = {0}, {4}, {6}, {8}, {11}
COMPUTE = {10, 16}
WITHIN_SECONDS = 5.0
LONG = "the code is the code of the river " * 40
FIXED = ("--depth", "0", "--proposer", "none")


class Fate:
    """Kills a worker as soon as the nth message of a kind goes to it."""

    def __init__(self) -> None:
        self.worker = WorkerProcess("--memory", "2GiB")
        self.link = WatchedLink(self.worker.endpoint, self._hear)
        self._kinds: set[int] = set()
        self._left = 0

    def _hear(self, kind: int) -> None:
        if kind in self._kinds:
            self._left -= 1
            if not self._left:
                self._kinds = set()
                self.worker.kill()

    def kill_at(self, kinds: set[int], nth: int = 1) -> None:
        self._left, self._kinds = nth, kinds

    def struck(self) -> bool:
        """Tell whether the worker was killed: its connections may end a moment before it."""
        return not self._kinds and self.worker.told.ended() == -signal.SIGKILL

    def revive(self) -> None:
        self._kinds = set()
        self.worker.kill()
        self.worker.start()


@pytest.fixture(scope="module")
def fate():
    made = Fate()
    yield made
    made.link.close()
    made.worker.kill()


@pytest.fixture(autouse=True, scope="module")
def _a_cache_of_its_own(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield


@contextmanager
def serving(fate: Fate, *options: str):
    server = ServerProcess(fate.link.endpoint, *options)
    try:
        yield server
    finally:
        server.kill()


def test_nothing_is_told_of_a_file_whose_trial_lost_its_worker(fate):
    fate.revive()
    fate.kill_at(COMPUTE)  # the first is in the trial
    with serving(fate, *FIXED) as server:
        assert server.ended() == 1
        assert "does not answer" in "".join(server.lines)
    assert fate.struck()
    fate.revive()
    with serving(fate, *FIXED) as server:
        server.ready()
        assert server.complete("the code").status_code == 200
        assert "without flash attention" not in "".join(server.lines)


@pytest.mark.parametrize(
    ("kinds", "nth", "folder"),
    [
        pytest.param(MEMORY, 1, None, id="while devices are counted"),
        pytest.param(MEMORY, 2, trial_record.folder, id="while it is laid out"),
        pytest.param(WRITE, 3, None, id="while weights are sent"),
        pytest.param(COMPUTE, 4, kept_calibrations.folder, id="while costs are measured"),
    ],
)
def test_a_server_that_cannot_begin_says_so_and_ends(fate, kinds, nth, folder):
    if folder:
        shutil.rmtree(folder(), ignore_errors=True)
    fate.revive()
    fate.kill_at(kinds, nth)
    with serving(fate, *(() if folder is kept_calibrations.folder else FIXED)) as server:
        assert server.ended() == 1
        text = "".join(server.lines)
        assert "does not answer" in text or "ended the engine before it was ready" in text
        assert "Traceback" not in text
    assert fate.struck()


Act = Callable[[ServerProcess], httpx.Response]


def prompt(server: ServerProcess) -> httpx.Response:
    return server.complete(LONG)


def go_on(server: ServerProcess) -> httpx.Response:
    return server.complete("a", tokens=64)


def metrics(server: ServerProcess) -> httpx.Response:
    return server.client.get("/metrics")


def saved(server: ServerProcess) -> httpx.Response:
    return act(server, "save", "other")


def restored(server: ServerProcess) -> httpx.Response:
    """Restore a slot and use it: what is written to a worker, it does not answer."""
    result = act(server, "restore", "kept")
    return prompt(server) if result.status_code == 200 else result


def act(server: ServerProcess, action: str, name: str) -> httpx.Response:
    return server.client.post(f"/slots/0?action={action}", json={"filename": name})


def between(server: ServerProcess) -> httpx.Response:
    return server.complete("after a pause")


POINTS: dict[str, tuple[Act, set[int], int]] = {
    "load on request": (prompt, ALLOCATE, 1),
    "prefill": (prompt, COMPUTE, 1),
    "the end of a prompt": (prompt, READ, 1),
    "first round": (go_on, COMPUTE, 2),
    "mid-round": (go_on, READ, 20),
    "between requests": (between, set(), 0),
    "while its memory is asked": (metrics, MEMORY, 1),
    "save": (saved, READ, 2),
    "restore": (restored, WRITE, 2),
}


def test_a_server_outlives_its_worker_at_any_point_and_keeps_what_was_saved(fate, tmp_path):
    fate.revive()
    with serving(fate, *FIXED, "--slots", "1", "--cache-dir", str(tmp_path)) as server:
        server.ready()
        plain = server.complete(LONG).json()["choices"][0]["text"]
        assert act(server, "save", "kept").status_code == 200
        for name, (work, kinds, nth) in POINTS.items():
            if name != "load on request":  # after the point before it is not loaded
                assert server.complete(LONG).json()["choices"][0]["text"] == plain, name
            if name == "load on request":
                server.client.post("/models/unload", json={"model": server.name})
            lose(fate, kinds, nth)
            begun = time.monotonic()
            error = failure(work, server)
            assert error, name
            assert time.monotonic() - begun < WITHIN_SECONDS, name
            assert fate.struck(), f"{name}: {error}"
            server.ready()
            gone = server.complete("the code")
            assert gone.status_code == 503, name
            assert "does not answer" in gone.json()["error"]["message"]
            fate.revive()
        result = act(server, "restore", "kept")
        if result.status_code != 200:  # nothing was loaded yet
            assert server.complete("a").status_code == 200
            result = act(server, "restore", "kept")
        assert result.json()["n_restored"] > 200
        fate.kill_at(FREE)
        server.process.send_signal(signal.SIGTERM)
        assert server.ended() == -signal.SIGTERM  # also if that breaks the engine


def lose(fate: Fate, kinds: set[int], nth: int) -> None:
    if kinds:
        fate.kill_at(kinds, nth)
    else:
        fate.worker.kill()


def failure(work: Act, server: ServerProcess) -> str:
    """Return what a request ended with, if that was an error, of HTTP or of its connection."""
    try:
        text = work(server)
    except httpx.HTTPError as error:
        return repr(error)
    return text.text if text.status_code >= 500 else ""
