"""llama.cpp's own server, asked over loopback: the engine without LocalSpec."""

from __future__ import annotations

import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx

from architectures.checking.answers import CONTEXT, PROMPTS, TOKENS
from benchmarks.serving.process import free_port, stop

SECONDS = 60.0
Said = dict[str, object]  # as answers are kept
WISH = {"n_predict": TOKENS, "temperature": 0, "cache_prompt": False, "return_tokens": True}
LINES = 2  # of a log, to show why a server did not start


class Unable(Exception):
    """Raised where an engine does not run a model, with its reason."""


def answers(program: Path, file: Path, prompts: Sequence[str] = PROMPTS) -> list[Said]:
    """Return the greedy tokens of every prompt; raise `Unable` if the engine cannot run it."""
    with serving(program, file) as client:
        return [answer(client, prompt) for prompt in prompts]


def answer(client: httpx.Client, prompt: str) -> Said:
    read = post(client, "/tokenize", {"content": prompt, "add_special": True})
    completion = post(client, "/completion", {**WISH, "prompt": prompt})
    return {"text": prompt, "prompt": read["tokens"], "tokens": completion["tokens"]}


def post(client: httpx.Client, path: str, data: Mapping[str, object]) -> dict[str, Any]:
    try:
        reply = client.post(path, json=data)
    except httpx.TransportError as error:
        raise Unable(f"llama-server died: {type(error).__name__}") from error
    if reply.is_error:
        raise Unable(f"llama-server: {reply.text[:200]}")
    body: dict[str, Any] = reply.json()
    return body


@contextmanager
def serving(program: Path, file: Path, projector: Path | None = None) -> Iterator[httpx.Client]:
    port = free_port()
    command = [str(program), "--model", str(file), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--ctx-size", str(CONTEXT), "--threads", "1", "--parallel", "1"]
    command += ["--offline", "--no-warmup"]
    command += ["--mmproj", str(projector)] if projector else ["--no-mmproj"]
    with tempfile.TemporaryFile() as log:
        process = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
        try:
            address = f"http://127.0.0.1:{port}"
            with httpx.Client(base_url=address, timeout=SECONDS, trust_env=False) as client:
                if not started(process, client):
                    log.seek(0)
                    raise Unable(cause(log.read().decode(errors="replace")))
                yield client
        finally:
            stop(process)


def started(process: subprocess.Popen[bytes], client: httpx.Client) -> bool:
    end = time.monotonic() + SECONDS
    while process.poll() is None and time.monotonic() < end:
        try:
            if client.get("/health").is_success:
                return True
        except httpx.TransportError:
            pass
        time.sleep(0.05)
    return False


def cause(log: str) -> str:
    """Find the lines of a log that tell the cause."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line or "GGML_ASSERT" in line]
    return " | ".join((errors or lines)[:LINES])
