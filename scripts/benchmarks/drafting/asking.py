"""Requests to the llama.cpp API that both servers have, and what they tell of drafts."""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

import httpx

Prompt = str | list[int]
SECONDS = 600.0  # to wait for an answer


@dataclass(frozen=True, slots=True)
class HeadVolley:
    """The replies of a side to prompts that were asked at once."""

    seconds: float  # until the last one was over
    texts: Sequence[str]
    tokens: int
    drafted: int
    accepted: int

    @property
    def speed(self) -> float:
        return self.tokens / self.seconds


def volley(address: str, prompts: Sequence[Prompt], most: int) -> HeadVolley:
    """Ask for a greedy reply of so many tokens to each prompt, all at once."""
    client = httpx.Client(base_url=address, timeout=SECONDS, trust_env=False)
    with client, ThreadPoolExecutor(len(prompts)) as pool:
        begun = time.perf_counter()
        replies = list(pool.map(partial(asked, client, most), prompts))
        seconds = time.perf_counter() - begun
    timings = [reply["timings"] for reply in replies]
    return HeadVolley(
        seconds,
        [reply["content"] for reply in replies],
        sum(timing["predicted_n"] for timing in timings),
        sum(timing.get("draft_n", 0) for timing in timings),
        sum(timing.get("draft_n_accepted", 0) for timing in timings),
    )


def asked(client: httpx.Client, most: int, prompt: Prompt) -> dict[str, Any]:
    body = {"prompt": prompt, "n_predict": most, "temperature": 0.0, "ignore_eos": True}
    answer = client.post("/completion", json=body)
    if not answer.is_success:
        raise SystemExit(f"{client.base_url} answers {answer.status_code}: {answer.text[:500]}")
    reply: dict[str, Any] = answer.json()
    return reply
