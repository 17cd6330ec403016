"""The request of /v1/completions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from localspec.apps.server.faults import refused
from localspec.apps.server.requests.completion_prompts import (
    AnyPrompt,
    AnyPromptField,
    prompts,
    read,
    references_of,
    with_own_media,
)
from localspec.apps.server.requests.fields import Logprobs, OpenAiRequest
from localspec.apps.server.requests.media_parts import MediaReference
from localspec.apps.server.requests.prepared import Prepared, prepare_text, with_infill_ends
from localspec.apps.server.served import Served
from localspec.core.requests.settings import Settings
from localspec.formats.templates.fill_in_middle import is_filled_in, middle
from localspec.interfaces.media import Medium

DEFAULT_TOKENS = 16  # by the API


class CompletionRequest(OpenAiRequest):
    prompt: AnyPromptField = ""
    suffix: str | None = None
    echo: bool = False
    logprobs: Logprobs | None = None

    def engine_settings(self, served: Served) -> Settings:
        settings = self.settings_with(served, self.reply_limit, self.alternatives)
        return replace(settings, grammar=self.form, prompt_logprobs=self.scores)

    @property
    def scores(self) -> bool:
        """Return whether the tokens of the prompt are reported with their log-probabilities."""
        return self.echo and self.alternatives is not None

    @property
    def is_silent(self) -> bool:
        """Return whether the prompt is all that is asked for: its one token more is not shown."""
        return self.echo and self.token_limit == 0

    @property
    def alternatives(self) -> int | None:
        """Return how many tokens are reported at each place; None: no log-probabilities."""
        return (self.n_probs or None) if self.logprobs is None else self.logprobs

    @property
    def reply_limit(self) -> int | None:
        """Return the client's limit of tokens, or the API's 16 where it gives none."""
        named = {"max_tokens", "max_completion_tokens", "n_predict"} & self.model_fields_set
        return self.token_limit if named else DEFAULT_TOKENS

    def ignored(self) -> Iterator[str]:
        yield from (
            name for name in super().ignored() if name != "max_tokens" or not self.is_silent
        )

    @property
    def prompts(self) -> Sequence[AnyPrompt]:
        return prompts(self.prompt, self.n)

    def references(self) -> list[MediaReference]:
        return references_of(self.prompt)

    def prepare(self, served: Served, media: Sequence[Medium]) -> list[Prepared]:
        settings = self.engine_settings(served)
        pairs = with_own_media(self.prompts, media)
        return [self._one(served, prompt, own, settings) for prompt, own in pairs]

    def _one(
        self, served: Served, prompt: AnyPrompt, media: Sequence[Medium], settings: Settings
    ) -> Prepared:
        runtime = served.runtime
        if not self.suffix and isinstance(prompt, str) and is_filled_in(runtime.tokenizer, prompt):
            ids, _ = read(served, prompt, ())
            return prepare_text(served, ids, with_infill_ends(served, settings))
        if self.suffix is None or (not self.suffix and runtime.tokenizer.infill is None):
            if isinstance(prompt, str):
                return prepare_text(served, runtime.encode(prompt), settings)
            ids, runs = read(served, prompt, media)
            return prepare_text(served, ids, replace(settings, media=runs))
        if not isinstance(prompt, str):
            raise refused("a middle is filled in between texts, no tokens or pictures", "suffix")
        most = runtime.context // 2  # for the reply, whatever is asked for
        limit = runtime.context - min(settings.max_tokens or most, most)
        ids = middle(runtime.tokenizer, prompt, self.suffix, limit=limit)
        return prepare_text(served, ids, with_infill_ends(served, settings))


class MiddleRequest(CompletionRequest):
    """The request of Mistral's /v1/fim/completions: a reply may be as long as there is room."""

    suffix: str | None = ""

    @property
    def alternatives(self) -> int | None:
        return None  # a message has no log-probabilities

    @property
    def reply_limit(self) -> int | None:
        return self.token_limit

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        yield from ("echo",) * self.echo
        if self.logprobs is not None:
            yield "logprobs"
        if self.n_probs:
            yield "n_probs"
