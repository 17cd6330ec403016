"""The speed to expect of a model, by the weights that each token reads."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from math import inf

from localspec.base.errors import LocalSpecError
from localspec.base.system import chips, free_memory
from localspec.base.system.bandwidth import kept_speed
from localspec.interfaces.backend import Device
from localspec.running.memory.machine import size
from localspec.running.memory.planner import Limits, machine_within
from localspec.running.models.catalogue import find
from localspec.running.models.catalogue_file import DRAFTERS
from localspec.running.models.engines import Engine
from localspec.running.models.entry import Entry
from localspec.running.pulling.estimate import fitted_offer

# Of the rate at which memory is copied, the share that reading weights reached on two cores of an
# AMD EPYC, in Q4 to Q8; and what a token takes besides.
READING_SHARE, OVERHEAD_SECONDS = 0.5, 0.006
TALKING_SPEED = 8.0  # tokens a second, at which an answer comes about as fast as people read
REASONING_SPEED = 40.0  # where some hundreds of tokens come before the answer
# Of what is published of Apple's chips: 27B in four bits on an M5 Max took 30 ms a token, and a
# mixture that reads 1.8 GB 12.5 ms on an M2 Max and 12.7 on an M4 Pro.
CHIP_SHARE, CHIP_OVERHEAD_SECONDS = 0.8, 0.004
CHIP_TALKING_SPEED = 16.0  # of a GPU more is expected
# With a drafting head dense models were 1.5 to 1.75 times as fast from M3 on; before, MLX takes as
# long for each row of a draft as for a token.
HEAD_GAIN, HEAD_GENERATION = 1.5, 3
HEADS_OF_MODELS = frozenset(DRAFTERS) - {"none", "model"}


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast an engine reads weights on this machine."""

    bytes_a_second: float  # from the host's memory
    gpu_bytes: int = 0  # that GPUs have room for; how fast these read is not measured
    slow: bool = False  # the engine has no GPU here, and is slow without one
    busy: bool = False  # it was measured beside other programs
    overhead: float = OVERHEAD_SECONDS  # of a token, beside reading
    talking_speed: float = TALKING_SPEED
    head_gain: float = 1.0  # times as fast a dense model is with a drafting head, where known

    def tokens_a_second(self, weight_bytes: int, active_share: float = 1.0) -> float:
        """Return about how many to expect: `inf` from GPUs alone, 0 of a slow engine."""
        if self.slow:
            return 0.0
        on_host = max(weight_bytes - self.gpu_bytes, 0) * active_share
        return 1 / (on_host / self.bytes_a_second + self.overhead) if on_host else inf

    def is_quick(self, tokens_a_second: float, entry: Entry | None, drafter: str = "") -> bool:
        """Whether a speed is enough for a conversation, with the drafter if that is a head."""
        if entry and drafter in HEADS_OF_MODELS and entry.active_share == 1:
            tokens_a_second *= self.head_gain
        reasons = bool(entry and entry.reasons)
        return tokens_a_second >= (REASONING_SPEED if reasons else self.talking_speed)


def pace(engine: Engine, limits: Limits, devices: Sequence[Device] | None = None) -> Pace:
    """Measure how fast an engine can read weights here; it is asked for its devices if need be."""
    if devices is None:
        devices = engine.backend().probe()
    has_gpu = limits.device != "cpu" and any("gpu" in device.kind for device in devices)
    gpus = machine_within(devices, limits).gpus if has_gpu else ()
    if has_gpu and not gpus and (published := pace_of_chip(devices)):
        return published
    # An integrated GPU reads the host's memory, and as fast as it is copied at least.
    copying = kept_speed()
    rate = copying.bytes_a_second * (1 if has_gpu and not gpus else READING_SHARE)
    slow = engine.spec.slow_without_gpu and not has_gpu
    return Pace(rate, sum(gpu.available for gpu in gpus), slow, copying.busy)


def pace_of_chip(devices: Sequence[Device]) -> Pace | None:
    """Look up how fast one of Apple's chips reads weights; None: it is none, or not listed."""
    name = next(device.name for device in devices if "gpu" in device.kind)
    published = chips.read_bytes_a_second(name, free_memory.memory().total_bytes)
    if published is None:
        return None
    gain = HEAD_GAIN if chips.generation(name) >= HEAD_GENERATION else 1.0
    rate = published * CHIP_SHARE
    return Pace(
        rate,
        overhead=CHIP_OVERHEAD_SECONDS,
        talking_speed=CHIP_TALKING_SPEED,
        head_gain=gain,
    )


def speed_text(pace: Pace, tokens_a_second: float) -> str:
    """Describe a speed in a few words; it is the least where others were busy when it was taken."""
    if tokens_a_second == inf:
        return "on the GPU"
    if not tokens_a_second:
        return "slow without a GPU"
    count = round(tokens_a_second)
    if pace.busy:
        return f"{count} tokens/s or more" if count > 1 else "speed not known"
    return f"about {count} tokens/s" if count > 1 else "a token/s or less"


def expectation(name: str, backend: str, limits: Limits) -> str:
    """Describe the download and the speed of a missing model; "" if unknown."""
    bare, _, weights = name.partition(":")
    with suppress(LocalSpecError):
        entry = find(bare)
        engine, _, weights, listed = fitted_offer(entry, backend, weights, limits)
        engine_pace, count = pace(engine, limits), listed.bytes
        speed = speed_text(engine_pace, engine_pace.tokens_a_second(count, entry.active_share))
        reasons = ", and it reasons before it answers" if entry.reasons else ""
        return f"{weights} takes {size(count)}; {speed} here{reasons}"
    return ""
