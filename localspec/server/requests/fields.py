"""What requests of several APIs have in common. A field that nobody implements is an error."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, JsonValue

from localspec.engine.settings import LOGPROBS, Settings
from localspec.proposers import registry
from localspec.sampling.parameters import Sampling

CHOICES = 16  # most replies to one prompt


class Strict(BaseModel):
    """An unknown field is refused by name; numbers are numbers."""

    model_config = ConfigDict(extra="forbid", allow_inf_nan=False)


Object = dict[str, JsonValue]
Id = Annotated[int, Field(ge=0, lt=1 << 31)]  # of a token
Stops = Annotated[list[str], Field(max_length=64)]
Text = Literal["text", "input_text", "output_text"]


class TextPart(Strict):
    type: Text
    text: str
    cache_control: Object | None = None  # harmless: prefixes are kept anyway
    annotations: list[JsonValue] = Field(default_factory=list)  # harmless: of replies sent back
    logprobs: list[JsonValue] | None = None  # likewise


class StreamOptions(Strict):
    include_usage: bool = False
    include_obfuscation: bool = False  # harmless: nothing is padded


class Drafting(Strict):
    """Of one request: who guesses, how far, or nobody."""

    proposer: str | None = None  # names with commas between them
    depth: int | None = Field(None, ge=0, le=64)
    plain: bool = False


class Traced(Drafting):
    trace: bool = False  # whether a stream tells who said what


class Prediction(Strict):
    type: Literal["content"]
    content: str | list[TextPart]

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content)


class Sampled(Strict):
    """How a reply is drawn; what is left open is as the model's makers recommend."""

    temperature: float | None = Field(None, ge=0, le=100)
    top_p: float | None = Field(None, ge=0, le=1)
    top_k: int | None = Field(None, ge=-1, le=1 << 31)
    min_p: float | None = Field(None, ge=0, le=1)
    presence_penalty: float | None = Field(None, ge=-100, le=100)
    frequency_penalty: float | None = Field(None, ge=-100, le=100)
    repetition_penalty: float | None = Field(None, ge=0.01, le=100)
    logit_bias: dict[int, Annotated[float, Field(ge=-100, le=100)]] | None = None
    seed: int | None = Field(None, ge=-(1 << 63), lt=1 << 64)

    def sampling(self, usual: Sampling) -> Sampling:
        """On top of what a model is usually sampled with."""

        def pick(given: float | None, otherwise: float) -> float:
            return otherwise if given is None else given

        return Sampling(
            temperature=pick(self.temperature, usual.temperature),
            top_k=max(usual.top_k if self.top_k is None else self.top_k, 0),
            top_p=max(pick(self.top_p, usual.top_p), 1e-9),  # 0 means the likeliest to many
            min_p=pick(self.min_p, usual.min_p),
            repetition=pick(self.repetition_penalty, usual.repetition),
            presence=pick(self.presence_penalty, usual.presence),
            frequency=pick(self.frequency_penalty, usual.frequency),
            bias=self.logit_bias or {},
        )


class Wished(Sampled):
    """What every request for text may say."""

    model: str = ""  # the first that is served
    localspec: Drafting = Drafting(depth=None)

    def wishes(
        self,
        usual: Sampling,
        max_tokens: int | None,
        stop: tuple[str, ...] = (),
        logprobs: int | None = None,
    ) -> Settings:
        guessing = self.localspec
        return Settings(
            max_tokens=max_tokens,
            sampling=self.sampling(usual),
            seed=None if self.seed is None else self.seed % (1 << 64),
            stop=stop,
            logprobs=logprobs,
            depth=0 if guessing.plain else guessing.depth,
            proposers=registry.check(guessing.proposer) if guessing.proposer else None,
        )


class Asked(Wished):
    """What chat and plain completions share."""

    max_tokens: int | None = Field(None, ge=1, le=1 << 31)
    n: int = Field(1, ge=1, le=CHOICES)
    stop: str | Stops | None = None
    stream: bool = False
    stream_options: StreamOptions | None = None
    prediction: Prediction | None = None
    ignore_eos: bool = False
    # Harmless: they ask for nothing that a text could show.
    user: str | None = None
    metadata: Object | None = None
    store: bool | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_retention: str | None = None
    cache_prompt: bool | None = None

    def settings_with(
        self, usual: Sampling, max_tokens: int | None, logprobs: int | None
    ) -> Settings:
        return replace(
            self.wishes(usual, max_tokens, self.stops, logprobs),
            ignore_end=self.ignore_eos,
            prediction=self.prediction.text if self.prediction else "",
        )

    @property
    def wants_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)

    @property
    def stops(self) -> tuple[str, ...]:
        if self.stop is None:
            return ()
        return (self.stop,) if isinstance(self.stop, str) else tuple(self.stop)


class Function(Strict):
    name: str = Field(pattern=r"^[a-zA-Z0-9_.:/-]{1,128}$")
    description: str | None = None
    parameters: Object | None = None
    strict: bool | None = None


class ToolGiven(Strict):
    type: Literal["function"]
    function: Function


class FunctionNamed(Strict):
    name: str


class ToolNamed(Strict):
    type: Literal["function"]
    function: FunctionNamed


class CallGiven(Strict):
    """A call in a message that a client sends back."""

    id: str | None = None
    type: Literal["function"] = "function"
    index: int | None = None
    function: CalledFunction


class CalledFunction(Strict):
    name: str
    arguments: str | Object


class MessageGiven(Strict):
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: str | list[TextPart] | None = None
    name: str | None = None
    tool_calls: list[CallGiven] | None = None
    tool_call_id: str | None = None
    reasoning_content: str | None = None
    refusal: str | None = None  # harmless: of replies sent back
    annotations: list[JsonValue] | None = None
    audio: None = None
    function_call: None = None


class JsonSchema(Strict):
    name: str = ""
    description: str | None = None
    schema_: Object = Field(default_factory=dict, alias="schema")
    strict: bool | None = None


class Format(Strict):
    type: Literal["text", "json_object", "json_schema"]
    json_schema: JsonSchema | None = None


Logprobs = Annotated[int, Field(ge=0, le=LOGPROBS)]
