"""The options of Ollama's requests."""

from __future__ import annotations

import logging
from functools import cache
from typing import Literal

from pydantic import Field

from localspec.engine.settings import Settings
from localspec.grammar.grammar import Grammar
from localspec.server.model_host import Served
from localspec.server.requests.drawing import Drawn
from localspec.server.requests.samplers import One

LOG = logging.getLogger("localspec")


@cache
def tell_once(wished: int, context: int) -> None:
    """Log that a client wants more context than there is; it is answered with what there is."""
    LOG.warning("a client asks for num_ctx %d; the context is %d tokens", wished, context)


class Options(Drawn):
    num_predict: int | None = Field(None, ge=-2, le=1 << 31)  # under 1: no limit
    num_ctx: int | None = None
    tfs_z: One | None = None  # another way to draw: only as much of it as is none
    vocab_only: Literal[False] | None = None
    embedding_only: Literal[False] | None = None
    # Harmless: how a model is loaded, which the server was told when it started.
    num_batch: int | None = None
    num_gpu: int | None = None
    main_gpu: int | None = None
    num_thread: int | None = None
    num_keep: int | None = None  # of a context that overflows, which none does here
    numa: bool | None = None
    low_vram: bool | None = None
    f16_kv: bool | None = None
    use_mmap: bool | None = None
    use_mlock: bool | None = None
    logits_all: bool | None = None
    penalize_newline: Literal[True] | None = None  # penalties know no exceptions

    def settings(self, served: Served, grammar: Grammar | None) -> Settings:
        if (self.num_ctx or 0) > served.runtime.context:
            tell_once(self.num_ctx or 0, served.runtime.context)
        wanted = self.num_predict or 0
        return Settings(
            max_tokens=wanted if wanted > 0 else None,
            sampling=self.sampling(served.offer.usual),
            seed=self.own_seed,
            stop=self.stops,
            grammar=grammar,
        )
