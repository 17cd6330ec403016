"""llama.cpp's own server, asked over loopback: the engine without LocalSpec."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx

from architectures.checking.answers import CONTEXT, PROMPTS, TOKENS
from benchmarks.serving.process import Unable, post, running
from localspec.apps.clients.started import free_port

SECONDS = 60.0
Answer = dict[str, object]  # as it is kept
WISH = {"n_predict": TOKENS, "temperature": 0, "cache_prompt": False, "return_tokens": True}
LINES = 2  # of a log, to show why a server did not start


def answers(program: Path, file: Path, prompts: Sequence[str] = PROMPTS) -> list[Answer]:
    """Return the greedy tokens of every prompt; raise `Unable` if the engine cannot run it."""
    with serving(program, file) as client:
        return [answer(client, prompt) for prompt in prompts]


def answer(client: httpx.Client, prompt: str) -> Answer:
    read = post(client, "/tokenize", {"content": prompt, "add_special": True})
    completion = post(client, "/completion", {**WISH, "prompt": prompt})
    return {"text": prompt, "prompt": read["tokens"], "tokens": completion["tokens"]}


@contextmanager
def serving(program: Path, file: Path, projector: Path | None = None) -> Iterator[httpx.Client]:
    port = free_port()
    command = [str(program), "--model", str(file), "--host", "127.0.0.1", "--port", str(port)]
    command += ["--ctx-size", str(CONTEXT), "--threads", "1", "--parallel", "1"]
    command += ["--offline", "--no-warmup"]
    command += ["--mmproj", str(projector)] if projector else ["--no-mmproj"]
    address = f"http://127.0.0.1:{port}"
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        log = Path(folder) / "log"
        try:
            stack.enter_context(running("llama-server", command, log, lambda: address))
        except SystemExit as error:
            raise Unable(cause(log.read_text(encoding="utf-8", errors="replace"))) from error
        with httpx.Client(base_url=address, timeout=SECONDS, trust_env=False) as client:
            yield client


def cause(log: str) -> str:
    """Find the lines of a log that tell the cause."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line or "GGML_ASSERT" in line]
    return " | ".join((errors or lines)[:LINES])
