"""How fast a reply comes that repeats its prediction, by the length of drafts.

The model works as always, but what it says is dictated: so a small or random model repeats a text
with a few edits as a good one would.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from localspec import Settings
from localspec.base.tokens import Logits, Tokens
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.pairing.pair import Pair
from localspec.core.proposers import registry
from localspec.core.proposers.first_of import FirstOf
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.job import Event
from localspec.interfaces.abilities import Choose
from localspec.interfaces.backend import Model, Row
from localspec.interfaces.costs import Costs
from localspec.running.runtime.calibration import calibrate

EDIT_EVERY = 25  # lines, of which one is changed
SURE = 1e6  # the logit of a dictated token
MAX_COPY_TOKENS = 6000  # of the reply
PLAIN, OPEN, READING = 0, -1, -2  # in the place of a depth


class Dictated:
    """A model whose logits are always those of one text, computed by the model underneath."""

    def __init__(self, model: Model, text: Tokens) -> None:
        self._model: Any = model  # of llama.cpp, whose logits are arrays that can be written to
        self._text, self._held = text, 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def forward(self, rows: Sequence[Row]) -> list[Logits]:
        [row] = rows
        [logits] = self._model.forward(rows)
        self._held += len(row.tokens)
        if row.outputs:
            self._dictate(logits)
        return [logits]

    def multi_step(self, slots: Sequence[int], tokens: Sequence[int], choose: Choose) -> None:
        def dictating(logits: Sequence[Logits]) -> Sequence[int] | None:
            self._held += 1
            self._dictate(logits[0][None])
            return choose(logits)

        self._model.multi_step(slots, tokens, dictating)

    def truncate(self, slot: int, length: int) -> int:
        self._held = self._model.truncate(slot, length)
        return self._held

    def _dictate(self, logits: Logits) -> None:
        first = self._held - len(logits) + 1
        for at, token in enumerate(self._text[first : first + len(logits)]):
            logits[at, token] = SURE


def copy_speed(model: Model, context: int, depths: Sequence[int], count: int) -> dict[int, float]:
    """Let replies repeat so many lines after a context; tokens a second at each depth."""
    lines = (Path(__file__).read_text(encoding="utf-8").splitlines() * count)[:count]
    edited = [line + "  # seen" if at % EDIT_EVERY == 0 else line for at, line in enumerate(lines)]
    reply = model.tokenizer.encode("\n".join(edited))[:MAX_COPY_TOKENS]
    prompt = np.resize(model.tokenizer.encode("\n".join(lines)), context).astype(np.int32)
    costs = calibrate(model).costs()
    settings = Settings(max_tokens=len(reply), ignore_end=True, prediction="\n".join(lines))
    speeds = dict[int, float]()
    for depth in (PLAIN, *depths, OPEN):
        dictated = Dictated(model, np.concatenate((prompt, reply)))
        dictated.truncate(0, 0)
        first, rest = seconds(engine(dictated, costs, depth), prompt, settings)
        speeds[depth] = (len(reply) - 1) / rest
        speeds[READING] = max(speeds.get(READING, 0.0), len(prompt) / first)
    return speeds


def engine(target: Any, costs: Costs, depth: int) -> Engine:
    pair = Pair(target)
    proposers = registry.make_proposers(["prediction", "suffix"], pair)
    if depth == OPEN:
        best = Best(proposers, Depth(costs))
        return Engine(target, best, target.tentative, parts=EngineParts(costs=costs))
    return Engine(target, FirstOf(proposers), depth)


def seconds(engine: Engine, prompt: Tokens, settings: Settings) -> tuple[float, float]:
    """Return the seconds to the first token, and from there to the last."""
    times = list[float]()

    def listener(_: Event) -> None:
        times.append(time.perf_counter())

    begun = time.perf_counter()
    engine.add(engine.prepare(prompt, settings, listener))
    while engine.busy:
        engine.step(lambda: False)
    return times[0] - begun, times[-1] - times[0]
