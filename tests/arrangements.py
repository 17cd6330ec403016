"""Where the layers of llama.cpp's models go in a run of the tests: `pytest --devices NAME`.

The memory of devices is a number: nothing is taken before it is used.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from localspec.interfaces.backend import Options
from localspec.interfaces.other_machines import WORKERS
from tests.rpc_devices import GB, RpcDevice, workers


@dataclass(frozen=True)
class Arrangement:
    """Devices by their bytes, and how models are loaded if a test leaves it open."""

    devices: Sequence[int] = ()
    target: Mapping[str, object] = field(default_factory=dict)
    draft: Mapping[str, object] = field(default_factory=dict)
    card: bool = False  # the first GPU that is here, rather than devices made for the run
    rounding: float = 6e-3  # of logits, in batches of other shapes
    near_tie: float = 1e-2  # logits so far apart may change places
    compared: int = 4  # tokens of a head's draft: what rounds otherwise may go on otherwise
    models: Sequence[str] = ()  # that stand for all of the tests' models

    @property
    def on_cpu(self) -> bool:
        return not self.devices and not self.card

    def arranged(self, options: Options) -> Options:
        wishes = self.draft if options.drafting else self.target
        if options.bit_exact and not self.on_cpu:  # which the CPU alone can do
            return replace(options, gpu_layers=0)
        if options.gpu_layers is not None or options.split:
            return options
        if self.models and is_quantised(options.kv_type):
            wishes = FLASH
        return replace(options, **wishes)  # type: ignore[arg-type]


def is_quantised(kv_type: str) -> bool:
    """Tell whether the values are, which llama.cpp keeps for flash attention only."""
    return kv_type.rpartition(",")[2].startswith("q")


# Mesa's device in software takes seconds for a test: one model of each kind stands for all.
SOME = (
    *("llama", "gemma3", "glm4moe-mtp", "qwen35-mtp"),
    *("gemma4-mtp", "llama-eagle3", "llama-dflash"),  # with a head in a file of its own
)
# NVIDIA's cards multiply numbers of 32 bits as such of 19 where a batch has more than three tokens.
CARD_ROUNDING = 5e-2
# Mesa 22.3 hangs, or dies, of flash attention to more than eight tokens at once.
NO_FLASH = {"flash_attention": False}
FLASH = {"flash_attention": True, "batch": 8, "tentative": 4}
ARRANGEMENTS = {
    "cpu": Arrangement(),
    "all": Arrangement([4 * GB]),
    "half": Arrangement([4 * GB], {"gpu_layers": 2}, {"gpu_layers": 1}),
    "two": Arrangement([4 * GB, 3 * GB], {"split": (2.0, 1.0)}, {"split": (1.0, 2.0)}),
    "apart": Arrangement([4 * GB, 3 * GB], {"split": (1.0, 0.0)}, {"split": (0.0, 1.0)}),
    "gpu": Arrangement(card=True, rounding=CARD_ROUNDING, near_tie=2 * CARD_ROUNDING, compared=1),
    "llvmpipe": Arrangement((), NO_FLASH, NO_FLASH, card=True, models=SOME),
}


class Running:
    """The arrangement of this run, and its devices."""

    now = ARRANGEMENTS["cpu"]
    devices: Sequence[RpcDevice] = ()


def start(name: str) -> None:
    Running.now = ARRANGEMENTS[name]
    Running.devices = [RpcDevice(size) for size in Running.now.devices]
    if Running.devices:
        os.environ[WORKERS] = workers(Running.devices)


def stop() -> None:
    for device in Running.devices:
        device.kill()
