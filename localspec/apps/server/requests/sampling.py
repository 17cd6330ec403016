"""Sampling parameters by the names of all APIs; defaults are those of the model's makers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import AliasChoices, BeforeValidator, ConfigDict, Field, JsonValue

from localspec.apps.server.faults import refused
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.lora import LoraScales, by_number
from localspec.apps.server.requests.validators import as_strings
from localspec.apps.server.served import Served
from localspec.base.errors import UsageError
from localspec.base.tokenizer import Tokenizer
from localspec.core.sampling.default_sampling import below
from localspec.core.sampling.lists import read_texts
from localspec.core.sampling.order import known_samplers, sampler_name, split_samplers
from localspec.core.sampling.parameter import Parameter
from localspec.core.sampling.parameters import MAX_BREAKER, MAX_BREAKERS, PARAMETERS, Sampling

NAMED = {name: each for each in PARAMETERS for name in (*each.names, *each.aliases)}
TEMPERATURE = NAMED["temperature"]
# The lowest and highest dynamic temperature, and whether there is one, as others write it.
BETWEEN = (("dynatemp_low", "dynatemp_high"), ("min_temp", "max_temp"))
DYNAMIC = "dynamic_temperature"
HEEDED = frozenset({DYNAMIC, "smoothing_curve", *(name for pair in BETWEEN for name in pair)})
MAX_STOPS = 1024  # tokens that end a reply
MAX_SPELLED = 256  # characters of samplers
MAX_WRITTEN = 1 << 15  # characters of a list that is written as a text


def as_samplers(value: object) -> object:
    """Read samplers given by one letter each, or by names with semicolons between them."""
    if not isinstance(value, str) or len(value) > MAX_SPELLED:
        return value
    return split_samplers(value)


def as_texts(value: object) -> object:
    """Read a list of texts, also one that is written as a text; an empty text is none."""
    if not isinstance(value, str) or len(value) > MAX_WRITTEN:
        return value
    try:
        return list(read_texts(value)) if value else None
    except UsageError:
        return value


def as_bias(pairs: object) -> object:
    """Read tokens and texts with their bias, also as llama.cpp's pairs; false forbids a token."""
    if isinstance(pairs, dict):
        pairs = [[token, value] for token, value in pairs.items()]
    if pairs == "" or isinstance(pairs, bool):
        return {}
    if not isinstance(pairs, list) or not all(isinstance(x, list) and len(x) == 2 for x in pairs):
        return pairs
    return {
        _key(token): NEVER if value is False else value
        for token, value in pairs
        if isinstance(token, int | str) and value is not True and value is not None
    }


def as_tokens(value: object) -> object:
    """Read numbers of tokens, also with commas between them."""
    if not isinstance(value, str):
        return value
    return [int(number) for number in value.split(",") if number.strip().isdecimal()]


def as_whole(value: object) -> object:
    """Read a seed that a form wrote with a fraction, or left empty."""
    if value == "":
        return None
    return int(value) if isinstance(value, float) and math.isfinite(value) else value


def _key(token: int | str) -> int | str:
    """Take a number in quotes for a token, anything else for a text, as llama.cpp does."""
    try:
        return int(token)
    except ValueError:
        return token


Bias = dict[int | str, float]
Breaker = Annotated[str, Field(max_length=MAX_BREAKER)]
Breakers = Annotated[list[Breaker], Field(max_length=MAX_BREAKERS)]
Bounds = Mapping[str, tuple[float, float]]  # by the field of a parameter
OPENAI: Bounds = {"temperature": (0, 2)}
ANTHROPIC: Bounds = {"temperature": (0, 1)}
MAX_BIAS = 100.0  # more of it changes nothing
NEVER = -1000.0  # the least bias; a token that a grammar leaves no choice about has it in vain


class SamplingFields(RequestPart):
    """Fields for sampling, by the names in the table beside `Sampling`."""

    model_config = ConfigDict(
        json_schema_extra={"properties": {name: {"type": "number"} for name in NAMED}}
    )
    clamps: ClassVar[bool] = False  # values out of bounds, as llama.cpp and Ollama do
    bounds: ClassVar[Bounds] = {}  # of an API that has narrower ones than a parameter itself
    logit_bias: Annotated[Bias | None, BeforeValidator(as_bias)] = None
    seed: Annotated[int | None, BeforeValidator(as_whole)] = Field(  # -1: another one each time
        default=None, validation_alias=AliasChoices("seed", "random_seed", "sampler_seed")
    )
    samplers: Annotated[list[str] | None, BeforeValidator(as_samplers)] = None
    dry_sequence_breakers: Annotated[Breakers | None, BeforeValidator(as_texts)] = None
    banned_strings: Annotated[list[str], BeforeValidator(as_strings)] = Field(default_factory=list)
    # Numbers of tokens, as TabbyAPI calls them, or strings, as KoboldCpp does.
    banned_tokens: Annotated[list[int | str], BeforeValidator(as_tokens)] = Field(
        default_factory=list
    )
    custom_token_bans: Annotated[list[int], BeforeValidator(as_tokens)] = Field(
        default_factory=list
    )
    # As vLLM calls them.
    min_tokens: Annotated[int, Field(ge=0, le=1 << 31)] = 0
    cache_prompt: bool = True  # as llama.cpp calls it: go on from a prefix that a slot holds
    stop_token_ids: Annotated[
        list[int], Field(max_length=MAX_STOPS), BeforeValidator(as_tokens)
    ] = Field(default_factory=list)
    lora: LoraScales = Field(default_factory=list)

    def adapters_of(self, served: Served, model: str) -> Mapping[int, float] | None:
        """Return the scales of adapters for a request that names its model so."""
        return served.offer.adapters.chosen(model, by_number(self.lora))

    def ends(self, tokenizer: Tokenizer) -> frozenset[int]:
        """Return the tokens of the vocabulary that end the reply besides."""
        return frozenset(token for token in self.stop_token_ids if 0 <= token < tokenizer.size)

    @property
    def own_seed(self) -> int | None:
        return None if self.seed is None or self.seed == -1 else self.seed % (1 << 64)

    @property
    def bans(self) -> tuple[str, ...]:
        """Return the strings that may not be in the reply, each once."""
        also = (text for text in self.banned_tokens if isinstance(text, str) and text)
        return tuple(dict.fromkeys((*self.banned_strings, *also)))

    def sampling_of(self, served: Served) -> Sampling:
        """Replace the given parameters in the usual sampling of a loaded model."""
        return replace(self.sampling(served.offer.usual), bias=self.bias(served.runtime.tokenizer))

    def bias(self, tokenizer: Tokenizer) -> dict[int, float]:
        """Return the bias of each token; texts count by their tokens, unknown tokens not at all."""
        banned = (token for token in self.banned_tokens if isinstance(token, int))
        biases: dict[int, float] = dict.fromkeys((*banned, *self.custom_token_bans), NEVER)
        for key, value in (self.logit_bias or {}).items():
            tokens = [key] if isinstance(key, int) else tokenizer.encode(key).tolist()
            biases |= dict.fromkeys(tokens, min(max(value, NEVER), MAX_BIAS))
        return {token: value for token, value in biases.items() if 0 <= token < tokenizer.size}

    def sampling(self, usual: Sampling) -> Sampling:
        """Replace the given parameters."""
        numbers = dict(self._numbers())
        sampling = below(usual, numbers.get(TEMPERATURE))
        for parameter, value in numbers.items():
            sampling = parameter.put(sampling, value)
        sampling = self._between(sampling, self._extra)
        if self.dry_sequence_breakers is not None:
            breakers = tuple(text for text in self.dry_sequence_breakers if text)
            sampling = replace(sampling, dry_breakers=breakers)
        if self.samplers is not None:
            sampling = replace(sampling, samplers=known_samplers(self.samplers))
        return sampling

    def _numbers(self) -> Iterator[tuple[Parameter, float]]:
        """Yield the given parameters, each by the first of its names."""
        extra = self._extra
        for parameter in PARAMETERS:
            names = (*parameter.names, *parameter.aliases)
            if name := next((name for name in names if name in extra), None):
                value = number(parameter, name, extra[name])
                yield parameter, self._bounded(parameter, name, value)

    def _between(self, sampling: Sampling, extra: Mapping[str, JsonValue]) -> Sampling:
        """Read a dynamic temperature that is given by its lowest and highest."""
        if extra.get(DYNAMIC) is False:
            return replace(sampling, dynatemp_range=0.0)
        for pair in BETWEEN:
            if all(name in extra for name in pair):
                low, high = (
                    self._bounded(TEMPERATURE, name, number(TEMPERATURE, name, extra[name]))
                    for name in pair
                )
                if low < high:  # else it is one that others have as their default
                    middle = (low + high) / 2
                    return replace(sampling, temperature=middle, dynatemp_range=high - middle)
        return sampling

    def _bounded(self, parameter: Parameter, name: str, value: float) -> float:
        off = parameter.off
        if off is not None and (value == off or (self.clamps and value < off)):
            return parameter.neutral
        least = parameter.low if parameter.least is None else parameter.least
        least, most = self.bounds.get(parameter.field, (least, parameter.high))
        if not self.clamps and not least <= value <= most:
            message = f"{name} is {value:g}; it must be at least {least:g} and at most {most:g}"
            raise refused(message, name)
        return min(max(value, parameter.low), parameter.high)

    @property
    def _extra(self) -> Mapping[str, JsonValue]:
        """Return the undeclared fields, without empty ones of forms."""
        return {name: value for name, value in (self.model_extra or {}).items() if value != ""}

    def heeds(self, name: str, value: object) -> bool:
        return name in NAMED or name in HEEDED or super().heeds(name, value)

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        unknown = (name for name in self.samplers or () if not sampler_name(name))
        yield from (f"samplers.{name}" for name in unknown)
        extra = self._extra
        for name, parameter in NAMED.items():
            if name in extra:
                value = number(parameter, name, extra[name])
                bounded = self._bounded(parameter, name, value)
                if bounded != value and value not in (parameter.least, parameter.off):
                    yield name


def number(parameter: Parameter, name: str, value: JsonValue) -> float:
    """Read a number, also one that a form wrote as a text."""
    try:
        if isinstance(value, str | int | float) and not isinstance(value, bool):
            parsed = float(value)
            if math.isfinite(parsed):
                return int(parsed) if parameter.whole else parsed
    except (ValueError, OverflowError):
        pass
    message = f"{name} is {str(value)[:40]!r}; it must be a number"
    raise refused(f"{message} from {parameter.low:g} to {parameter.high:g}", name)
