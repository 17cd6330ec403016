"""The state of a training: all that its next step depends on, in one file."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from localspec.apps.training.head import shape_of
from localspec.apps.training.promise import HeldOut
from localspec.apps.training.support import CHECKPOINT
from localspec.interfaces.trained_head import HeadShape, TrainedHead

# Of the learning rate, over the root of a state's width: for 64 numbers 4.5e-3, which was better
# than 1.5e-3 and 3e-3, and 9e-3 hardly more. And the steps until it is reached.
PEAK, WARM_UP = 0.036, 30
STEADY = 1000  # steps after which it falls, by the root of the steps
LATE = 8  # the average of the weights is mostly of the last ninth of the steps
MOST_CHANGE = 1.0  # norm of a gradient
QUIET = 0.1  # what the layer adds at first, of what it will


@dataclass(slots=True)
class Progress:
    step: int = 0
    epoch: int = 0
    batch: int = 0  # of the epoch
    tokens: int = 0  # learned from, each as often as it was read
    next_look: int = 0  # the step after which held-out texts are judged


@dataclass(frozen=True, slots=True)
class Beginning:
    """A head, and the tokens that it can draft."""

    shape: HeadShape
    weights: dict[str, Tensor]
    vocabulary: NDArray[np.int64]

    @classmethod
    def of_head(cls, head: TrainedHead, scale: Tensor) -> Beginning:
        """Take a published head, whose first matrix scales the states itself."""
        weights = {name: torch.from_numpy(array) for name, array in head.tensors.items()}
        return cls(head.shape, {**weights, "fc": weights["fc"] / scale}, head.tokens)


class State:
    """The weights of a head, their recent average, and the moments of AdamW."""

    def __init__(
        self,
        beginning: Beginning,
        scale: Tensor,
        batch_tokens: int,
        *,
        in_half: bool,
    ) -> None:
        weights = beginning.weights
        self.shape, self.vocabulary = beginning.shape, beginning.vocabulary
        self.weights = {name: weight.requires_grad_() for name, weight in weights.items()}
        self.average = {name: weight.detach().clone() for name, weight in weights.items()}
        self.scale, self.batch_tokens = scale, batch_tokens
        self.in_half = in_half  # whether steps multiply in bfloat16
        self.progress, self.measured = Progress(), list[HeldOut]()
        self._optimizer = torch.optim.AdamW(
            self.weights.values(), betas=(0.9, 0.95), weight_decay=0.01
        )

    def step(self, loss: Tensor) -> None:
        """Change the weights once; a loss that is no number changes nothing."""
        self._optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(self.weights.values(), MOST_CHANGE)
        at = self.progress.step
        for group in self._optimizer.param_groups:
            group["lr"] = learning_rate(at, self.shape.width)
        if norm.isfinite():
            self._optimizer.step()
        self.progress.step = at + 1
        share = min((LATE + 1) / (at + 1 + LATE), 1.0)
        with torch.no_grad():
            for name, weight in self.weights.items():
                self.average[name].lerp_(weight, share)

    def save(self, folder: Path) -> None:
        path = folder / CHECKPOINT
        unfinished = path.with_suffix(".part")
        content = {
            "shape": asdict(self.shape),
            "weights": self.weights,
            "average": self.average,
            "scale": self.scale,
            "vocabulary": torch.from_numpy(self.vocabulary),
            "batch_tokens": self.batch_tokens,
            "in_half": self.in_half,
            "progress": asdict(self.progress),
            "measured": [tuple(held_out) for held_out in self.measured],
            "optimizer": self._optimizer.state_dict(),
        }
        torch.save(content, unfinished)
        unfinished.replace(path)

    @classmethod
    def load(cls, folder: Path, device: torch.device) -> State | None:
        """Read the newest state; None where there is none."""
        path = folder / CHECKPOINT
        if not path.exists():
            return None
        saved: dict[str, Any] = torch.load(path, map_location=device, weights_only=True)
        weights = {name: weight.detach() for name, weight in saved["weights"].items()}
        vocabulary, tokens = saved["vocabulary"].cpu().numpy(), saved["batch_tokens"]
        if "shape" in saved:
            shape = HeadShape(**saved["shape"])
        else:  # as all were before one could begin with a published head
            shape = shape_of(len(weights["output_norm"]), len(vocabulary))
        beginning = Beginning(shape, weights, vocabulary)
        state = cls(beginning, saved["scale"], tokens, in_half=saved["in_half"])
        state.average = saved["average"]
        state.progress = Progress(**saved["progress"])
        state.measured = [HeldOut(*held_out) for held_out in saved["measured"]]
        state._optimizer.load_state_dict(saved["optimizer"])
        return state


def learning_rate(step: int, width: int) -> float:
    warm, late = min((step + 1) / WARM_UP, 1.0), max(step / STEADY, 1.0)
    return PEAK * warm / math.sqrt(width * late)


def first_weights(
    shape: HeadShape, outputs: NDArray[np.float32], norm: NDArray[np.float32], scale: Tensor
) -> dict[str, Tensor]:
    """Draw weights; at first a head passes on the last of the states that it reads.

    So its output matrix can be the target's, of the tokens that it drafts.
    """
    random = torch.Generator().manual_seed(0)
    weights = {}
    for name, size in shape.sizes.items():
        if len(size) == 1:
            weights[name] = torch.ones(size)
        else:
            weights[name] = torch.randn(size, generator=random) * size[1] ** -0.5
    for name in ("fc", "blk.0.attn_output", "blk.0.ffn_down"):
        weights[name] *= QUIET
    sizes = 1 / scale[-shape.width :]
    weights["fc"][:, -shape.width :] += torch.diag(sizes / sizes.mean())
    weights["output"], weights["output_norm"] = torch.from_numpy(outputs), torch.from_numpy(norm)
    return weights
