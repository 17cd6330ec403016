"""The process in which an engine first opens a file: a crash there does not end the program.

It answers requests, one JSON object a line, until its input ends.
"""

from __future__ import annotations

import json
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, replace
from functools import partial
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import numpy as np

from localspec.base.errors import LocalSpecError, ModelFileError
from localspec.base.system.processors import RivalWatch
from localspec.base.tokenizer import Tokenizer
from localspec.base.tokens import LogitRows
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import (
    BATCH_MARGIN,
    CELLS,
    Device,
    DraftOptions,
    Footprint,
    Model,
    Needs,
    Options,
    Rehearsal,
    Roll,
    Row,
)
from localspec.interfaces.media import Medium, Sight
from localspec.interfaces.media_positions import positions
from localspec.interfaces.vector_model import VectorModel
from localspec.running.models.engines import Engine, engine
from localspec.running.models.trial_speed import Speeds, measurable, measure

GOING: dict[str, object] = {}  # the reply that says no more than that it goes on
TRIAL_CONTEXT, TRIAL_SLOTS = 128, 2  # of the model that is tried
# Tokens fed at once; from 33 on engines take other ways than before.
LONG_PROMPT, SHORT_PROMPT = 33, 4
TRIAL_TENTATIVE = 8
LEAVE_SECONDS = 1.0  # in which a process closes that nobody asks any more
BROKEN = "it computes numbers that are none: its weights are broken"
WIDTHS = (2, 3, 5, 9, 17, 65)  # tokens fed at once; drivers choose their kernels by that
# Every byte that UTF-8 text can have.
ALL_BYTES = "".join(map(chr, [*range(0x800), *range(0x800, 0xD800, 0x800), 0xFFFD]))
ALL_BYTES += "".join(chr(0x10000 * plane) for plane in range(1, 17))


class Trial:
    """One model file and its engine."""

    def __init__(self, engine: Engine, path: Path) -> None:
        self._vectors, self._engine = engine.vector_engine, engine.backend()
        self._path = path
        self._closing = ExitStack()
        self._rehearsal: Rehearsal | None = None

    def footprint(self) -> Footprint:
        return self._rehearse().footprint

    def needs(self, options: Options) -> Needs:
        return self._rehearse().needs(options)

    def run(self, options: Options, tell: Callable[[], None], *, driven: bool = False) -> None:
        """Load a model with a short context and use it in every way; report each step."""
        most = self.footprint().positions or CELLS
        pooling = self.footprint().pooling
        self.close()
        driven = driven or uses_gpu(self._engine.probe(), options)
        small = trial_options(options, min(trial_context(options, driven), most))
        if pooling:
            read(self._vectors().load_vectors(self._path, small), tell)
            return
        model = self._engine.load(self._path, small)
        try:
            if driven:
                widen(model, tell)
            decode(model, tell)
            if model.sight and "image" in model.sight.kinds:
                tell()
                look(model, model.sight)
        finally:
            model.close()

    def measure(self, options: Options, seconds: float) -> Speeds:
        """Load a model for one text, and time it."""
        driven = uses_gpu(self._engine.probe(), options)
        model = self._engine.load(self._path, measurable(options, driven=driven))
        try:
            rivals = RivalWatch()
            speeds = measure(model, seconds)
            return replace(speeds, rivals=rivals.share())
        finally:
            model.close()

    def _rehearse(self) -> Rehearsal:
        if self._rehearsal is None:
            self._rehearsal = self._closing.enter_context(self._engine.rehearse(self._path))
            if not self._rehearsal.footprint.drafter:  # a head may have none of its own
                spell(self._rehearsal.tokenizer)
        return self._rehearsal

    def close(self) -> None:
        self._rehearsal = None
        self._closing.close()


def uses_gpu(devices: Sequence[Device], options: Options) -> bool:
    return options.gpu_layers != 0 and any("gpu" in device.kind for device in devices)


def trial_context(options: Options, driven: bool) -> int:
    """Choose the context to try a model in: on a GPU the widest batch is tried as well."""
    return TRIAL_CONTEXT + options.batch if driven or options.projector else TRIAL_CONTEXT


def trial_options(options: Options, context: int) -> Options:
    """Return the options of a trial: the same, but for few slots with a short context."""
    tentative = min(TRIAL_TENTATIVE, options.batch - BATCH_MARGIN)
    split = tuple(float(share > 0) for share in options.split)
    adapters = tuple(replace(adapter, scale=1.0) for adapter in options.adapters)
    small = replace(options, slots=TRIAL_SLOTS, context=context, tentative=tentative)
    small = replace(small, mmap=True, mlock=False, direct_io=False)
    draft = DraftOptions()
    return replace(small, split=split, adapters=adapters, draft=draft, pooling="", verbose=False)


def widen(model: Model, tell: Callable[[], None]) -> None:
    """Run batches of all widths that will be used; a driver may die of some."""
    most = min(model.batch, model.context - 1)
    text = np.arange(most, dtype=np.int32) % model.tokenizer.size
    for width in (*(width for width in WIDTHS if width < most), most):
        outputs = min(width, model.tentative + 1)
        forward(model, [Row(0, text[:width], outputs)])
        model.truncate(0, 0)
        tell()


def spell(tokenizer: Tokenizer) -> None:
    """Encode every byte and decode the special tokens: a vocabulary may lack what it needs."""
    for text in ALL_BYTES:
        tokenizer.encode(text)
    tokenizer.encode(ALL_BYTES, special=True)
    for token in {tokenizer.bos, tokenizer.eos, *tokenizer.ends}:
        if token is not None:
            tokenizer.token_bytes(token)


def decode(model: Model, tell: Callable[[], None]) -> None:
    """Read prompts in two slots, verify drafts in both at once, take them back, go on.

    Each forward is a step: an engine without fast products may take seconds for one.
    """
    max_tokens = min(model.context // 2, model.batch)
    long, short = (min(count, max_tokens) for count in (LONG_PROMPT, SHORT_PROMPT))
    text = np.arange(long, dtype=np.int32) % model.tokenizer.size
    forward(model, [Row(0, text)])
    tell()
    forward(model, [Row(1, text[:short])])
    tell()
    few = text[: 1 + min(model.tentative, model.context // 4)]
    forward(model, [Row(0, few, len(few), len(few) - 1), Row(1, few[:2], 2, 1)])
    tell()
    for slot, held in ((0, long), (1, short)):
        length = model.truncate(slot, held + 1)
        again = np.concatenate([text[:held], few[:1], few[:1]])[length : held + 2]
        forward(model, [Row(slot, again)])
        tell()
        if model.head:
            sampler = Sampler(GREEDY, 0, text)
            model.head.roll([Roll(Row(slot, few[:1]), 2, sampler, held + 3)])


def look(model: Model, sight: Sight) -> None:
    """Read the first piece of a small picture, if a slot has room for it."""
    pieces = sight.pieces(Medium("image", small_picture()))
    run = next(piece for piece in pieces if not isinstance(piece, np.ndarray))
    if run.name.length <= model.context:
        model.truncate(0, 0)
        forward(model, [Row(0, np.array(positions(run), np.int32))])


def small_picture(side: int = 64) -> bytes:
    """Return a BMP file of a square that goes from dark to bright."""
    pixels = np.linspace(0, 255, 3 * side * side).astype(np.uint8).tobytes()
    head = struct.pack("<IiiHHIIiiII", 40, side, side, 1, 24, 0, len(pixels), 0, 0, 0, 0)
    return b"BM" + struct.pack("<IHHI", 54 + len(pixels), 0, 0, 54) + head + pixels


def read(model: VectorModel, tell: Callable[[], None]) -> None:
    """Read texts of all widths that will be used, alone and several at once."""
    text = np.arange(model.context, dtype=np.int32) % model.tokenizer.size
    few = [text[: min(SHORT_PROMPT, model.batch // 2)]] * 2
    batches = [few, *([text[:width]] for width in (*WIDTHS, model.context) if width <= len(text))]
    try:
        for batch in batches:
            if not np.isfinite(model.read(batch)).all():
                raise ModelFileError(BROKEN)
            tell()
    finally:
        model.close()


def forward(model: Model, rows: list[Row]) -> Sequence[LogitRows]:
    logits = model.forward(rows)
    if any(np.isnan(output).any() for outputs in logits for output in outputs):
        raise ModelFileError(BROKEN)
    return logits


def answer(trial: Trial, request: dict[str, Any], tell: Callable[[], None]) -> object:
    """Answer one request of the parent process, as data for JSON."""
    match request["ask"]:
        case "footprint":
            return asdict(trial.footprint())
        case "needs":
            return asdict(trial.needs(Options.from_json(request["options"])))
        case "measure":
            options = Options.from_json(request["options"])
            return asdict(trial.measure(options, request["seconds"]))
        case _:
            trial.run(Options.from_json(request["options"]), tell)
            return None


def serve(trial: Trial, requests: Iterable[str], say: Callable[[str], None]) -> None:
    for line in requests:
        try:
            going = partial(say, json.dumps(GOING))
            reply: dict[str, object] = {"answer": answer(trial, json.loads(line), going)}
        except LocalSpecError as error:
            reply = {"error": type(error).__name__, "message": str(error)}
        say(json.dumps(reply, default=os.fspath))


def lines_while_heard() -> Iterator[str]:
    """Yield the lines of standard input; leave some time after its end, whatever is under way.

    Who asked may have been ended without a word, and an engine may be at work for minutes.
    """
    lines: SimpleQueue[str] = SimpleQueue()

    def read() -> None:
        for line in sys.stdin:
            lines.put(line)
        lines.put("")
        time.sleep(LEAVE_SECONDS)
        os._exit(1)

    threading.Thread(target=read, daemon=True).start()
    while line := lines.get():
        yield line


def main() -> None:
    """Answer requests on standard output; whatever an engine prints goes elsewhere."""
    name, path = sys.argv[1:]
    with os.fdopen(os.dup(1), "w", encoding="utf-8") as out:
        os.dup2(2, 1)

        def say(line: str) -> None:
            out.write(line + "\n")
            out.flush()

        trial = Trial(engine(name), Path(path))
        try:
            serve(trial, lines_while_heard(), say)
        finally:
            trial.close()
