"""Machines and models that are not at hand, as numbers."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from localspec.base.errors import UsageError
from localspec.interfaces.backend import Device, Needs, Options
from localspec.running.memory.machine import Machine
from localspec.running.memory.plan_request import PlanRequest

GB, MB = 1 << 30, 1 << 20
PROJECTOR = 900 * MB
CELL = {"auto": 1.0, "f16": 1.0, "q8_0": 17 / 32, "q4_0": 9 / 32}


@dataclass(frozen=True)
class Model:
    """A model as its makers describe it; sizes in bytes."""

    weights: int
    layers: int
    token: int  # 16-bit keys and values
    embeddings: int
    vocabulary: int
    state: int = 0
    quantises: bool = True  # its keys and values
    experts: int = 0  # bytes of the weights

    def needs(self, options: Options) -> Needs:
        if not self.quantises and options.kv_type not in ("auto", "f16"):
            raise UsageError("its keys and values cannot be quantised")
        if options.cpu_moe and not self.experts:
            raise UsageError("it has no experts")
        context = options.context or 8192
        cells = (
            min(context, options.draft.context) if options.drafting else context
        ) * options.slots
        logits = options.slots * (options.tentative + 1) * self.vocabulary * 4
        return Needs(
            weights=self.weights,
            cache=int(cells * self.token * CELL[options.kv_type]) + self.state * options.slots,
            working=100 * MB + cells * options.batch // 256 + logits,
            layers=self.layers,
            embeddings=self.embeddings + self.experts * (options.cpu_moe or 0) // self.layers,
            output=self.embeddings,
            tied=self.embeddings * 8 > self.weights,
            host=logits,
            projector=PROJECTOR if options.projector else 0,
        )


# By their configurations, with four or five bits a weight; drafts with eight.
MODELS = {
    "0.6b": Model(639 * MB, 28, 112 << 10, 165 * MB, 151_936),
    "1b": Model(1_321 * MB, 16, 32 << 10, 266 * MB, 128_256),
    "4b": Model(2_500 * MB, 36, 144 << 10, 250 * MB, 151_936),
    "8b": Model(5_030 * MB, 36, 144 << 10, 350 * MB, 151_936),
    "hybrid-9b": Model(5_400 * MB, 32, 32 << 10, 330 * MB, 248_320, 30 * MB, quantises=False),
    "14b": Model(9_000 * MB, 40, 160 << 10, 420 * MB, 151_936),
    "32b": Model(19_800 * MB, 64, 256 << 10, 600 * MB, 151_936),
    "moe-35b": Model(21_000 * MB, 40, 80 << 10, 400 * MB, 248_320, experts=18_000 * MB),
    "70b": Model(42_500 * MB, 80, 320 << 10, 560 * MB, 128_256),
}


def cpu(total: int, taken: int = 2 * GB) -> Machine:
    return Machine.of(Device("host memory", "cpu", total, total - taken), [])


def mac(total: int) -> Machine:
    """Make a Mac with the share of memory that Metal recommends: two thirds, or three quarters."""
    working = total * 2 // 3 if total <= 36 * GB else total * 3 // 4
    host = Device("host memory", "cpu", total, total - 4 * GB)
    return Machine.of(host, [Device("Apple", "integrated gpu", working, working)])


def pc(host: int, *gpus: int, taken: int = 500 * MB) -> Machine:
    cards = [Device(f"GPU {at}", "gpu", size, size - taken) for at, size in enumerate(gpus)]
    return Machine.of(Device("host memory", "cpu", host, host - 3 * GB), cards)


def home(host: int, *gpus: int, workers: tuple[int, ...], kind: str = "gpu") -> Machine:
    """Make a machine with the devices of workers beside its own."""
    far = [Device(f"box:{at}", "gpu", size, size, f"box:{at}") for at, size in enumerate(workers)]
    own = [Device(f"GPU {at}", kind, size, size) for at, size in enumerate(gpus)]
    return Machine.of(Device("host memory", "cpu", host, host - 3 * GB), [*far, *own])


MACHINES = {
    "8 GB laptop": cpu(8 * GB),
    "16 GB laptop": cpu(16 * GB),
    "32 GB box": cpu(32 * GB),
    "64 GB box": cpu(64 * GB, 4 * GB),
    "8 GB Mac": mac(8 * GB),
    "18 GB Mac": mac(18 * GB),
    "36 GB Mac": mac(36 * GB),
    "64 GB Mac": mac(64 * GB),
    "8 GB card": pc(16 * GB, 8 * GB),
    "12 GB card": pc(32 * GB, 12 * GB),
    "24 GB card": pc(64 * GB, 24 * GB),
    "two 24 GB cards": pc(64 * GB, 24 * GB, 24 * GB),
    "24 and 8 GB cards": pc(64 * GB, 24 * GB, 8 * GB),
}


def wanted(target: str, draft: str | None = None, insists: bool = False, **options) -> PlanRequest:
    drafting: dict[str, object] = {**options, "drafting": True}
    rehearsals: list[Callable[[Options], Needs] | None] = [
        MODELS[name].needs if name else None for name in (target, draft)
    ]
    assert rehearsals[0]
    return PlanRequest(
        rehearsals[0], Options(**options), 8192, rehearsals[1], Options(**drafting), insists
    )
