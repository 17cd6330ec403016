"""LocalSpec on MLX against mlx-lm's own generation: same weights, prompts and depth, in one run.

The target is the starter model in 32 bits; the draft is the same with weights rounded to 4 bits,
but stored in 32 as well, since MLX multiplies quantised matrices fifty times slower on a CPU.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

import mlx.core as mx
import numpy as np
from mlx.nn.layers.base import Module
from mlx_lm import stream_generate
from mlx_lm.generate import generate_step
from mlx_lm.models import qwen3
from mlx_lm.models.cache import make_prompt_cache
from mlx_lm.sample_utils import make_sampler
from mlx_lm.utils import load as load_pair

from benchmarks.machine import heading
from localspec.backend import Options, Row
from localspec.engine.engine import Engine
from localspec.engine.job import Chunk, Event
from localspec.engine.settings import Settings
from localspec.models.locate import locate
from localspec.proposers.draft_model import DraftModelProposer
from localspec.proposers.silent import Silent
from localspec.sampling.parameters import GREEDY, Sampling
from localspec.testing import Alphabet
from localspec.tokens import tokens_of
from localspec_mlx.model import MlxModel
from localspec_mlx.runner import Runner
from localspec_mlx.trial import proven, width
from tests.gguf_to_mlx import convert

DEPTH = 4
LENGTH = 48  # tokens of a reply
FEW = 8  # tokens that one says before it is the other's turn
START = list(range(1, 9))
TURN = 16  # tokens that one loop says before it is the other's turn
TURNS = 40
SLOWER = 1.03  # what plain decoding may take of mlx-lm's time: the machine's noise
PROMPTS = (
    "Explain in three sentences why the sky is blue.",
    "Write a Python class for a stack with push, pop, peek and is_empty.",
    "Summarise: The river rose for three days. On the fourth day the river reached the bridge.",
)


Said = Iterator[tuple[int, bool]]  # tokens, and whether they were drafted


@dataclass
class MlxSide:
    """One way to generate a text, with its measurements."""

    loop: Said
    drafts: bool
    seconds: float = 0.0
    evaluations: int = 0
    said: list[tuple[int, bool]] = field(default_factory=list)

    def turn(self, tokens: int) -> None:
        with counted() as calls:
            begun = time.perf_counter()
            self.said += islice(self.loop, tokens)
            self.seconds += time.perf_counter() - begun
            self.evaluations += calls[0]

    @property
    def line(self) -> str:
        size, accepted = len(self.said), sum(drafted for _, drafted in self.said)
        forwards = size - accepted
        rate = f"{accepted / (forwards * DEPTH):12.0%}" if self.drafts else f"{'-':>12}"
        return (
            f"{size / forwards:10.2f}{self.evaluations / size:14.2f}"
            f"{size / self.seconds:12.2f}{rate}"
        )


@contextmanager
def counted() -> Iterator[list[int]]:
    """Count how often arrays are evaluated, by any code."""
    calls = [0]
    wait, start = mx.eval, mx.async_eval

    def counting(function: Callable[..., None]) -> Callable[..., None]:
        def call(*arrays: object) -> None:
            calls[0] += 1
            function(*arrays)

        return call

    mx.eval, mx.async_eval = counting(wait), counting(start)
    try:
        yield calls
    finally:
        mx.eval, mx.async_eval = wait, start


def theirs(pair: MlxPair, prompt: list[int], sampling: Sampling, depth: int) -> Said:
    """Generate with mlx-lm."""
    options: dict[str, object] = {"sampler": make_sampler(temp=sampling.temperature)}
    if depth:
        options |= {"draft_model": pair.draft, "num_draft_tokens": depth}
    mx.random.seed(1)
    replies = stream_generate(pair.target, pair.tokenizer, prompt, max_tokens=2 * LENGTH, **options)
    for part in replies:
        yield part.token, part.from_draft


def ours(pair: MlxPair, prompt: list[int], sampling: Sampling, depth: int) -> Said:
    """Generate with LocalSpec's engine."""
    proposer = DraftModelProposer(pair.our_draft, 0) if depth else Silent()
    engine = Engine(pair.our_target, proposer, depth)
    heard: list[Event] = []
    settings = Settings(max_tokens=2 * LENGTH, sampling=sampling, seed=1, ignore_end=True)
    engine.add(engine.prepare(tokens_of(prompt), settings, heard.append))
    while True:
        engine.step()
        for event in heard:
            assert isinstance(event, Chunk), event
            yield from ((token, at < event.accepted) for at, token in enumerate(event.tokens))
        heard.clear()


class MlxPair:
    """Target and draft; both sides run the very same arrays."""

    def __init__(self, target: Path, draft: Path) -> None:
        self.target, self.tokenizer = load_pair(str(target))
        self.tokenizer.eos_token_ids = []  # texts go on until both have said as much
        self.draft, _ = load_pair(str(draft))
        self.our_target, self.our_draft = map(ours_of, (self.target, self.draft))


def ours_of(network: Module) -> MlxModel:
    options = Options(slots=1, context=1024)
    fits = proven(network, options.batch + 2 * options.tentative, options.slots)
    return MlxModel(fits, Alphabet([b"x"] * width(network)), options)


def rounded(folder: Path, made: Path) -> Path:
    """Copy a model with its matrices rounded to 4 bits and stored in 32."""
    made.mkdir()
    for file in folder.iterdir():
        if file.suffix == ".json":
            (made / file.name).write_bytes(file.read_bytes())
    weights = mx.load(str(folder / "model.safetensors"))
    assert isinstance(weights, dict)
    for name, values in weights.items():
        if values.ndim == 2:
            weights[name] = mx.dequantize(*mx.quantize(values, bits=4), bits=4)
    mx.save_safetensors(str(made / "model.safetensors"), weights, metadata={"format": "mlx"})
    return made


def speculation(folder: Path) -> bool:
    """Print the table; False if a greedy text left that of mlx-lm's plain decoding."""
    target = folder / "target"
    convert(locate("smollm2-135m", "llamacpp").path, target)
    pair = MlxPair(target, rounded(target, folder / "draft"))
    print(f"{'':30}{'a forward':>10}{'evaluations':>14}{'tokens/s':>12}{'accepted':>12}")
    same = True
    for prompt in PROMPTS:
        print(prompt)
        asked = [{"role": "user", "content": prompt}]
        tokens = pair.tokenizer.apply_chat_template(asked, add_generation_prompt=True)
        plain = compare(pair, tokens, "plain", GREEDY, 0)
        fast = compare(pair, tokens, "draft model", GREEDY, DEPTH)
        compare(pair, tokens, "temperature 1", Sampling(1.0), DEPTH)
        same = same and len({*plain, *fast}) == 1
    return same


def compare(
    pair: MlxPair, prompt: list[int], name: str, sampling: Sampling, depth: int
) -> list[tuple[int, ...]]:
    """Let both generate a text in turns of a few tokens; print the figures and return the texts."""
    sides = {
        who: MlxSide(loop(pair, prompt, sampling, depth), depth > 0)
        for who, loop in (("mlx-lm", theirs), ("LocalSpec", ours))
    }
    for side in sides.values():
        list(islice(side.loop, FEW))  # both models read the prompt
    for _ in range(LENGTH // FEW):
        for side in sides.values():
            side.turn(FEW)
    for who, side in sides.items():
        print(f"  {name + ', ' + who:28}{side.line}", flush=True)
    return [tuple(token for token, _ in side.said) for side in sides.values()]


def toy() -> qwen3.Model:
    """Make a model of 36 layers so narrow that only Python's own time is left."""
    arguments = qwen3.ModelArgs(
        model_type="qwen3",
        hidden_size=64,
        num_hidden_layers=36,
        intermediate_size=128,
        num_attention_heads=4,
        num_key_value_heads=2,
        head_dim=16,
        rms_norm_eps=1e-6,
        vocab_size=512,
        max_position_embeddings=8192,
        rope_theta=1e4,
        tie_word_embeddings=True,
    )
    model = qwen3.Model(arguments)
    mx.eval(model.parameters())
    return model


def host_time() -> bool:
    """Measure the milliseconds to lay out a forward, and of a token in either pipelined loop."""
    model = toy()
    vocabulary = Alphabet([b"x"] * 512)
    fits = proven(model, 600, 1)
    print(f"\n36 layers of width 64, median of {TURNS}, ms")
    for name, seconds in layouts(model, Runner(fits, 1, 512)).items():
        print(f"  {name:32}{np.median(seconds) * 1e3:10.2f}")
    engine = Engine(MlxModel(fits, vocabulary, Options(context=8192)), Silent(), 0)
    loops = (
        (token for token, _ in generate_step(mx.array(START), model, max_tokens=-1)),
        tokens_said(engine),
    )
    turns: list[tuple[float, float]] = []
    for _ in range(TURNS):
        one, other = (turn(loop) for loop in loops)
        assert one[1] == other[1], "the two do not say the same"
        turns.append((one[0], other[0]))
    ratio = float(np.median([b / a for a, b in turns[2:]]))
    for name, column in zip(("mlx-lm", "LocalSpec"), zip(*turns, strict=True), strict=True):
        print(f"  {name + ', a token of plain decoding':32}{np.median(column) * 1e3:10.2f}")
    print(f"  {'ratio':32}{ratio:10.3f}")
    return ratio <= SLOWER


def layouts(model: qwen3.Model, runner: Runner) -> dict[str, list[float]]:
    """Measure Python's seconds before anything is evaluated, in turns."""
    caches = make_prompt_cache(model)
    seconds_by_way: dict[str, list[float]] = {}

    def timed(name: str, run: Callable[[], mx.array]) -> None:
        begun = time.perf_counter()
        logits = run()
        seconds_by_way.setdefault(name, []).append(time.perf_counter() - begun)
        mx.eval(logits)

    single, five = (Row(0, tokens_of(START[:size]), outputs=size) for size in (1, 5))
    for _ in range(TURNS):
        timed("mlx-lm, a forward of 1", lambda: model(mx.array([START[:1]]), cache=caches))
        timed("mlx-lm, a forward of 5", lambda: model(mx.array([START[:5]]), cache=caches))
        timed("LocalSpec, a forward of 1", lambda: runner.run([single]))
        timed("LocalSpec, a forward of 5", lambda: runner.run([five]))
    return seconds_by_way


def tokens_said(engine: Engine) -> Iterator[int]:
    heard: list[Event] = []
    engine.add(engine.prepare(tokens_of(START), Settings(ignore_end=True), heard.append))
    while True:
        engine.step()
        for event in heard:
            assert isinstance(event, Chunk), event
            yield from event.tokens
        heard.clear()


def turn(loop: Iterator[int]) -> tuple[float, list[int]]:
    begun = time.perf_counter()
    tokens = list(islice(loop, TURN))
    return (time.perf_counter() - begun) / TURN, tokens


def main() -> bool:
    """Print the tables; False if a text differs or plain decoding is slower than mlx-lm's."""
    print(heading(), "\n")
    with tempfile.TemporaryDirectory() as folder:
        same = speculation(Path(folder))
    return host_time() and same
