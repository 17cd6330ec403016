"""The options of Ollama's requests."""

from __future__ import annotations

import logging
from functools import cache
from typing import ClassVar

from pydantic import Field

from localspec.engine.settings import Settings
from localspec.grammar.grammar import Grammar
from localspec.server.model_host import Served
from localspec.server.requests.fields import LONGEST, Stops
from localspec.server.requests.sampled import Sampled

LOG = logging.getLogger("localspec")

# How a model is loaded, which the server was told when it started.
LOADING = frozenset(
    {
        *("num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "numa", "low_vram"),
        *("f16_kv", "use_mmap", "use_mlock"),
    }
)


@cache
def tell_once(wished: int, context: int) -> None:
    """Log that a client wants more context than there is; it is answered with what there is."""
    LOG.warning("a client asks for num_ctx %d; the context is %d tokens", wished, context)


class Options(Sampled):
    clamps: ClassVar[bool] = True
    num_predict: int = 0  # under 1: no limit
    num_ctx: int = 0
    stop: Stops = Field(default_factory=list)

    def heeds(self, name: str, value: object) -> bool:
        return name in LOADING or super().heeds(name, value)

    def settings(self, served: Served, grammar: Grammar | None) -> Settings:
        if self.num_ctx > served.runtime.context:
            tell_once(self.num_ctx, served.runtime.context)
        return Settings(
            max_tokens=min(self.num_predict, LONGEST) if self.num_predict > 0 else None,
            sampling=self.sampling(served.offer.usual),
            seed=self.own_seed,
            stop=tuple(self.stop),
            grammar=grammar,
        )
