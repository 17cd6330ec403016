"""A running stream and /health go on, whatever three other clients send at once."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

import httpx
import pytest

from tests import engines
from tests.apps.server.heavy_bodies import HEAVY, Body

CLIENTS = 3
# The goal is 0.5 s, and 1 s for 24 MB; a machine that does other things too is given more.
LONGEST_SECONDS = 2.0
STORY = {
    "messages": [{"role": "user", "content": "Tell a story."}],
    "stream": True,
    "ignore_eos": True,
    "max_tokens": 300,
    "localspec": {"plain": True},  # a draft would come in few long steps
}


@dataclass
class Watched:
    """The longest pause between signs of life, since `reset`."""

    seconds: float = 0.0
    since: float = 0.0
    last: float | None = None
    signs: int = 0
    lock: threading.Lock = field(default_factory=threading.Lock)

    def sign(self, begun: float | None = None) -> None:
        """Note a sign of life, after the one before or since it was asked for."""
        with self.lock:
            now, self.signs = time.monotonic(), self.signs + 1
            before = self.last if begun is None else begun
            if before is not None:
                self.seconds = max(self.seconds, now - max(before, self.since))
            self.last = now

    def reset(self) -> None:
        with self.lock:
            self.seconds, self.since = 0.0, time.monotonic()


def streaming(address: str, stop: threading.Event, watched: Watched) -> None:
    while not stop.is_set():
        with httpx.stream(
            "POST", f"{address}/v1/chat/completions", json=STORY, timeout=60
        ) as chunks:
            watched.last = None  # a new stream has a prompt to read
            for line in chunks.iter_lines():
                if line.startswith("data"):
                    watched.sign()
                if stop.is_set():
                    return


def asking(address: str, stop: threading.Event, watched: Watched) -> None:
    while not stop.is_set():
        begun = time.monotonic()
        httpx.get(f"{address}/health", timeout=60)
        watched.sign(begun)
        stop.wait(0.02)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A server with a process of its own, and the tiniest of models."""
    command = [sys.executable, "-m", "localspec", "serve", str(engines.tiny("llama"))]
    command += ["--threads", "1", "--port", "0", "--context", "512"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    with process:
        line = next(line for line in process.stderr if "answering at" in line)
        reader = threading.Thread(target=process.stderr.read)  # so that it never waits for a reader
        reader.start()
        yield re.findall(r"http://[0-9.]+:\d+", line)[0]
        process.terminate()
        reader.join()


@pytest.fixture(scope="module")
def watched(address) -> Iterator[dict[str, Watched]]:
    stop, fields = threading.Event(), {"stream": Watched(), "health": Watched()}
    with ThreadPoolExecutor(2) as pool:
        pool.submit(streaming, address, stop, fields["stream"])
        pool.submit(asking, address, stop, fields["health"])
        while min(each.signs for each in fields.values()) < 20:
            time.sleep(0.05)
        yield fields
        stop.set()


@pytest.mark.long
@pytest.mark.parametrize("name", HEAVY)
def test_no_body_stops_those_of_others(name, address, watched, capsys):
    path, data = encoded(HEAVY[name])
    for each in watched.values():
        each.reset()
    begun = time.monotonic()
    headers = {"content-type": "application/json"}
    with ThreadPoolExecutor(CLIENTS) as pool:
        sent = [
            pool.submit(httpx.post, address + path, content=data, headers=headers, timeout=120)
            for _ in range(CLIENTS)
        ]
        statuses = {each.result().status_code for each in sent}
    whole = time.monotonic() - begun
    pauses = {name: each.seconds for name, each in watched.items()}
    text = ", ".join(f"{what} {seconds:.2f} s" for what, seconds in pauses.items())
    with capsys.disabled():
        print(f"\n{name} ({len(data) / 1e6:.1f} MB, {statuses}): {whole:.1f} s, pauses: {text}")
    assert statuses <= {200, 400}
    assert max(pauses.values()) < LONGEST_SECONDS


def encoded(make: Callable[[], Body]) -> tuple[str, bytes]:
    path, body = make()
    return path, json.dumps(body).encode()
