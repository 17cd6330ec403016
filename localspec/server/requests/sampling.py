"""Sampling parameters by the names of all APIs; what is left open follows the model's makers."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Annotated, ClassVar

from pydantic import BeforeValidator, ConfigDict, JsonValue

from localspec.sampling.parameters import GREEDY, PARAMETERS, Parameter, Sampling
from localspec.server.faults import refused
from localspec.server.model_host import Served
from localspec.server.requests.leniency import RequestPart
from localspec.tokenizer import Tokenizer

NAMED = {name: each for each in PARAMETERS for name in each.names}
# Of samplers that LocalSpec lacks: how, where NEUTRAL in `leniency` says whether.
MANNERS = frozenset(
    {
        *("mirostat_tau", "mirostat_eta", "dynatemp_exponent", "xtc_threshold", "dry_base"),
        *("dry_allowed_length", "dry_penalty_last_n", "dry_sequence_breakers"),
        *("dynamic_temperature", "dynatemp_low", "dynatemp_high", "smoothing_curve"),
    }
)
LETTERS = {
    "e": "penalties",
    "d": "dry",
    "s": "top_n_sigma",
    "k": "top_k",
    "y": "typ_p",
    "p": "top_p",
    "m": "min_p",
    "x": "xtc",
    "t": "temperature",
    "i": "infill",
}
SPELLED = 256  # most characters of samplers
SAMPLERS = frozenset({*LETTERS.values(), "typical_p"})


def spelled(given: object) -> object:
    """Read samplers given by one letter each, or by names with semicolons between them."""
    if not isinstance(given, str) or len(given) > SPELLED:
        return given
    if ";" in given or given in SAMPLERS:
        return given.split(";")
    return [LETTERS.get(each, each) for each in given]


def by_token(given: object) -> object:
    """Read tokens and texts with their bias, also as llama.cpp's pairs; false forbids a token."""
    if isinstance(given, dict):
        given = [[token, value] for token, value in given.items()]
    if given == "" or isinstance(given, bool):
        return {}
    if not isinstance(given, list) or not all(isinstance(x, list) and len(x) == 2 for x in given):
        return given
    return {
        _key(token): -STRONGEST if value is False else value
        for token, value in given
        if isinstance(token, int | str) and value is not True and value is not None
    }


def as_whole(given: object) -> object:
    """A seed that a form wrote with a fraction, or left empty."""
    if given == "":
        return None
    return int(given) if isinstance(given, float) and math.isfinite(given) else given


def _key(token: int | str) -> int | str:
    """A number in quotes is a token, anything else a text, as llama.cpp has it."""
    try:
        return int(token)
    except ValueError:
        return token


Bias = dict[int | str, float]
Bounds = Mapping[str, tuple[float, float]]  # by the field of a parameter
OPENAI: Bounds = {"temperature": (0, 2)}
ANTHROPIC: Bounds = {"temperature": (0, 1)}
STRONGEST = 100.0  # bias: more of it changes nothing


class SamplingFields(RequestPart):
    """Sampling parameters are fields that the table beside `Sampling` names."""

    model_config = ConfigDict(
        json_schema_extra={"properties": {name: {"type": "number"} for name in NAMED}}
    )
    clamps: ClassVar[bool] = False  # values out of bounds, as llama.cpp and Ollama do
    bounds: ClassVar[Bounds] = {}  # of an API that has narrower ones than a parameter itself
    logit_bias: Annotated[Bias | None, BeforeValidator(by_token)] = None
    seed: Annotated[int | None, BeforeValidator(as_whole)] = None  # -1: another one each time
    samplers: Annotated[list[str] | None, BeforeValidator(spelled)] = None

    @property
    def own_seed(self) -> int | None:
        return None if self.seed is None or self.seed == -1 else self.seed % (1 << 64)

    def sampling_of(self, served: Served) -> Sampling:
        """Replace what is given in the usual sampling of a model that is loaded."""
        return replace(self.sampling(served.offer.usual), bias=self.bias(served.runtime.tokenizer))

    def bias(self, tokenizer: Tokenizer) -> dict[int, float]:
        """Bias each token of a text; clients know tokens of other models, which change nothing."""
        found: dict[int, float] = {}
        for key, value in (self.logit_bias or {}).items():
            tokens = [key] if isinstance(key, int) else tokenizer.encode(key).tolist()
            found |= dict.fromkeys(tokens, min(max(value, -STRONGEST), STRONGEST))
        return {token: value for token, value in found.items() if 0 <= token < tokenizer.size}

    def sampling(self, usual: Sampling) -> Sampling:
        """Replace the parameters that are given."""
        found = usual
        for each in PARAMETERS:
            for name in each.names:
                if name in self._extra:
                    value = self._bounded(each, name, number(each, name, self._extra[name]))
                    found = each.put(found, value)
                    break
        return listed(found, self.samplers)

    def _bounded(self, each: Parameter, name: str, value: float) -> float:
        if each.off is not None and (value == each.off or (self.clamps and value < each.off)):
            return each.neutral
        least = each.low if each.least is None else each.least
        least, most = self.bounds.get(each.field, (least, each.high))
        if not self.clamps and not least <= value <= most:
            what = f"{name} is {value:g}; it must be at least {least:g} and at most {most:g}"
            raise refused(what, name)
        return min(max(value, each.low), each.high)

    @property
    def _extra(self) -> Mapping[str, JsonValue]:
        """Collect what is not declared; an empty field of a form is none."""
        return {name: each for name, each in (self.model_extra or {}).items() if each != ""}

    def heeds(self, name: str, value: object) -> bool:
        if name in NAMED:
            return True
        return name in MANNERS or super().heeds(name, value)

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        yield from (f"samplers.{each}" for each in self.samplers or () if each not in SAMPLERS)
        for name, each in NAMED.items():
            if name in self._extra:
                value = number(each, name, self._extra[name])
                if self._bounded(each, name, value) != value not in (each.least, each.off):
                    yield name


def number(each: Parameter, name: str, given: JsonValue) -> float:
    """A number, also where a form wrote it as a text."""
    try:
        if isinstance(given, str | int | float) and not isinstance(given, bool):
            found = float(given)
            if math.isfinite(found):
                return int(found) if each.whole else found
    except (ValueError, OverflowError):
        pass
    what = f"{name} is {str(given)[:40]!r}; it must be a number"
    raise refused(f"{what} from {each.low:g} to {each.high:g}", name)


def listed(sampling: Sampling, names: Sequence[str] | None) -> Sampling:
    """Keep only the samplers that are listed, if there is a list; their order stays ours.

    llama.cpp's "infill" keeps only tokens it is confident in: here that is the likeliest.
    """
    if names is None:
        return sampling
    plain = replace(GREEDY, temperature=0.0 if "infill" in names else 1.0)
    for each in PARAMETERS:
        sampler = each.field if each.field in SAMPLERS else "penalties"
        if sampler not in names or (each.field == "temperature" and "infill" in names):
            sampling = each.put(sampling, each.get(plain))
    return sampling
