"""The speed of a loaded model, measured in the process of a trial."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from localspec.interfaces.backend import BATCH_MARGIN, Model, Options, Row

PROMPT, WRITTEN, WIDE = 32, 16, 8  # tokens read first, written after them, and checked at once
MAX_READ, MAX_READ_DRIVEN = 512, 2048  # tokens of a long prompt; the latter on a GPU
READING_SHARE = 0.5  # of the time, for a long prompt
LEAST_SECONDS = 1e-9
TEXT = """A search tries one thing after the other, and keeps what was faster.
def keep(best, other): return max(best, other, key=speed)
The river is wide here, and its water is brown in spring."""

Clock = Callable[[], float]


@dataclass(frozen=True, slots=True)
class Speeds:
    """Tokens a second, and what was written.

    reading: of a long prompt
    plain: written one by one
    wide: of a draft that is checked
    rivals: the share of the processors that other programs took meanwhile
    """

    reading: float
    plain: float
    wide: float
    text: tuple[int, ...]
    rivals: float = 0.0

    @property
    def score(self) -> float:
        """Weigh the speeds: replies are mostly written, and a part of each is reading."""
        return float(self.plain**0.5 * self.reading**0.25 * self.wide**0.25)


def measurable(options: Options, *, driven: bool) -> Options:
    """Return the options of a measurement: the same, but for one slot and the model alone."""
    most = MAX_READ_DRIVEN if driven else MAX_READ
    tentative = min(WIDE - 1, options.batch - BATCH_MARGIN)
    context = min(most + PROMPT + WRITTEN + WIDE, options.context or most)
    alone = replace(options, slots=1, shared=None, context=context, tentative=tentative)
    return replace(alone, head=None, projector=None, adapters=(), pooling="", verbose=False)


def measure(model: Model, seconds: float, clock: Clock = time.perf_counter) -> Speeds:
    """Time a model for about so many seconds, each kind of work at least once."""
    end = clock() + seconds
    best = _measured(model, seconds, clock)
    while (left := end - clock()) > 0:
        now = _measured(model, left, clock)
        reading, plain = max(best.reading, now.reading), max(best.plain, now.plain)
        best = Speeds(reading, plain, max(best.wide, now.wide), best.text)
    return best


def _measured(model: Model, seconds: float, clock: Clock) -> Speeds:
    """Write a little, check a draft, and read as long a prompt as there is time for."""
    tokens = np.resize(model.tokenizer.encode(TEXT), model.context).astype(np.int32)
    model.truncate(0, 0)
    [logits] = model.forward([Row(0, tokens[: min(PROMPT, model.batch)])])
    text, start = [int(logits[-1].argmax())], clock()
    for _ in range(WRITTEN):
        [logits] = model.forward([Row(0, np.array(text[-1:], np.int32))])
        text.append(int(logits[-1].argmax()))
    plain = WRITTEN / max(clock() - start, LEAST_SECONDS)
    width = min(WIDE, model.tentative + 1)
    start = clock()
    model.forward([Row(0, tokens[:width], outputs=width, tentative=width - 1)])
    wide = width / max(clock() - start, LEAST_SECONDS)
    model.truncate(0, 0)
    count = min(max(int(READING_SHARE * seconds * wide), PROMPT), model.context)
    start = clock()
    for at in range(0, count, model.batch):
        model.forward([Row(0, tokens[at : min(at + model.batch, count)])])
    reading = count / max(clock() - start, LEAST_SECONDS)
    return Speeds(reading, plain, wide, tuple(text))
