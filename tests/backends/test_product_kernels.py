"""Quantised matrix products of the llama.cpp backend, by a small program for each instruction set.

The program holds the kernels and nothing of llama.cpp. It multiplies rows of activations one at a
time, two at a time and so on: see product_kernels.cpp.
"""

from __future__ import annotations

import platform
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import gguf
import numpy as np
import pytest
from gguf import quants

PROGRAM = Path(__file__).with_name("product_kernels.cpp")
KERNELS = Path(__file__).parents[2] / "backends" / "localspec_llamacpp" / "kernels"
MATRIX_ROWS = 16
ROWS = 14  # of activations: more than two tiles of any instruction set

# Where the scales of 16 bits lie in a block.
HALVES = {
    "Q4_0": (0,),
    "Q4_1": (0, 2),
    "Q5_0": (0,),
    "Q5_1": (0, 2),
    "Q8_0": (0,),
    "IQ4_NL": (0,),
    "MXFP4": (),
    "Q4_K": (0, 2),
    "Q5_K": (0, 2),
    "Q6_K": (208,),
    "Q2_K": (80, 82),
    "Q3_K": (108,),
    "IQ4_XS": (0,),
}
QUANTIZED_BY_GGUF = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4")
TRAITS = """#define GGML_BACKEND_API
struct ggml_tensor;
namespace ggml::cpu { struct tensor_traits; }
"""
PROGRAM_OF_NO_PRODUCTS = """extern "C" const char * localspec_products(void);
int main() { return *localspec_products() != 0; }
"""
of_each_type = pytest.mark.parametrize("name", HALVES)


@dataclass(frozen=True, slots=True)
class Target:
    """An instruction set: how the program is compiled for it, and what it needs to run."""

    instructions: str
    options: tuple[str, ...]
    needs: tuple[str, ...]
    machines: tuple[str, ...] = ("x86_64", "AMD64")


AVX2 = ("-mavx2", "-mfma", "-mf16c")
AVX512 = ("-mavx512f", "-mavx512bw", "-mavx512vl", "-mavx512dq", "-mavx512vnni", *AVX2[1:])
OWN_VNNI, WIDE_VNNI = (*AVX2, "-mavxvnni"), (*AVX2, "-mavx512vnni", "-mavx512vl")
ARM = ("-march=armv8.2-a+dotprod+fp16",)
TARGETS = {
    "avx512": Target("AVX-512 VNNI", AVX512, ("avx512bw", "avx512vl", "avx512dq", "avx512_vnni")),
    "avx2": Target("AVX2", AVX2, ("avx2", "fma", "f16c")),
    "avx2_vnni": Target("AVX2 VNNI", OWN_VNNI, ("avx2", "avx_vnni")),
    "avx2_vnni_of_avx512": Target("AVX2 VNNI", WIDE_VNNI, ("avx512vl", "avx512_vnni")),
    "neon": Target("NEON dot products", ARM, ("asimddp",), ("aarch64", "arm64")),
}
FAST = ("neon",) if platform.machine() in TARGETS["neon"].machines else ("avx512", "avx2")


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    blocks: np.ndarray  # matrix row, block, byte
    x: np.ndarray  # row, block, activation

    def written(self) -> bytes:
        sizes = np.array([self.blocks.shape[1], len(self.x)], dtype=np.int32)
        x = self.x.astype(np.float32)
        return self.name.encode().ljust(8, b"\0") + b"".join(
            part.tobytes() for part in (sizes, self.blocks, x)
        )


@dataclass(frozen=True, slots=True)
class Answer:
    weights: np.ndarray  # matrix row, block, weight
    q: np.ndarray  # row, block, activation
    d: np.ndarray  # row, block
    products: np.ndarray  # width - 1, row, matrix row


@dataclass(frozen=True, slots=True)
class Kernels:
    command: tuple[str, ...]
    instructions: str
    folder: Path

    def answer(self, case: Case) -> Answer:
        """Run the program on a case."""
        (self.folder / "cases").write_bytes(case.written())
        command = [*self.command, str(self.folder / "cases"), str(self.folder / "answers")]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, "")
        instructions, tile = done.stdout.split(", ")
        assert instructions == self.instructions
        assert int(tile) + 3 <= ROWS
        raw = np.fromfile(self.folder / "answers", dtype=np.uint8)
        rows, blocks, size = case.x.shape
        ends = np.cumsum([MATRIX_ROWS * blocks * size * 4, rows * blocks * (size + 4)])
        weights, activations, products = np.split(raw, ends)
        activations = activations.reshape(rows, blocks, size + 4)
        return Answer(
            weights.view(np.float32).reshape(MATRIX_ROWS, blocks, size),
            activations[..., :size].view(np.int8),
            activations[..., size:].copy().view(np.float32)[..., 0],
            products.view(np.float32).reshape(rows, rows, MATRIX_ROWS),
        )


def compiler_and_runner(target: Target) -> tuple[str, tuple[str, ...]]:
    """Name the compiler of a target and what runs its programs here, or skip."""
    if platform.machine() in target.machines:
        if compiler := shutil.which("g++") or shutil.which("c++"):
            return compiler, ()
        pytest.skip("there is no C++ compiler here")
    if "aarch64" not in target.machines:
        pytest.skip(f"{target.instructions}: this processor is of another family")
    compiler = shutil.which("aarch64-linux-gnu-g++")
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if compiler is None or emulator is None:
        pytest.skip("this processor is no ARM, and there is no aarch64-linux-gnu-g++ with QEMU")
    return compiler, (emulator,)


def require_processor(target: Target) -> None:
    """Skip where the processor lacks an instruction; those of Apple's have all that is asked."""
    described = Path("/proc/cpuinfo")
    able = described.read_text().split() if described.exists() else target.needs
    if missing := [flag for flag in target.needs if flag not in able]:
        pytest.skip(f"compiled, but this processor has no {', '.join(missing)}")


@pytest.fixture(
    scope="module",
    params=[pytest.param(name, marks=[] if name in FAST else pytest.mark.long) for name in TARGETS],
)
def kernels(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    target = TARGETS[request.param]
    compiler, runner = compiler_and_runner(target)
    folder = tmp_path_factory.mktemp(request.param)
    made = str(folder / "product_kernels")
    options = [*target.options, *(["-static"] if runner else [])]
    command = [compiler, "-std=c++17", "-O1", *options, f"-I{KERNELS}", str(PROGRAM), "-o", made]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    if not runner:
        require_processor(target)
    return Kernels((*runner, made), target.instructions, folder)


def type_of(name: str) -> gguf.GGMLQuantizationType:
    return gguf.GGMLQuantizationType[name]


def random_blocks(name: str, blocks: int, seed: int = 1) -> np.ndarray:
    """Make blocks of random bytes whose scales are finite."""
    rng = np.random.default_rng(seed)
    size = gguf.GGML_QUANT_SIZES[type_of(name)][1]
    made = rng.integers(0, 256, (MATRIX_ROWS, blocks, size), dtype=np.uint8)
    for at in HALVES[name]:
        bits = rng.integers(0, 31 << 10, (MATRIX_ROWS, blocks, 1)).astype(np.uint16)
        bits |= rng.integers(0, 2, bits.shape).astype(np.uint16) << 15
        made[..., at : at + 2] = bits.view(np.uint8)
    if name == "MXFP4":
        made[..., 0] = rng.integers(97, 158, made.shape[:2])
    return made


def random_activations(name: str, blocks: int, seed: int = 2) -> np.ndarray:
    size = gguf.GGML_QUANT_SIZES[type_of(name)][0]
    return np.random.default_rng(seed).normal(size=(ROWS, blocks, size)).astype(np.float32)


def weights_of(name: str, blocks: np.ndarray) -> np.ndarray:
    """Read the weights of a matrix as GGUF's own library does."""
    flat = blocks.reshape(MATRIX_ROWS, -1)
    return quants.dequantize(flat, type_of(name)).reshape(*blocks.shape[:2], -1)


def slack(weights: np.ndarray, answer: Answer) -> np.ndarray:
    """Bound what sums in 32-bit floats may lose: 1e-6 of the largest weight for each activation."""
    most = np.abs(weights).max(axis=2).astype(np.float64)
    activations = np.abs(answer.q.astype(np.float64)).sum(axis=2) * answer.d
    return 1e-6 * activations @ most.T


def exact(weights: np.ndarray, activations: np.ndarray) -> np.ndarray:
    rows, columns = (x.astype(np.float64).reshape(len(x), -1) for x in (activations, weights))
    return rows @ columns.T


def check_products(case: Case, answer: Answer) -> None:
    """Compare products with those of the same activations in 8 bits, for each width in bits."""
    weights = weights_of(case.name, case.blocks)
    expected = exact(weights, answer.q * answer.d[..., None].astype(np.float64))
    assert (np.abs(answer.products[0] - expected) <= slack(weights, answer)).all()
    for width, products in enumerate(answer.products, start=1):
        same = products.view(np.uint32) == answer.products[0].view(np.uint32)
        assert same.all(), f"{width} rows at a time: {np.argwhere(~same)[:5].tolist()}"


@of_each_type
def test_packed_weights_are_those_that_gguf_reads(kernels: Kernels, name: str) -> None:
    case = Case(name, random_blocks(name, 5), random_activations(name, 5)[:1])
    assert np.array_equal(kernels.answer(case).weights, weights_of(name, case.blocks))


@pytest.mark.parametrize("name", QUANTIZED_BY_GGUF)
def test_packed_weights_of_real_blocks_are_those_that_gguf_reads(
    kernels: Kernels, name: str
) -> None:
    real = np.random.default_rng(3).normal(size=(MATRIX_ROWS, 128)).astype(np.float32)
    blocks = quants.quantize(real, type_of(name)).reshape(MATRIX_ROWS, 4, -1)
    case = Case(name, blocks, random_activations(name, 4))
    answer = kernels.answer(case)
    assert np.array_equal(answer.weights, weights_of(name, blocks))
    check_products(case, answer)


def test_powers_of_two_of_all_sizes_scale_mxfp4(kernels: Kernels) -> None:
    blocks = random_blocks("MXFP4", 15)
    blocks[..., 0] = np.arange(1, 1 + MATRIX_ROWS * 15).reshape(MATRIX_ROWS, 15)
    case = Case("MXFP4", blocks, random_activations("MXFP4", 15)[:1])
    assert np.array_equal(kernels.answer(case).weights, weights_of("MXFP4", blocks))


@of_each_type
def test_activations_are_rounded_to_the_nearest_of_8_bits(kernels: Kernels, name: str) -> None:
    case = Case(name, random_blocks(name, 2), random_activations(name, 2))
    answer = kernels.answer(case)
    assert np.allclose(answer.d, np.abs(case.x).max(axis=2) / 127, rtol=1e-6, atol=0)
    error = np.abs(answer.q * answer.d[..., None].astype(np.float64) - case.x)
    assert (error <= 0.5001 * answer.d[..., None]).all()


@of_each_type
@pytest.mark.parametrize(
    "blocks", [1, 3, *(pytest.param(n, marks=pytest.mark.long) for n in (2, 4, 7, 16))]
)
def test_a_row_has_the_same_right_products_beside_any_others(
    kernels: Kernels, name: str, blocks: int
) -> None:
    case = Case(name, random_blocks(name, blocks, blocks), random_activations(name, blocks))
    check_products(case, kernels.answer(case))


@of_each_type
def test_products_err_by_no_more_than_the_rounding_of_activations(
    kernels: Kernels, name: str
) -> None:
    case = Case(name, random_blocks(name, 3), random_activations(name, 3))
    answer = kernels.answer(case)
    weights = weights_of(name, case.blocks)
    rounding = 0.5001 * answer.d.astype(np.float64) @ np.abs(weights).sum(axis=2).T
    error = np.abs(answer.products - exact(weights, case.x))
    assert (error <= rounding + slack(weights, answer)).all()


@of_each_type
def test_no_sum_overflows_at_the_largest_codes_and_scales(kernels: Kernels, name: str) -> None:
    blocks = random_blocks(name, 2)
    for row, byte in enumerate([0x00, 0xFF, 0x7F, 0x80, 0x77, 0x88, 0x0F, 0xF0]):
        blocks[row] = byte
    halves = np.array([65504, -0.5], dtype=np.float16).view(np.uint8)
    for i, at in enumerate(HALVES[name]):
        blocks[..., at : at + 2] = halves[2 * i : 2 * i + 2]
    if name == "MXFP4":
        blocks[..., 0] = 157
    x = np.ones_like(random_activations(name, 2))
    x[1::2] = -1
    x[2:6, :, ::2] *= -1
    x[4:8, :, 1::4] *= -1
    x[8:10, :, ::4] = 0
    x[10:] *= np.sign(random_activations(name, 2)[10:])
    case = Case(name, blocks, x)
    answer = kernels.answer(case)
    assert np.abs(answer.q).max() == 127
    check_products(case, answer)


@of_each_type
def test_zeros_and_values_of_all_sizes_are_multiplied(kernels: Kernels, name: str) -> None:
    x = random_activations(name, 3)
    x[0] = 0
    x[1] = -0.0
    x[2, 1] = 0
    x[3, 1, 17] = 1e20
    x[4] *= 1e-30
    x[5] *= 1e-42  # not normal, and too small for a scale's inverse
    x[6, 0] *= 1e15
    case = Case(name, random_blocks(name, 3), x)
    answer = kernels.answer(case)
    check_products(case, answer)
    assert not answer.products[:, :2].any()
    assert np.isfinite(answer.products).all()


@of_each_type
def test_a_row_that_is_not_finite_disturbs_no_other(kernels: Kernels, name: str) -> None:
    case = Case(name, random_blocks(name, 2), random_activations(name, 2))
    undisturbed = kernels.answer(case).products
    broken = [1, 6, 13]
    x = case.x.copy()
    x[1, 0, 3] = np.nan
    x[6, 1] = np.nan
    x[13, 1, 31] = np.inf
    products = kernels.answer(Case(name, case.blocks, x)).products
    assert np.isnan(products[:, broken]).all()
    others = [row for row in range(ROWS) if row not in broken]
    assert np.array_equal(products[:, others], undisturbed[:, others])


def test_a_processor_without_the_instructions_has_no_products(tmp_path: Path) -> None:
    """Such as that of a Raspberry Pi 4: what does not compile there is built twice."""
    oldest = {"x86_64": "x86-64", "AMD64": "x86-64", "aarch64": "armv8-a", "arm64": "armv8-a"}
    compiler = shutil.which("g++") or shutil.which("c++")
    if compiler is None or platform.machine() not in oldest:
        pytest.skip("there is no C++ compiler for a processor that is known here")
    for header in ("ggml-backend-impl.h", "ggml-cpu.h", "ggml-cpu-impl.h"):
        (tmp_path / header).touch()  # of llama.cpp, whose library asks them to compile as well
    (tmp_path / "traits.h").write_text(TRAITS)
    (tmp_path / "program.cpp").write_text(PROGRAM_OF_NO_PRODUCTS)
    made = tmp_path / "program"
    sources = [str(KERNELS / "products.cpp"), str(tmp_path / "program.cpp")]
    command = [compiler, "-std=c++17", f"-march={oldest[platform.machine()]}", f"-I{tmp_path}"]
    done = subprocess.run([*command, *sources, "-o", str(made)], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert subprocess.run([str(made)]).returncode == 0
