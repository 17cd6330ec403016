"""Speculation against plain decoding on the starter model: seconds a token, prompt by prompt.

Each prompt is answered plain and at several depths in turn, so that the machine's moods hit all.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass

import numpy as np

import localspec
from benchmarks.machine import heading
from localspec.backend import Options
from localspec.job import Result
from localspec.loading import Loading
from localspec.settings import Settings

LENGTH = 128
PROMPTS = {
    "chat": "Explain in three sentences why the sky is blue.",
    "story": "Tell a story about a clockmaker who loses an hour.",
    "list": "List the planets of the solar system in order, one per line.",
    "edit": "Rewrite this function with a docstring:\n\ndef area(width, height):\n"
    "    return width * height\n",
    "summary": "Summarise: The river rose for three days. On the fourth day the river reached the "
    "bridge, and the village moved to the hill. When the river fell, the village moved back.",
    "repeat": "Repeat after me, three times: the rain in Spain stays mainly in the plain.",
    "code": "Write a Python class for a stack with push, pop, peek and is_empty.",
    "json": "Turn into JSON: name Ada, age 36, languages English and French.",
}
CASES = {"plain": 0, "n-gram, depth 2": 2, "n-gram, depth 4": 4, "n-gram, depth 8": 8}


@dataclass(frozen=True)
class Figure:
    seconds: float  # a token, the first apart
    accepted: float  # a round
    tokens: tuple[int, ...]


def figure(result: Result) -> Figure:
    rate = result.timings.tokens_per_second
    return Figure(1 / rate if rate else 0.0, result.speculation.mean_accepted, result.tokens)


def main() -> bool:
    """Print the table; False if a proposer changed a text."""
    model = sys.argv[2] if len(sys.argv) > 2 else "smollm2-135m"
    print(heading(), "\n")
    # One runtime for all: the thread pools of several in one process hold each other up.
    with localspec.load(model, loading=Loading(Options(context=1024))) as runtime:
        answer(runtime, "Hello!", 0)
        rows = {
            name: {case: answer(runtime, prompt, depth) for case, depth in CASES.items()}
            for name, prompt in PROMPTS.items()
        }
    show(rows)
    return all(each.tokens == row["plain"].tokens for row in rows.values() for each in row.values())


def answer(runtime: localspec.Runtime, prompt: str, depth: int) -> Figure:
    messages = [{"role": "user", "content": prompt}]
    return figure(runtime.chat(messages, Settings(max_tokens=LENGTH, depth=depth)))


def show(rows: dict[str, dict[str, Figure]]) -> None:
    print(f"speed against plain (tokens a round), {LENGTH} greedy tokens at most\n")
    print(f"{'':10}{'plain':>12}" + "".join(f"{name:>22}" for name in CASES if name != "plain"))
    ratios: dict[str, list[float]] = {name: [] for name in CASES}
    for prompt, row in rows.items():
        line = f"{prompt:10}{row['plain'].seconds * 1e3:9.1f} ms"
        for name in list(CASES)[1:]:
            ratios[name].append(row["plain"].seconds / row[name].seconds)
            line += f"{ratios[name][-1]:13.2f} ({row[name].accepted + 1:.2f})  "
        print(line)
    medians = "".join(f"{np.median(ratios[name]):13.2f}{'':9}" for name in list(CASES)[1:])
    print(f"{'median':10}{'':12}{medians}")
