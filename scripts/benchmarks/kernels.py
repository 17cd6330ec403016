"""Forwards of a few rows by LocalSpec's own products beside llama.cpp's, on a processor.

`scripts/bench kernels [FILE]` requantises a model purely to each type of weights, loads it by both,
and times forwards in turns, with the logits of all rows, after 64 tokens. A cell of its table has
milliseconds by LocalSpec's products, by llama.cpp's, and how many times one row the first take.
Weights whose rows do not divide into the blocks of a type get another one, which the table tells.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures.process import BrokenProcessPool
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.beside.reading import Multiplied, multiplied
from benchmarks.comparison.weights import STARTER
from benchmarks.machine import heading
from benchmarks.serving.process import apart
from localspec.base.errors import LocalSpecError
from localspec.base.system.bandwidth import read_bytes_a_second
from localspec.base.tokens import Tokens
from localspec.interfaces.backend import BATCH_MARGIN, OWN_PRODUCTS, PRODUCTS, Options, Row
from localspec.running.models.locate import locate
from localspec_llamacpp.bindings import products
from localspec_llamacpp.cores import physical_cores
from localspec_llamacpp.headers.rounding import PACKED, PLAIN
from localspec_llamacpp.loading import load
from localspec_llamacpp.model import LlamaModel
from requantising import requantise

AS_IT_IS = "as-it-is"
TYPES = ("Q4_K", "Q5_K", "Q6_K", "Q8_0", "Q4_0", "IQ4_NL", "IQ4_XS", "MXFP4", AS_IT_IS)
KNOWN = (*PACKED, *PLAIN, AS_IT_IS)
ROWS = (1, 2, 4, 8, 16, 32, 64, 128)
HELD = 64  # tokens
TURNS = 3  # forwards of a width that are timed before it is the next width's turn
BUSY = 64  # rows whose operations a second are told, or the most below


@dataclass(frozen=True, slots=True)
class Work:
    """Tell what to measure of each type: widths, repeats, threads."""

    rows: tuple[int, ...]
    repeats: int
    threads: int


@dataclass(frozen=True, slots=True)
class Measured:
    weights: Multiplied
    read_speed: float  # of this machine, bytes a second
    seconds: Mapping[int, Mapping[str, float]]  # of forwards, by rows and products


def main() -> bool:
    """Print the table, a row as soon as it is measured."""
    options = arguments(sys.argv[2:])
    require_products()
    path = locate(options.model, "llamacpp").path
    work = Work(tuple(sorted({1, *options.rows})), options.repeats, options.threads)
    print(heading(model=path.name, products=products.name(), threads=work.threads))
    print("", *head(work.rows), sep="\n", flush=True)
    for kind in options.types:
        try:
            print(row(kind, apart(measure, path, kind, work)), flush=True)
        except (LocalSpecError, BrokenProcessPool) as error:  # an assertion ends the process
            print(f"| {kind} | not measured: {error} |", flush=True)
    return True


def arguments(words: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="scripts/bench kernels", description=__doc__)
    add = parser.add_argument
    add("model", nargs="?", default=STARTER, metavar="FILE", help="a GGUF file, or a model's name")
    add("--types", nargs="+", default=TYPES, choices=KNOWN, metavar="TYPE", help=", ".join(KNOWN))
    add("--rows", nargs="+", type=int, default=ROWS, metavar="N", help="besides one")
    add("--repeats", type=int, default=3, metavar="N", help="passes over all widths")
    add("--threads", type=int, default=physical_cores(), metavar="N")
    return parser.parse_args(words)


def require_products() -> None:
    if products.answered() is None:
        fix = "run `localspec doctor --fix`, which needs a C++ compiler"
        raise SystemExit(f"llama.cpp was built without LocalSpec's products: {fix}")
    if not products.name():
        raise SystemExit("LocalSpec's products have no code for the instructions of this processor")


def head(rows: Sequence[int]) -> Iterator[str]:
    widths = "".join(f" {each} |" for each in rows)
    yield f"| type | weights |{widths} GB/s at 1 row | Gops/s at {busiest(rows)} |"
    yield "|---|---|" + "---|" * (len(rows) + 2)


def row(kind: str, measured: Measured) -> str:
    """Write times, bytes and operations by LocalSpec's products, and by llama.cpp's."""
    seconds, weights = measured.seconds, measured.weights
    one, busy = seconds[1], busiest(seconds)
    cells = [kind, str(weights)]
    for times in seconds.values():
        own, theirs = (times[name] * 1e3 for name in PRODUCTS)
        cells.append(f"{own:.2f} / {theirs:.2f} / {times[OWN_PRODUCTS] / one[OWN_PRODUCTS]:.2f}")
    own, theirs = (weights.bytes / one[name] / 1e9 for name in PRODUCTS)
    cells.append(f"{own:.1f} / {theirs:.1f} of {measured.read_speed / 1e9:.1f}")
    own, theirs = (2 * weights.count * busy / seconds[busy][name] / 1e9 for name in PRODUCTS)
    cells.append(f"{own:.0f} / {theirs:.0f}")
    return f"| {' | '.join(cells)} |"


def busiest(rows: Iterable[int]) -> int:
    return max(each for each in rows if each <= BUSY)


def measure(path: Path, kind: str, work: Work) -> Measured:
    """Time forwards of a model in a type of weights, by both products."""
    speed, most = read_bytes_a_second(work.threads), max(work.rows)
    options = Options(
        context=HELD + most,
        batch=HELD + most + BATCH_MARGIN,
        tentative=most,
        gpu_layers=0,
        threads=work.threads,
    )
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        stack.callback(products.use, True)  # as it is in a new process
        if kind != AS_IT_IS:
            source, path = path, Path(folder) / f"{kind}.gguf"
            requantise(source, path, kind, pure=True)
        models = {
            name: stack.enter_context(closing(load(path, replace(options, products=name))))
            for name in PRODUCTS
        }
        vocabulary = models[OWN_PRODUCTS].vocabulary
        text = np.random.default_rng(0).integers(vocabulary, size=HELD + most, dtype=np.int32)
        return Measured(multiplied(path), speed, medians(models, text, work))


def medians(
    models: Mapping[str, LlamaModel], text: Tokens, work: Work
) -> dict[int, dict[str, float]]:
    """Time forwards of all widths, and all again later, as the machine's speed drifts."""
    spent = {rows: {name: list[float]() for name in models} for rows in work.rows}
    for _ in range(work.repeats):
        for rows, times in spent.items():
            for name, seconds in in_turns(models, text[: HELD + rows]):
                times[name].append(seconds)
    return {
        rows: {name: float(np.median(each)) for name, each in times.items()}
        for rows, times in spent.items()
    }


def in_turns(models: Mapping[str, LlamaModel], text: Tokens) -> Iterator[tuple[str, float]]:
    """Time forwards of a text after what is held; the first ones lay graphs out."""
    for turn in range(TURNS + 1):
        for name, model in models.items():
            products.use(name == OWN_PRODUCTS)  # which attention looks at in each forward
            seconds = forward_seconds(model, text)
            if turn:
                yield name, seconds


def forward_seconds(model: LlamaModel, text: Tokens) -> float:
    held, rows = model.truncate(0, HELD), len(text) - HELD
    if held < HELD:  # at first, and where a model goes back to a checkpoint
        model.forward([Row(0, text[held:HELD], outputs=0)])
    begun = time.perf_counter()
    model.forward([Row(0, text[HELD:], outputs=rows, tentative=rows)])
    return time.perf_counter() - begun
