"""What may be asked of /completion and /infill."""

from __future__ import annotations

import json
from collections.abc import Sequence

from pydantic import Field, JsonValue

from localspec.engine.settings import Settings
from localspec.grammar.grammar import Grammar
from localspec.sampling.parameters import Sampling
from localspec.server.faults import refused
from localspec.server.model_host import Served
from localspec.server.requests.asking import Prepared, filling, plain
from localspec.server.requests.drawing import Drawn
from localspec.server.requests.fields import Id, Object, Strict
from localspec.server.requests.samplers import Undrawn, Zero
from localspec.templates.fill_in_middle import middle


class Wished(Undrawn, Drawn):
    """What completions and middles share."""

    model: str = ""  # the first that is served
    n_predict: int = Field(-1, ge=-1, le=1 << 31)  # -1: no limit; 0: only read the prompt
    n_indent: int = Field(0, ge=0)  # of each line after the first
    t_max_predict_ms: float = -1  # after the first token, once a line is complete
    stream: bool = False
    response_fields: list[str] = Field(default_factory=list)
    ignore_eos: bool = False
    json_schema: Object | None = None
    grammar: str = ""
    n_probs: Zero | None = None
    # Harmless: they ask for nothing that a text could show.
    cache_prompt: bool | None = None  # prefixes are always kept
    id_slot: int | None = None  # the slot that holds most of the prompt is found
    n_keep: int | None = None  # of a context that overflows, which none does here
    n_discard: int | None = None
    n_cache_reuse: int | None = None
    t_max_prompt_ms: float | None = None  # llama.cpp's own server does not keep to it either

    def settings(self, usual: Sampling) -> Settings:
        if self.grammar:
            raise refused("GBNF is not known here: give a json_schema", "grammar")
        schema = self.json_schema
        return Settings(
            max_tokens=None if self.n_predict < 0 else max(self.n_predict, 1),
            sampling=self.sampling(usual),
            seed=self.own_seed,
            stop=self.stops,
            ignore_end=self.ignore_eos,
            depth=None if self.n_predict else 0,
            grammar=None if schema is None else Grammar("json_schema", json.dumps(schema)),
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
