"""The request of /v1/completions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from localspec.engine.settings import Settings
from localspec.server.faults import refused
from localspec.server.model_host import Served
from localspec.server.requests.fields import Logprobs, OpenAiRequest
from localspec.server.requests.prepared import Prepared, prepare_text, with_infill_ends
from localspec.server.requests.prompts import One, PromptGiven, prompts, tokens
from localspec.templates.fill_in_middle import is_filled_in, middle

USUAL = 16  # tokens, by the API


class CompletionRequest(OpenAiRequest):
    prompt: PromptGiven = ""
    suffix: str | None = None
    echo: bool = False
    logprobs: Logprobs | None = None

    def settings(self, served: Served) -> Settings:
        if self.echo and self.logprobs is not None:
            raise refused("log-probabilities of a prompt are not here: leave echo away", "echo")
        settings = self.settings_with(served, self.most_here, self.logprobs)
        return replace(settings, grammar=self.form)

    @property
    def most_here(self) -> int | None:
        """All there is room for, where a client says so; the API's 16 where it says nothing."""
        named = {"max_tokens", "max_completion_tokens", "n_predict"} & self.model_fields_set
        return self.most if named else USUAL

    @property
    def prompts(self) -> Sequence[One]:
        return prompts(self.prompt, self.n)

    def prepare(self, served: Served) -> list[Prepared]:
        settings = self.settings(served)
        return [self._one(served, prompt, settings) for prompt in self.prompts]

    def _one(self, served: Served, prompt: One, settings: Settings) -> Prepared:
        runtime = served.runtime
        if not self.suffix and isinstance(prompt, str) and is_filled_in(runtime.tokenizer, prompt):
            return prepare_text(served, tokens(served, prompt), with_infill_ends(served, settings))
        if self.suffix is None or (not self.suffix and runtime.tokenizer.infill is None):
            found = runtime.encode(prompt) if isinstance(prompt, str) else tokens(served, prompt)
            return prepare_text(served, found, settings)
        if not isinstance(prompt, str):
            raise refused("a middle is filled in between texts, not tokens", "suffix")
        most = runtime.context // 2  # of it for the reply, whatever is wished
        room = runtime.context - min(settings.max_tokens or most, most)
        found = middle(runtime.tokenizer, prompt, self.suffix, limit=room)
        return prepare_text(served, found, with_infill_ends(served, settings))


class MiddleRequest(CompletionRequest):
    """The request of Mistral's /v1/fim/completions: a reply may be as long as there is room."""

    suffix: str | None = ""

    @property
    def most_here(self) -> int | None:
        return self.most

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        yield from ("echo",) * self.echo
        if self.logprobs is not None:
            yield "logprobs"
