"""The requests of /completion and /infill."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, Field, JsonValue
from pydantic_core import PydanticCustomError

from localspec.engine.settings import Settings
from localspec.sampling.parameters import Sampling
from localspec.server.faults import refused
from localspec.server.model_host import Served
from localspec.server.requests.asking import Prepared, filling, plain
from localspec.server.requests.fields import CHOICES, LONGEST, Id, Logprobs, Stops, Wished
from localspec.server.requests.forms import Formed
from localspec.server.requests.leniency import RequestPart
from localspec.templates.fill_in_middle import middle

Piece = Id | str
One = str | list[Piece]  # tokens, and texts between them


class CompletionFields(Formed, Wished):
    """The fields that completions and middles share."""

    clamps: ClassVar[bool] = True
    n_predict: int | None = None
    max_tokens: int = -1  # as OpenAI calls it
    n_indent: int = 0  # of each line after the first
    t_max_predict_ms: float = -1  # after the first token, once a line is complete
    stop: Stops = Field(default_factory=list)
    stream: bool = False
    response_fields: list[str] = Field(default_factory=list)
    ignore_eos: bool = False
    n_probs: Logprobs = 0  # the likeliest at each token, whose log-probabilities are told
    return_tokens: bool = False
    image_data: list[JsonValue] = Field(default_factory=list)

    @property
    def most(self) -> int:
        """The limit of tokens: below 0 none, and at 0 the prompt is only read."""
        return min(self.max_tokens if self.n_predict is None else self.n_predict, LONGEST)

    def settings(self, usual: Sampling) -> Settings:
        if self.image_data:
            raise refused("models here read text only: leave the images out", "image_data")
        most = self.most
        limit = None if most < 0 else max(most, 1)
        found = self.wishes(usual, limit, tuple(self.stop), self.n_probs or None)
        depth = found.depth if most else 0
        return replace(found, ignore_end=self.ignore_eos, grammar=self.form, depth=depth)


def as_prompt(given: object) -> object:
    """Read a text that is put as an object, beside images that there are none of."""
    if isinstance(given, list):
        return [as_prompt(each) for each in given] if any(map(is_object, given)) else given
    if not isinstance(given, dict) or "prompt_string" not in given:
        return given
    if given.get("multimodal_data"):
        raise PydanticCustomError("unread", "models here read text only: leave the images out")
    return given["prompt_string"]


def is_object(given: object) -> bool:
    return isinstance(given, dict)


class LlamaCompletionRequest(CompletionFields):
    prompt: Annotated[One | list[One], BeforeValidator(as_prompt)]

    @property
    def prompts(self) -> Sequence[One]:
        """One, also of tokens with texts between them, or several."""
        match self.prompt:
            case str():
                return [self.prompt]
            case [*parts] if parts and not any(isinstance(each, int) for each in parts):
                found: list[One] = [each for each in parts if not isinstance(each, int)]
            case _:
                return [[each for each in self.prompt if not isinstance(each, list)]]
        if len(found) > CHOICES:
            raise refused(f"a request may have {CHOICES} prompts", "prompt")
        return found

    def prepared(self, served: Served) -> list[Prepared]:
        settings = self.settings(served.offer.usual)
        return [plain(served, tokens(served, each), settings) for each in self.prompts]


def tokens(served: Served, prompt: One) -> list[int]:
    """Texts of control tokens stand for those tokens, as llama.cpp reads prompts."""
    runtime = served.runtime
    first, *others = [prompt] if isinstance(prompt, str) else prompt or [""]
    found = runtime.read(first) if isinstance(first, str) else [first]
    for each in others:
        if isinstance(each, str):
            found += runtime.tokenizer.encode(each, special=True).tolist()
        else:
            found.append(each)
    return found


class Extra(RequestPart):
    """A piece of another file."""

    text: str
    filename: str | None = None


class InfillRequest(CompletionFields):
    input_prefix: str = ""
    input_suffix: str = ""
    input_extra: Sequence[Extra] = ()
    prompt: str = ""

    def prepared(self, served: Served) -> list[Prepared]:
        context = served.runtime.context
        half = context // 2  # of it for the reply, whatever is wished
        wanted = half if self.most < 0 else min(max(self.most, 1), half)
        found = middle(
            served.runtime.tokenizer,
            self.input_prefix,
            self.input_suffix,
            [(each.filename or "other", each.text) for each in self.input_extra],
            self.prompt,
            context - wanted,
        )
        settings = filling(served, self.settings(served.offer.usual))
        return [plain(served, found, settings)]
