"""Products of few rows by LocalSpec's Metal kernel beside MLX's own, on a Mac.

`scripts/bench metal` holds the kernel's products against MLX's for each kind of weights and
numbers, then times both in chains of twenty products. A cell has milliseconds of a product by MLX's
kernels (as they are, or for 32 rows, whichever is faster), by LocalSpec's, and the second's share
of the first. `--products own` uses LocalSpec's where that share is at most 0.8. `--compile` only
compiles the kernel for each kind, by Xcode's tools, which needs no GPU that could run it.
"""

from __future__ import annotations

import argparse
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import mlx.core as mx

from benchmarks.machine import heading
from localspec_mlx import few_rows
from localspec_mlx.products import KERNEL, OWN, Way, Weights, ways
from localspec_mlx.tuning import CHAIN, OTHER_BITS, OTHER_PRODUCTS, fault, time_products

ROWS = (1, 2, 3, 4, 6, 8, 12, 16)
SHAPES = ((2048, 2048), (4096, 4096), (17408, 5120))  # outputs and inputs: MLX's kernels differ
TIMED = (("affine", 4, 64), ("affine", 8, 64), ("mxfp4", 4, 32), ("nvfp4", 4, 16))
NUMBERS = {mx.float16: "half", mx.bfloat16: "bfloat", mx.float32: "float"}
SIGNATURE = """
template <typename Number, typename Scale, int FORM, int BITS, int GROUP, int TILES>
[[kernel]] void product(
    const device Number* x [[buffer(0)]], const constant int* x_shape [[buffer(1)]],
    const device uint* words [[buffer(2)]], const constant int* words_shape [[buffer(3)]],
    const device Scale* scales [[buffer(4)]], const device Scale* biases [[buffer(5)]],
    device Number* products [[buffer(6)]],
    uint3 threadgroup_position_in_grid [[threadgroup_position_in_grid]],
    uint simdgroup_index_in_threadgroup [[simdgroup_index_in_threadgroup]],
    uint thread_index_in_simdgroup [[thread_index_in_simdgroup]]) {
"""
COMPILE = ("xcrun", "-sdk", "macosx", "metal", "-std=metal3.1", "-Wall", "-c")

Kind = tuple[str, int, int]  # mode, bits, group size
Seconds = Callable[[Way, int, Sequence[Weights]], float]


def main(arguments: Sequence[str] | None = None) -> bool:
    parser = argparse.ArgumentParser(prog="scripts/bench metal", description=__doc__)
    parser.add_argument("--compile", action="store_true", help="compile only, by Xcode's tools")
    if parser.parse_args(arguments).compile:
        return compiles()
    if not mx.metal.is_available():
        print("MLX has no Metal here: this needs a Mac with Apple silicon")
        return False
    print(heading(), "\n")
    right = [print_fault(kind, number) for kind in few_rows.KINDS for number in NUMBERS]
    for kind in TIMED:
        print(*table(kind, seconds), sep="\n", flush=True)
    return all(right)


def instances() -> Iterator[str]:
    """Write the kernel out for each kind of weights, much as MLX does."""
    yield few_rows.TEXT.read_text(encoding="utf-8") + SIGNATURE + few_rows.CALL + "}"
    for mode, bits, group in few_rows.KINDS:
        for number in NUMBERS.values():
            for tiles in (1, 2):
                scale = number if mode == "affine" else "uchar"
                of = f"<{number}, {scale}, {few_rows.FORMS[mode]}, {bits}, {group}, {tiles}>"
                name = f"{mode}_{bits}_{group}_{number}_{tiles}"
                kernel = f"decltype(product{of}) product{of};"
                yield f'template [[host_name("{name}")]] [[kernel]] {kernel}'


def compiles() -> bool:
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "instances.metal"
        source.write_text("\n".join(instances()), encoding="utf-8")
        done = subprocess.run([*COMPILE, source, "-o", source.with_suffix(".air")], check=False)
    print("the kernel compiles" if done.returncode == 0 else "the kernel does not compile")
    return done.returncode == 0


def print_fault(kind: Kind, number: mx.Dtype) -> bool:
    """Print what is wrong with the kernel, if anything; return whether it gave no wrong product."""
    wrong = fault(ways(True)[KERNEL], drawn(kind, (520, 1024), number))
    print(*kind, NUMBERS[number], wrong or "MLX's products", flush=True)
    return wrong not in (OTHER_PRODUCTS, OTHER_BITS)


def drawn(kind: Kind, shape: tuple[int, int], number: mx.Dtype = mx.float16) -> Weights:
    """Draw a matrix and quantise it."""
    mode, bits, group = kind
    parts = mx.quantize(mx.random.normal(shape).astype(number), group, bits, mode)
    how = {"group_size": group, "bits": bits, "mode": mode}
    weights = Weights(parts[0], parts[1], parts[2] if len(parts) > 2 else None, how)
    mx.eval(weights[:2])
    return weights


def seconds(way: Way, rows: int, matrices: Sequence[Weights]) -> float:
    return time_products(way, rows, matrices, time.perf_counter) / len(matrices)


def table(kind: Kind, seconds: Seconds) -> Iterator[str]:
    yield f"\n{' '.join(map(str, kind))}\n\n| outputs, inputs |" + "".join(f" {n} |" for n in ROWS)
    yield "|---|" + "---|" * len(ROWS)
    for shape in SHAPES:
        matrices = [drawn(kind, shape) for _ in range(4)] * (CHAIN // 4)
        yield f"| {shape[0]:,}, {shape[1]:,} | {' | '.join(cells(matrices, seconds))} |"


def cells(matrices: Sequence[Weights], seconds: Seconds) -> Iterator[str]:
    """Time products of each number of rows."""
    by_name = ways(True)
    for rows in ROWS:
        theirs, ours = (
            min(seconds(by_name[name], rows, matrices) for name in names)
            for names in ((OWN, "padded"), (KERNEL,))
        )
        yield f"{theirs * 1e3:.3f} / {ours * 1e3:.3f} / {ours / theirs:.2f}"
