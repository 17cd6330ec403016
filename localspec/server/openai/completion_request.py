"""The request of /v1/completions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field

from localspec.engine.settings import Settings
from localspec.sampling.parameters import Sampling
from localspec.server.faults import refused
from localspec.server.model_host import Served
from localspec.server.requests.asking import Prepared, filling, plain
from localspec.server.requests.fields import CHOICES, Asked, Id, Logprobs
from localspec.templates.fill_in_middle import middle

Ids = Annotated[list[Id], Field(min_length=1)]
USUAL = 16  # tokens, by the API


class CompletionRequest(Asked):
    prompt: str | Ids | Annotated[list[str | Ids], Field(min_length=1, max_length=CHOICES)] = ""
    suffix: str | None = None
    echo: bool = False
    logprobs: Logprobs | None = None

    def settings(self, usual: Sampling) -> Settings:
        if self.echo and self.logprobs is not None:
            raise refused("log-probabilities of a prompt are not here: leave echo away", "echo")
        settings = self.settings_with(usual, self.most_here, self.logprobs)
        return replace(settings, grammar=self.form)

    @property
    def most_here(self) -> int | None:
        """All there is room for, where a client says so; the API's 16 where it says nothing."""
        named = {"max_tokens", "max_completion_tokens", "n_predict"} & self.model_fields_set
        return self.most if named else USUAL

    @property
    def prompts(self) -> Sequence[str | list[int]]:
        """The prompts, one or several."""
        if isinstance(self.prompt, str):
            return [self.prompt]
        texts = [each for each in self.prompt if not isinstance(each, int)]
        ids = [each for each in self.prompt if isinstance(each, int)]
        found = texts or [ids]
        if len(found) * self.n > CHOICES:
            raise refused(f"a request may have {CHOICES} replies", "n")
        return found

    def prepared(self, served: Served) -> list[Prepared]:
        settings = self.settings(served.offer.usual)
        return [self._one(served, prompt, settings) for prompt in self.prompts]

    def _one(self, served: Served, prompt: str | list[int], settings: Settings) -> Prepared:
        runtime = served.runtime
        if self.suffix is None:
            tokens = runtime.encode(prompt) if isinstance(prompt, str) else prompt
            return plain(served, tokens, settings)
        if not isinstance(prompt, str):
            raise refused("a middle is filled in between texts, not tokens", "suffix")
        most = runtime.context // 2  # of it for the reply, whatever is wished
        room = runtime.context - min(settings.max_tokens or most, most)
        tokens = middle(runtime.tokenizer, prompt, self.suffix, limit=room)
        return plain(served, tokens, filling(served, settings))
