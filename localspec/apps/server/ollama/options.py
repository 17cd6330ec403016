"""The options of Ollama's requests."""

from __future__ import annotations

from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field

from localspec.apps.server.requests.fields import MAX_TOKENS, Stops
from localspec.apps.server.requests.sampling import SamplingFields, as_whole
from localspec.apps.server.served import Served
from localspec.core.requests.settings import Settings
from localspec.formats.grammar.grammar import Grammar

# Options of loading, which the server got when it started.
LOADING = frozenset(
    {
        *("num_batch", "num_gpu", "main_gpu", "num_thread", "num_keep", "numa", "low_vram"),
        *("f16_kv", "use_mmap", "use_mlock"),
    }
)


class OllamaOptions(SamplingFields):
    clamps: ClassVar[bool] = True
    num_predict: Annotated[int, BeforeValidator(as_whole)] = 0  # under 1: no limit
    num_ctx: int = 0
    stop: Stops = Field(default_factory=list)

    def heeds(self, name: str, value: object) -> bool:
        return name in LOADING or super().heeds(name, value)

    def settings(self, served: Served, grammar: Grammar | None) -> Settings:
        return Settings(
            max_tokens=min(self.num_predict, MAX_TOKENS) if self.num_predict > 0 else None,
            sampling=self.sampling_of(served),
            min_tokens=self.min_tokens,
            reuse_prefix=self.cache_prompt,
            ends=self.ends(served.runtime.tokenizer),
            seed=self.own_seed,
            stop=tuple(self.stop),
            grammar=grammar,
            banned_strings=self.bans,
        )
