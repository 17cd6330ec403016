"""What may be asked of /completion and /infill."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from localspec.grammar import Grammar
from localspec.infill import middle
from localspec.sampling import Sampling
from localspec.server.asking import Prepared, plain
from localspec.server.faults import refused
from localspec.server.fields import Object, Strict
from localspec.server.house import Served
from localspec.server.llamacpp.drawing import Drawn, Zero
from localspec.server.openai.completion_request import Id, filling
from localspec.settings import Settings

Sampler = Literal[
    "penalties",
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "infill",
    # Harmless: below, their parameters may only be such that they do nothing.
    "dry",
    "top_n_sigma",
    "typ_p",
    "typical_p",
    "xtc",
]


class Wished(Drawn):
    """What completions and middles share."""

    model: str = ""  # the first that is served
    n_predict: int = Field(-1, ge=-1, le=1 << 31)  # -1: no limit; 0: only read the prompt
    n_indent: int = Field(0, ge=0)  # of each line after the first
    t_max_predict_ms: float = -1  # after the first token, once a line is complete
    stream: bool = False
    samplers: list[Sampler] | None = None
    response_fields: list[str] = Field(default_factory=list)
    ignore_eos: bool = False
    json_schema: Object | None = None
    grammar: str = ""
    # Other ways to draw, which nobody implements here: only as much of them as is none.
    n_probs: Zero | None = None
    min_keep: Annotated[int, Field(ge=0, le=1)] | None = None
    dynatemp_range: Zero | None = None
    dynatemp_exponent: float | None = None  # harmless without a range
    xtc_probability: Zero | None = None
    xtc_threshold: float | None = None  # likewise
    top_n_sigma: Annotated[float, Field(le=0)] | None = None
    dry_multiplier: Zero | None = None
    dry_base: float | None = None  # harmless without a multiplier
    dry_allowed_length: int | None = None
    dry_penalty_last_n: int | None = None
    dry_sequence_breakers: list[str] | None = None
    lora: Annotated[list[JsonValue], Field(max_length=0)] | None = None
    # Harmless: they ask for nothing that a text could show.
    cache_prompt: bool | None = None  # prefixes are always kept
    id_slot: int | None = None  # the slot that holds most of the prompt is found
    n_keep: int | None = None  # of a context that overflows, which none does here
    n_discard: int | None = None
    n_cache_reuse: int | None = None
    t_max_prompt_ms: float | None = None  # llama.cpp's own server does not keep to it either
    timings_per_token: bool | None = None

    def settings(self, usual: Sampling) -> Settings:
        if self.grammar:
            raise refused("GBNF is not known here: give a json_schema", "grammar")
        schema = self.json_schema
        return Settings(
            max_tokens=None if self.n_predict < 0 else max(self.n_predict, 1),
            sampling=self._as_listed(self.drawn(usual)),
            seed=self.own_seed,
            stop=self.stops,
            ignore_end=self.ignore_eos,
            depth=None if self.n_predict else 0,
            grammar=None if schema is None else Grammar("json_schema", json.dumps(schema)),
        )

    def _as_listed(self, found: Sampling) -> Sampling:
        """With only the samplers that are listed, if there is a list; their order stays ours.

        llama.cpp's "infill" keeps only tokens it is confident in: here that is the likeliest.
        """
        names = self.samplers
        if names is None:
            return found
        temperature = found.temperature if "temperature" in names else 1.0
        penalises = "penalties" in names
        return Sampling(
            temperature=0.0 if "infill" in names else temperature,
            top_k=found.top_k if "top_k" in names else 0,
            top_p=found.top_p if "top_p" in names else 1.0,
            min_p=found.min_p if "min_p" in names else 0.0,
            repetition=found.repetition if penalises else 1.0,
            presence=found.presence if penalises else 0.0,
            frequency=found.frequency if penalises else 0.0,
            bias=found.bias,
        )


class CompletionRequest(Wished):
    prompt: str | list[Id | str]  # tokens, and texts between them

    def prepared(self, served: Served) -> list[Prepared]:
        """Texts of control tokens stand for those tokens, as llama.cpp reads prompts."""
        prompt, runtime = self.prompt, served.runtime
        first, *others = [prompt] if isinstance(prompt, str) else prompt or [""]
        tokens = runtime.read(first) if isinstance(first, str) else [first]
        for each in others:
            if isinstance(each, str):
                tokens += runtime.tokenizer.encode(each, special=True).tolist()
            else:
                tokens.append(each)
        return [plain(served, tokens, self.settings(served.offer.usual))]


class Extra(Strict):
    """A piece of another file."""

    text: str
    filename: str | None = None
    time: JsonValue = None  # harmless: when it was looked at


class InfillRequest(Wished):
    input_prefix: str
    input_suffix: str
    input_extra: Sequence[Extra] = ()
    prompt: str = ""

    def prepared(self, served: Served) -> list[Prepared]:
        context = served.runtime.context
        most = context // 2  # of it for the reply, whatever is wished
        wanted = most if self.n_predict < 0 else min(max(self.n_predict, 1), most)
        tokens = middle(
            served.runtime.tokenizer,
            self.input_prefix,
            self.input_suffix,
            [(each.filename or "other", each.text) for each in self.input_extra],
            self.prompt,
            context - wanted,
        )
        settings = filling(served, self.settings(served.offer.usual))
        return [plain(served, tokens, settings)]
