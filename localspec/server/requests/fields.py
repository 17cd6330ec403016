"""Fields that several APIs share. A field without an implementation is an error."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Annotated, ClassVar, Literal

from pydantic import BeforeValidator, Field, JsonValue

from localspec.engine.settings import LOGPROBS, Settings
from localspec.proposers import registry
from localspec.server.model_host import Served
from localspec.server.requests.forms import FormatFields
from localspec.server.requests.leniency import RequestPart
from localspec.server.requests.sampling import OPENAI, Bounds, SamplingFields

CHOICES = 16  # most replies to one prompt
LONGEST = 1 << 31  # tokens
HALF = re.compile("[\ud800-\udfff]")


def as_stops(given: object) -> object:
    """One text, or several; one that is empty or has half a character ends nothing."""
    listed = given if isinstance(given, list) else [given]
    texts = [str(each) if isinstance(each, int | float) else each for each in listed]
    return [each for each in texts if each not in ("", None, {}) and whole(each)]


def whole(given: object) -> bool:
    """Tell whether a text has no half of a character, which no reply can have."""
    return not isinstance(given, str) or given.isascii() or not HALF.search(given)


def limit(given: object) -> object:
    """Read a limit; below 0, or in an empty field, it is as many as there is room for."""
    if isinstance(given, int | float):
        return int(min(given, LONGEST)) if given >= 0 else None
    return given or None


Object = dict[str, JsonValue]
Id = Annotated[int, Field(ge=0, lt=1 << 31)]  # of a token
Stops = Annotated[list[str], Field(max_length=256), BeforeValidator(as_stops)]
Most = Annotated[Annotated[int, Field(ge=0, le=LONGEST)] | None, BeforeValidator(limit)]
Copies = Annotated[int, Field(ge=1, le=CHOICES)]
Logprobs = Annotated[int, Field(ge=0, le=LOGPROBS)]


def as_value(given: object) -> object:
    """A text that stands in an object, as assistants of OpenAI wrote it, or that is a number."""
    found = given.get("value", given) if isinstance(given, dict) else given
    return str(found) if isinstance(found, int | float) else found


def as_name(given: object) -> object:
    return str(given) if isinstance(given, int | float) else given


def as_prediction(given: object) -> object:
    return {"content": given} if isinstance(given, str | list) else given


class TextPart(RequestPart):
    type: Literal["text", "input_text", "output_text"]
    text: Annotated[str, BeforeValidator(as_value)] = ""


class StreamOptions(RequestPart):
    include_usage: bool = False


class Drafting(RequestPart):
    """The proposers and depth of one request."""

    proposer: str | None = None  # names with commas between them
    depth: int | None = Field(None, ge=0, le=64)
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
    """The fields that every request for text shares."""

    model: Annotated[str, BeforeValidator(as_name)] = ""  # the first that is served
    localspec: Drafting = Drafting(depth=None)

    def base_settings(
        self,
        served: Served,
        max_tokens: int | None,
        stop: tuple[str, ...] = (),
        logprobs: int | None = None,
    ) -> Settings:
        guessing = self.localspec
        return Settings(
            max_tokens=None if max_tokens is None else max(max_tokens, 1),  # as llama.cpp does
            sampling=self.sampling_of(served),
            seed=self.own_seed,
            stop=stop,
            logprobs=logprobs,
            depth=0 if guessing.plain else guessing.depth,
            proposers=registry.check(guessing.proposer) if guessing.proposer else None,
        )


class OpenAiRequest(FormatFields, TextRequest):
    """The fields that chat and plain completions share."""

    bounds: ClassVar[Bounds] = OPENAI
    max_tokens: Most = None
    max_completion_tokens: Most = None
    n_predict: Most = None  # as llama.cpp calls it
    n: Copies = 1
    stop: Stops = Field(default_factory=list)
    stream: bool = False
    stream_options: StreamOptions | None = None
    prediction: Annotated[Prediction | None, BeforeValidator(as_prediction)] = None
    ignore_eos: bool = False

    @property
    def most(self) -> int | None:
        given = (self.max_completion_tokens, self.max_tokens, self.n_predict)
        return next((each for each in given if each is not None), None)

    def settings_with(
        self, served: Served, max_tokens: int | None, logprobs: int | None
    ) -> Settings:
        return replace(
            self.base_settings(served, max_tokens, tuple(self.stop), logprobs),
            ignore_end=self.ignore_eos,
            prediction=self.prediction.text if self.prediction else "",
        )

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        if self.most == 0:
            yield "max_tokens"  # which is one at least

    @property
    def wants_usage(self) -> bool:
        return bool(self.stream_options and self.stream_options.include_usage)
