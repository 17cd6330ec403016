"""Weights that are trained, by their names in a file; needs torch."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator

import torch
from torch.nn import functional as F

PEAK, WARM_UP, LEAST = 3e-3, 50, 1e-5  # of the learning rate
Losses = Callable[[torch.Tensor], Iterator[torch.Tensor]]


class Weights(dict[str, torch.nn.Parameter]):
    """Makes a weight when it is first asked for."""

    def weight(self, name: str, *shape: int) -> torch.Tensor:
        if name not in self:
            drawn = torch.randn(*shape) * (1.0 if "embd" in name else shape[-1] ** -0.5)
            self[name] = torch.nn.Parameter(torch.ones(*shape) if len(shape) == 1 else drawn)
        return self[name]

    def norm(self, x: torch.Tensor, name: str) -> torch.Tensor:
        return F.rms_norm(x, x.shape[-1:], self.weight(f"{name}.weight", x.shape[-1]), 1e-6)

    def linear(self, x: torch.Tensor, name: str, width: int) -> torch.Tensor:
        return x @ self.weight(f"{name}.weight", width, x.shape[-1]).T

    def learn(self, data: torch.Tensor, batch: int, minutes: float, losses: Losses) -> None:
        """Train for so many minutes of the processor; print the losses now and then."""
        list(losses(data[:2]))  # makes the weights
        learning = torch.optim.AdamW(self.values(), betas=(0.9, 0.95))
        begun, count = time.process_time(), 0
        while (done := (time.process_time() - begun) / (60 * minutes)) < 1:
            for group in learning.param_groups:
                group["lr"] = PEAK * min(1, WARM_UP * done) * (1 - done) + LEAST
            listed = list(losses(data[torch.randint(0, len(data), (batch,))]))
            learning.zero_grad()
            sum(listed).backward()
            torch.nn.utils.clip_grad_norm_(self.values(), 1.0)
            learning.step()
            count += 1
            if count % 100 == 0:
                print(count, [round(loss.item(), 2) for loss in listed], flush=True)
