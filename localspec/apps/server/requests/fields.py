"""Fields that several APIs share."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import AliasChoices, BeforeValidator, Field, JsonValue

from localspec.apps.server.requests.forms import FormatFields
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.media_parts import MediaReference
from localspec.apps.server.requests.sampling import OPENAI, Bounds, SamplingFields
from localspec.apps.server.requests.validators import as_strings
from localspec.apps.server.served import Served
from localspec.core.proposers import registry
from localspec.core.requests.settings import MAX_LOGPROBS, Settings
from localspec.interfaces.backend import MAX_TENTATIVE

MAX_CHOICES = 16  # replies to one request
MAX_TOKENS = 1 << 31


def as_limit(value: object) -> object:
    """Read a limit; None, which is no limit, where it is negative or empty."""
    if isinstance(value, int | float):
        return int(min(value, MAX_TOKENS)) if value >= 0 else None
    return value or None


Object = dict[str, JsonValue]
Id = Annotated[int, Field(ge=0, lt=1 << 31)]  # of a token
Stops = Annotated[list[str], Field(max_length=256), BeforeValidator(as_strings)]
MaxTokens = Annotated[Annotated[int, Field(ge=0, le=MAX_TOKENS)] | None, BeforeValidator(as_limit)]
Copies = Annotated[int, Field(ge=1, le=MAX_CHOICES)]
Logprobs = Annotated[int, Field(ge=0, le=MAX_LOGPROBS)]


def as_name(value: object) -> object:
    """Read a name that may be a number."""
    return str(value) if isinstance(value, int | float) else value


def as_value(value: object) -> object:
    """Read a text that is a number, or stands in an object, as assistants of OpenAI wrote it."""
    return as_name(value.get("value", value) if isinstance(value, dict) else value)


def as_prediction(value: object) -> object:
    return {"content": value} if isinstance(value, str | list) else value


class TextPart(RequestPart):
    type: Literal["text", "input_text", "output_text", "refusal"]
    text: Annotated[str, BeforeValidator(as_value)] = ""
    refusal: str = ""

    @property
    def pieces(self) -> list[str]:
        return [self.text or self.refusal]


class StreamOptions(RequestPart):
    include_usage: bool = False


class Drafting(RequestPart):
    """The proposers and depth of one request."""

    proposer: str | None = None  # names with commas between them
    depth: int | None = Field(None, ge=0, le=MAX_TENTATIVE)
    plain: bool = False


class Prediction(RequestPart):
    type: Literal["content"] = "content"
    content: str | list[TextPart] = ""

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


class TextRequest(SamplingFields):
    """The fields of every request for text."""

    model: Annotated[str, BeforeValidator(as_name)] = ""  # the first that is served
    localspec: Drafting = Drafting(depth=None)

    def references(self) -> Sequence[MediaReference]:
        """List the pictures and sounds in the order in which they stand in the prompt."""
        return ()

    def base_settings(
        self,
        served: Served,
        max_tokens: int | None,
        stop: tuple[str, ...] = (),
        logprobs: int | None = None,
    ) -> Settings:
        drafting = self.localspec
        return Settings(
            max_tokens=None if max_tokens is None else max(max_tokens, 1),  # as llama.cpp does
            sampling=self.sampling_of(served),
            min_tokens=self.min_tokens,
            reuse_prefix=self.cache_prompt,
            ends=self.ends(served.runtime.tokenizer),
            seed=self.own_seed,
            stop=stop,
            logprobs=logprobs,
            banned_strings=self.bans,
            depth=0 if drafting.plain else drafting.depth,
            proposers=registry.parse(drafting.proposer) if drafting.proposer else None,
            adapters=self.adapters_of(served, self.model),
        )


class OpenAiRequest(FormatFields, TextRequest):
    """The fields of OpenAI's chat and plain completions."""

    bounds: ClassVar[Bounds] = OPENAI
    max_tokens: MaxTokens = None
    max_completion_tokens: MaxTokens = Field(
        None, validation_alias=AliasChoices("max_completion_tokens", "max_output_tokens")
    )
    n_predict: MaxTokens = None  # as llama.cpp calls it
    n: Copies = 1
    stop: Stops = Field(default_factory=list)
    stream: bool = False
    stream_options: StreamOptions | None = None
    prediction: Annotated[Prediction | None, BeforeValidator(as_prediction)] = None
    ignore_eos: bool = False
    n_probs: Logprobs = 0  # as llama.cpp calls them: log-probabilities, at each place of so many
    post_sampling_probs: bool = False  # as tokens were drawn, not the model's own

    @property
    def token_limit(self) -> int | None:
        limits = (self.max_completion_tokens, self.max_tokens, self.n_predict)
        return next((limit for limit in limits if limit is not None), None)

    def settings_with(
        self, served: Served, max_tokens: int | None, logprobs: int | None
    ) -> Settings:
        return replace(
            self.base_settings(served, max_tokens, tuple(self.stop), logprobs),
            ignore_end=self.ignore_eos,
            sampled_logprobs=self.post_sampling_probs,
            prediction=self.prediction.text if self.prediction else "",
        )

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if self.token_limit == 0:
            yield "max_tokens"  # which is one at least

    @property
    def wants_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)
