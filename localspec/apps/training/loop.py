"""The training of a head, in steps that a killed process takes again with the same result."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Generator, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from localspec.apps.training.batches import Reader, Vocabulary, likeliest_tokens
from localspec.apps.training.export import measured_costs, trained_head
from localspec.apps.training.head import Network, Texts, shape_of
from localspec.apps.training.losses import acceptance, loss
from localspec.apps.training.promise import HeldOut, speedup, verdict
from localspec.apps.training.published import chosen_beginning
from localspec.apps.training.state import Beginning, State, first_weights
from localspec.base.errors import UsageError
from localspec.base.system.free_memory import memory
from localspec.interfaces.costs import Costs
from localspec.interfaces.trained_head import HeadShape, TrainedHead
from localspec.running.models import trial
from localspec.running.models.locate import ModelFiles

LEAST_SQUARE = 1e-6  # of a number of the states
BATCH, LEAST_BATCH = 2048, 256  # tokens of a step
JUDGED = 16_384  # tokens that are held out
FIRST_LOOK, MORE, MOST_BETWEEN = 50, 0.2, 400  # steps between looks at held-out texts: a share
SAVED_SECONDS = 60.0  # between checkpoints
NUMBER_BYTES, COPIES = 4, 5  # a weight, its gradient, two moments and the average
SIDE, TRIES, SAVES = 1024, 5, 0.8  # of the matrix that is tried; the part of the time, at most
HELD = 12  # copies of its logits and states that a step holds for each token


@dataclass(frozen=True, slots=True)
class Report:
    step: int
    tokens: int  # learned from so far, each as often as it was read
    loss: float
    held_out: HeldOut | None  # the newest measurement
    note: str = ""  # why it ended


def train(
    files: ModelFiles, folder: Path, between: Callable[[], None], steps: int | None = None
) -> Generator[Report, None, None]:
    """Train on what is recorded in a folder, from the newest checkpoint on; report each step.

    It ends at so many steps, or when little more is to be gained. `between` is called before each.
    """
    training = Training(files, folder, between)
    try:
        yield from training.run(steps)
    finally:
        if training.between_steps:
            training.state.save(folder)


class Training:
    """A head in training, beside the texts that it learns from."""

    def __init__(self, files: ModelFiles, folder: Path, between: Callable[[], None]) -> None:
        self._files, self._folder, self._between = files, folder, between
        self._footprint = trial.footprint(files.path, files.engine.name)
        device = best_device()
        state = State.load(folder, device)
        size, head = self._footprint.vocabulary, None
        if state:
            drafted = state.vocabulary
        elif head := chosen_beginning(folder, self._footprint):
            drafted = head.tokens
        else:
            drafted = likeliest_tokens(folder, size)
        self._reader = Reader(folder, Vocabulary.numbered(drafted, size), device)
        self.state = state or self._first_state(drafted, head, device)
        self._costs: Costs | None = None
        self.between_steps = True  # the state is whole

    def _first_state(
        self, drafted: NDArray[np.int64], head: TrainedHead | None, device: torch.device
    ) -> State:
        scale = (self._reader.mean_squares() + LEAST_SQUARE).rsqrt()
        beginning = Beginning.of_head(head, scale) if head else self._first_head(drafted, scale)
        placed = {name: weight.to(device) for name, weight in beginning.weights.items()}
        batch = batch_tokens(beginning.shape, memory().free_bytes // 2)
        half = multiplies_faster_in_half(device)
        beginning = replace(beginning, weights=placed)
        state = State(beginning, scale.to(device), batch, in_half=half)
        state.progress.next_look = FIRST_LOOK
        state.save(self._folder)  # with what was chosen by the memory that is free now
        return state

    def _first_head(self, drafted: NDArray[np.int64], scale: Tensor) -> Beginning:
        shape = shape_of(self._footprint.embedding, len(drafted))
        outputs = np.load(self._folder / "outputs.npy", mmap_mode="r")[drafted]
        norm = np.load(self._folder / "norm.npy")
        weights = first_weights(shape, outputs.astype(np.float32), norm, scale)
        return Beginning(shape, weights, drafted)

    def run(self, steps: int | None) -> Iterator[Report]:
        saved = time.monotonic()
        for texts in self._texts():
            if self.state.progress.step == steps:
                return
            self._between()
            report = self._step(texts)
            yield report
            if report.note:
                return
            if time.monotonic() > saved + SAVED_SECONDS:
                self.state.save(self._folder)
                saved = time.monotonic()

    def _texts(self) -> Iterator[Texts]:
        """Yield batches, epoch after epoch, from where the training stands."""
        state, progress = self.state, self.state.progress
        while True:
            batches = self._reader.epoch(progress.epoch, state.batch_tokens)
            yield from islice(batches, progress.batch, None)
            if not progress.batch:
                raise UsageError("nothing is recorded that could be learned from")
            progress.epoch, progress.batch = progress.epoch + 1, 0

    def _step(self, texts: Texts) -> Report:
        state, progress = self.state, self.state.progress
        self.between_steps = False
        network = Network(state.shape, state.weights, state.scale, in_half=state.in_half)
        # The dice of a step depend on its number alone, so that it can be taken again.
        lost = loss(network, texts, torch.Generator().manual_seed(progress.step))
        state.step(lost)
        progress.batch, progress.tokens = progress.batch + 1, progress.tokens + texts.count
        self.between_steps = True
        note = self._look() if progress.step >= progress.next_look else ""
        held_out = state.measured[-1] if state.measured else None
        return Report(progress.step, progress.tokens, lost.item(), held_out, note)

    def _look(self) -> str:
        """Judge the head by what is held out; say why no more is to be gained, if so."""
        state, progress = self.state, self.state.progress
        network = Network(state.shape, state.average, state.scale)
        batches = self._reader.held_out(JUDGED, state.batch_tokens)
        greedy, sampled = acceptance(network, batches, self._between)
        if self._costs is None:
            head = trained_head(state, self._footprint)
            self._costs = measured_costs(self._files, head)
        gain = (speedup(self._costs, greedy) + speedup(self._costs, sampled)) / 2
        state.measured.append(HeldOut(progress.step, greedy, sampled, gain))
        progress.next_look = progress.step + min(int(progress.step * MORE) + 1, MOST_BETWEEN)
        return verdict(state.measured)


def best_device() -> torch.device:
    if torch.cuda.is_available():
        return torch.device("cuda")
    return torch.device("mps" if torch.backends.mps.is_available() else "cpu")


def multiplies_faster_in_half(device: torch.device) -> bool:
    """Measure whether bfloat16 saves time, as it does not on processors that lack it."""
    x = torch.rand(SIDE, SIDE, device=device)
    whole, half = least_seconds(x), least_seconds(x.bfloat16())
    return half < SAVES * whole


def least_seconds(x: Tensor) -> float:
    seconds = []
    for _ in range(TRIES):
        start = time.perf_counter()
        (x @ x).sum().item()
        seconds.append(time.perf_counter() - start)
    return min(seconds)


def batch_tokens(shape: HeadShape, most_bytes: int) -> int:
    """Choose the tokens of a step by the memory that there is beside the weights."""
    numbers = sum(math.prod(size) for size in shape.sizes.values())
    held = NUMBER_BYTES * COPIES * numbers
    per_token = NUMBER_BYTES * HELD * (shape.drafted + 12 * shape.width)
    tokens = min((most_bytes - held) // per_token, BATCH)
    if tokens < LEAST_BATCH:
        needs = (held + LEAST_BATCH * per_token) >> 20
        raise UsageError(
            f"training this head takes {needs:,} MiB, and {most_bytes >> 20:,} MiB, half of what "
            "is free, may be used: end other programs"
        )
    return tokens
