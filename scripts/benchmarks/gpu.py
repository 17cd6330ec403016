"""What a card costs: memory beside its plan, forwards by tokens, context and KV type, and copies.

`scripts/bench gpu MODEL` loads the model on the first GPU that llama.cpp sees, in a process of
its own for each line, and prints a line as soon as it is measured. Of forwards it prints times a
forward of one token, and how far the cost curve that starts from LocalSpec's own measurement is
from what was measured. Of copies it prints how many times faster than plain decoding a reply comes
that repeats its prediction with a few edits, by the length of drafts; what the model says is
dictated. `reading` is the speed of a prompt.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from benchmarks.beside.dictated_copy import MAX_COPY_TOKENS, OPEN, PLAIN, READING, copy_speed
from benchmarks.machine import heading
from benchmarks.serving.process import apart
from localspec import Limits, Loading, Options, Settings, load
from localspec.interfaces.backend import MAX_TENTATIVE, Model, Row
from localspec.interfaces.costs import Curve
from localspec.running.models.locate import locate
from localspec.running.runtime.calibration import SIZES, TEXT
from localspec_llamacpp import backend as llamacpp
from localspec_llamacpp.devices import gpus, places

MIB = 1 << 20
MEMORY_GOAL = 0.06  # of what the card says is taken, by which a plan may be wrong
PARTS = ("memory", "forwards", "copying")
WAYS: Mapping[str, Options] = {
    "one slot": Options(context=8192),
    "8 slots": Options(context=4096, slots=8),
    "8 slots, q8_0": Options(context=4096, slots=8, kv_type="q8_0"),
}
TOKENS = (1, 2, 3, 4, 5, 8, 9, 16, 17, 32, 33, 64, 65, 128, 129, 256)
CONTEXTS = (100, 4000, 16000)
KV_TYPES = ("f16", "q8_0")
DEPTHS = (4, 16, 32, 64, 128, 256)
MIN_ROUNDS, ROUND_SECONDS = 5, 0.1  # of forwards of one size
READ = 512  # tokens of a prompt that are read at once
MAX_DRAFT = 64  # tokens whose logits are read after the newest one's, in larger forwards as well


@dataclass(frozen=True, slots=True)
class TakenMemory:
    """Bytes of the card: planned, and what it reports after loading and after some work."""

    planned: int
    loaded: int
    working: int

    @property
    def error(self) -> float:
        """How much more the card says is taken than was planned, as a share."""
        return self.working / self.planned - 1


class ForwardRequest(NamedTuple):
    """A table of forwards: the KV type, and what to measure."""

    kv_type: str
    contexts: Sequence[int]
    tokens: Sequence[int]


class CopyRequest(NamedTuple):
    """Copies: after how many tokens, at which depths, and of how many lines."""

    contexts: Sequence[int]
    depths: Sequence[int]
    lines: int


def main() -> bool:
    """Print the parts; False if a plan was too far off."""
    request = arguments(sys.argv[2:])
    print(heading())
    cards = gpus(places())
    print(f"card       {cards[0].device.name if cards else 'none: the CPU'}", flush=True)
    path = locate(request.model, "llamacpp").path
    met = True
    if "memory" in request.parts:
        if not cards:
            raise SystemExit("llama.cpp sees no GPU whose memory could be measured")
        met = print_memory(path, request.ways, request.draft)
    if "forwards" in request.parts:
        print_forwards(path, request)
    if "copying" in request.parts:
        print_copies(path, CopyRequest(request.contexts, request.depths, request.lines))
    return met


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench gpu", description=__doc__)
    add = parser.add_argument
    add("model", nargs="?", default="smollm2-135m", metavar="NAME_OR_PATH")
    add("--draft", type=Path, help="a draft model, whose memory is measured beside the model's")
    add("--parts", nargs="+", default=PARTS, choices=PARTS)
    add("--ways", nargs="+", default=list(WAYS), choices=WAYS, help="to load it, for its memory")
    add("--contexts", nargs="+", type=int, default=CONTEXTS, metavar="TOKENS")
    add("--tokens", nargs="+", type=int, default=TOKENS, metavar="N")
    add("--depths", nargs="+", type=int, default=DEPTHS, metavar="N", help="of drafts of copies")
    add("--lines", type=int, default=300, help="of a copy")
    add("--kv-types", nargs="+", default=KV_TYPES, metavar="TYPE")
    return parser.parse_args(words)


def print_memory(path: Path, ways: Sequence[str], draft: Path | None) -> bool:
    print("\nMiB of the card       planned   loaded  working   beside the plan", flush=True)
    met = True
    for draft_path in (None, draft) if draft else (None,):
        for way in ways:
            taken = apart(taken_memory, path, draft_path, WAYS[way])
            met = met and abs(taken.error) <= MEMORY_GOAL
            figures = "".join(f"{size / MIB:9.0f}" for size in astuple(taken))
            row = way + (", draft" if draft_path else "")
            print(f"{row:<20}{figures}   {taken.error:+.1%}", flush=True)
    return met


def taken_memory(path: Path, draft: Path | None, options: Options) -> TakenMemory:
    """Load a pair, let all slots work, and see what the card has less."""
    before = free_bytes()
    loading = Loading(options, proposer="auto" if draft else "ngram", limits=Limits())
    with load(path, draft, loading) as runtime:
        loaded = before - free_bytes()
        prompt = np.resize(runtime.encode(TEXT), READ + 100).tolist()
        settings = Settings(max_tokens=32, ignore_end=True)
        streams = [runtime.stream(prompt, settings) for _ in range(options.slots)]
        assert all(stream.result.tokens for stream in streams)
        plan = runtime.facts.plan
        assert plan is not None
        names = {pool.name for pool in plan.machine.gpus}
        planned = sum(item.bytes for item in plan.items if item.pool in names)
        return TakenMemory(planned, loaded, before - free_bytes())


def free_bytes() -> int:
    return sum(gpu.device.free_bytes for gpu in gpus(places()))


def print_forwards(path: Path, request: argparse.Namespace) -> None:
    tokens = tuple(sorted({1, *request.tokens}))
    for kv_type in request.kv_types:
        measured = apart(forwards, path, ForwardRequest(kv_type, request.contexts, tokens))
        print(f"\nms of a forward, {path.name}, KV cache in {kv_type}")
        print("after     " + "".join(f"{count:>8}" for count in tokens) + "  tokens")
        for context, points in measured.items():
            print(*rows(context, points), sep="\n")
        sys.stdout.flush()


def rows(context: int, points: Mapping[int, float]) -> Iterator[str]:
    """Return milliseconds, times a forward of one, and the curve beside them."""
    curve = Curve({size: seconds for size, seconds in points.items() if size in SIZES})
    one = points[1]
    yield f"{context:<10}" + "".join(f"{seconds * 1e3:8.2f}" for seconds in points.values())
    yield "  times 1 " + "".join(f"{seconds / one:8.2f}" for seconds in points.values())
    curved = (curve.at(size) / seconds - 1 for size, seconds in points.items())
    yield "  curve   " + "".join(f"{round(error * 100):+7d}%" for error in curved)


def forwards(path: Path, request: ForwardRequest) -> dict[int, dict[int, float]]:
    """Time forwards of all sizes after texts that grow."""
    room = max(request.contexts) + max(request.tokens) + 1
    width = max(request.tokens)
    batch = max(READ, width)
    draft = min(width, MAX_DRAFT)
    options = Options(context=room, batch=batch, tentative=draft, kv_type=request.kv_type)
    model = llamacpp.load(path, options)
    try:
        text = np.resize(model.tokenizer.encode(TEXT), room).astype(np.int32)
        return {
            context: {size: median_seconds(model, text, context, size) for size in request.tokens}
            for context in sorted(request.contexts)
        }
    finally:
        model.close()


def median_seconds(model: Model, text: np.ndarray, context: int, size: int) -> float:
    """Return the median time of forwards of so many tokens after a text."""
    times = list[float]()
    end = time.perf_counter() + ROUND_SECONDS
    draft = min(size - 1, MAX_DRAFT)
    row = Row(0, text[context : context + size], outputs=draft + 1, tentative=draft)
    while len(times) < MIN_ROUNDS or time.perf_counter() < end:
        held = model.truncate(0, context)
        for start in range(held, context, READ):
            model.forward([Row(0, text[start : min(start + READ, context)], outputs=0)])
        begun = time.perf_counter()
        [logits] = model.forward([row])
        for output in logits:
            output.argmax()
        times.append(time.perf_counter() - begun)
    return float(np.median(times[1:]))


def print_copies(path: Path, request: CopyRequest) -> None:
    print(f"\ncopies of {request.lines} lines, times plain decoding, {path.name}")
    heads = [*(f"depth {depth}" for depth in request.depths), "open", "reading"]
    print("after     plain/s" + "".join(f"{head:>10}" for head in heads), flush=True)
    for context, speed in apart(copies, path, request).items():
        plain = speed[PLAIN]
        kinds = [*request.depths, OPEN, READING]
        times = "".join(f"{speed[kind] / plain:10.2f}" for kind in kinds)
        print(f"{context:<10}{plain:7.0f}{times}", flush=True)


def copies(path: Path, request: CopyRequest) -> dict[int, dict[int, float]]:
    """Measure copies after each context, in tokens a second by depth."""
    deepest = max(*request.depths, MAX_TENTATIVE)
    room = max(request.contexts) + MAX_COPY_TOKENS
    options = Options(context=room, batch=max(READ, deepest + 2), tentative=deepest)
    model = llamacpp.load(path, options)
    try:
        return {
            context: copy_speed(model, context, request.depths, request.lines)
            for context in request.contexts
        }
    finally:
        model.close()
