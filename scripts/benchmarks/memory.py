"""Planned memory beside what engine and process then take, each in a process of its own.

`scripts/bench memory [MODEL] [--draft HEAD] [--mmproj FILE]` measures a model, by its name or its
file, in several ways; with a head or projector, in one slot and in four. MLX has the starter model.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import mlx.core as mx
import numpy as np
import psutil

from benchmarks.comparison.weights import STARTER
from benchmarks.machine import heading
from benchmarks.serving.process import apart
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Needs, Options, Roll, Row
from localspec.interfaces.media import Medium
from localspec.interfaces.media_positions import positions
from localspec.running.models.engines import engine
from localspec.running.models.locate import locate
from tests.gguf_to_mlx import convert
from tests.tiny_vision import picture

MIB = 1 << 20
CLOSE, CLOSE_WITH_MORE = 0.15, 0.06  # of all that is taken, by which a plan may be wrong
WAYS = (
    Options(context=2048),
    Options(context=8192),
    Options(context=8192, kv_type="q8_0"),
    Options(context=2048, slots=4),
    Options(context=8192, batch=2048),
    Options(context=2048, tentative=510),
    Options(context=2048, slots=4, tentative=510),
)
FOLDER_WAYS = (Options(context=1024), Options(context=1024, kv_type="q8_0"))


@dataclass(frozen=True, slots=True)
class MemoryCase:
    engine: str
    path: Path
    options: Options

    @property
    def has_more(self) -> bool:
        """Whether it is loaded with a head or a projector."""
        return bool(self.options.head or self.options.projector)

    def __str__(self) -> str:
        o = self.options
        cells = "" if o.kv_type == "auto" else f", {o.kv_type}"
        batch = "" if o.batch == Options().batch else f", batch {o.batch:,}"
        slots = f"{o.slots} x " if o.slots > 1 else ""
        drafts = "" if o.tentative == Options().tentative else f", drafts of {o.tentative}"
        beside = o.head or o.projector
        name = beside.stem if beside else self.path.stem
        return f"{self.engine:<8} {name:<38} {slots}{o.context:,}{cells}{batch}{drafts}"


def cases(options: argparse.Namespace, folder: Path) -> Iterator[MemoryCase]:
    path = locate(options.model, "llamacpp").path
    for way in WAYS:
        yield MemoryCase("llamacpp", path, way)
    more = {"head": options.draft, "projector": options.mmproj}
    for name, file in more.items():
        for slots in (1, 4) if file else ():
            way = replace(Options(context=2048, slots=slots), **{name: file})
            yield MemoryCase("llamacpp", path, way)
    converted = folder / "starter-16-bits"
    convert(locate(STARTER, "llamacpp").path, converted, mx.float16)
    for way in FOLDER_WAYS:
        yield MemoryCase("mlx", converted, way)


def measure(case: MemoryCase) -> tuple[Needs, int]:
    """Load a model and let it read a batch in each slot; return the plan, and how much it grew."""
    backend, options = engine(case.engine).backend(), case.options
    with backend.rehearse(case.path) as rehearsal:
        needs = rehearsal.needs(options)
    process = psutil.Process()
    before = process.memory_info().rss
    model = backend.load(case.path, options)
    for slot in range(options.slots):
        tokens = (np.arange(options.batch, dtype=np.int32) + 300) % model.vocabulary
        model.forward([Row(slot, tokens, outputs=options.tentative + 1)])
        if model.sight:
            for piece in model.sight.pieces(Medium("image", picture(slot, 448, 448))):
                run = piece if isinstance(piece, np.ndarray) else positions(piece)
                model.forward([Row(slot, np.array(run, np.int32))])
        if model.head:
            sampler = Sampler(GREEDY, 0, tokens)
            model.head.roll([Roll(Row(slot, tokens[-1:]), 4, sampler, options.batch + 1)])
    return needs, process.memory_info().rss - before


def figures(needs: Needs, grown: int) -> str:
    parts = (needs.weights, needs.cache, needs.working, needs.head, needs.projector)
    return "".join(f"{size / MIB:8.0f}" for size in (*parts, needs.total, grown))


def main() -> bool:
    """Print the table; False if a plan was too far off."""
    options = arguments(sys.argv[2:])
    print(heading())
    print("\nMiB planned, and by how much the process grew when it had read a batch\n")
    print(f"{'':64} weights context buffers    head  mmproj     all    grew")
    met = True
    with tempfile.TemporaryDirectory() as folder:
        for case in cases(options, Path(folder)):
            needs, grown = apart(measure, case)
            off = grown / needs.total - 1
            met = met and abs(off) <= (CLOSE_WITH_MORE if case.has_more else CLOSE)
            print(f"{case!s:<62}{figures(needs, grown)}  {off:+.0%}", flush=True)
    return met


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench memory", description=__doc__)
    parser.add_argument("model", nargs="?", default=STARTER, metavar="NAME_OR_PATH")
    parser.add_argument("--draft", type=Path, metavar="HEAD", help="a drafting head in a file")
    parser.add_argument("--mmproj", type=Path, metavar="FILE", help="a projector")
    return parser.parse_args(words)
