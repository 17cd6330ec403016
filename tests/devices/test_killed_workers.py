"""A server whose worker is killed before it is ready says so and ends."""

from __future__ import annotations

import shutil
from contextlib import contextmanager

import pytest

from benchmarks.serving.slow_link import SlowLink
from localspec.models import trial_record
from localspec.runtime import kept_calibrations
from tests.worker_process import ServerProcess, WorkerProcess

# Messages of llama.cpp's protocol.
WRITE, MEMORY = {6}, {11}
COMPUTE = {10, 16}
FIXED = ("--depth", "0", "--proposer", "none")


class Fate:
    """Kills a worker as soon as the nth message of a kind goes to it."""

    def __init__(self) -> None:
        self.worker = WorkerProcess("--memory", "2GiB")
        self.link = SlowLink(self.worker.endpoint, watch=self._hear)
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
        return not self._kinds and self.worker.told.process.poll() is not None

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
        told = "".join(server.lines)
        assert "does not answer" in told or "ended the engine before it was ready" in told
        assert "Traceback" not in told
    assert fate.struck()
