"""Options of a reply."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import IO

import click

from localspec.base.errors import UsageError
from localspec.console.options.declare import (
    INTEGER,
    NUMBER,
    OPENED,
    TEXT,
    combined,
    flag,
    option,
    repeated,
)
from localspec.core.requests.settings import Settings
from localspec.core.sampling.default_sampling import below
from localspec.core.sampling.lists import LISTS
from localspec.core.sampling.parameter import Parameter
from localspec.core.sampling.parameters import GREEDY, PARAMETERS, Sampling


def option_metadata(parameter: Parameter) -> Mapping[str, object]:
    """Declare the option of a sampling parameter."""
    kind = INTEGER if parameter.whole else NUMBER
    metadata = {"type": kind, "default": parameter.neutral, "help": parameter.about}
    return metadata | {"metavar": "N", "show_default": "the model's"}


def build_sampling(values: Mapping[str, float]) -> Sampling:
    sampling = GREEDY
    for parameter in PARAMETERS:
        sampling = parameter.choose(sampling, values[parameter.names[0]])
    return sampling


MEMBERS = {parameter.names[0]: option_metadata(parameter) for parameter in PARAMETERS}
SAMPLERS, BREAKERS = LISTS


def budget_option() -> int | None:
    """Declare the option of a budget for thought."""
    return option(
        click.IntRange(-1),
        "Most tokens of thought in a chat; 0: no thought, -1: no limit.",
        otherwise="the catalogue's, else no limit",
    )


def budget_message_option() -> str | None:
    return option(TEXT, "Text that ends a thought whose budget is spent.", "TEXT")


@dataclass(frozen=True, slots=True)
class ReplyOptions:
    max_tokens: int | None = option(
        INTEGER, "Maximum tokens to generate.", otherwise="until the context is full"
    )
    sampling: Sampling = combined(GREEDY, MEMBERS, build_sampling)
    samplers: str | None = option(TEXT, SAMPLERS.about, "NAME;...", otherwise="the model's")
    dry_sequence_breakers: str | None = option(
        TEXT, BREAKERS.about, "JSON", otherwise=BREAKERS.write(BREAKERS.get(GREEDY))
    )
    logit_bias: tuple[str, ...] = repeated(
        TEXT, "Value added to the logit of a token, by its number. May repeat.", "TOKEN=BIAS"
    )
    seed: int | None = option(
        INTEGER,
        "Seed of the sampling; the same one repeats a reply.",
        otherwise="another one each time",
    )
    stop: tuple[str, ...] = repeated(TEXT, "Text that ends the reply. May repeat.", "TEXT")
    ban: tuple[str, ...] = repeated(TEXT, "Text that the reply may not have. May repeat.", "TEXT")
    reasoning_budget: int | None = budget_option()
    reasoning_budget_message: str | None = budget_message_option()
    prediction: IO[str] | None = option(
        OPENED, "File to draft from, which the reply may repeat, e.g. one to be edited."
    )
    ignore_end: bool = flag("Generation past the end that the model chooses.")
    plain: bool = flag("Plain decoding, without drafts.")


def settings(options: ReplyOptions, logprobs: int | None = None) -> Settings:
    """Make the settings of a reply from its options."""
    sampling = replace(options.sampling, bias=dict(map(_bias, options.logit_bias)))
    for texts, text in ((SAMPLERS, options.samplers), (BREAKERS, options.dry_sequence_breakers)):
        sampling = sampling if text is None else texts.choose(sampling, text)
    return Settings(
        max_tokens=options.max_tokens,
        sampling=sampling,
        seed=options.seed,
        stop=options.stop,
        ignore_end=options.ignore_end,
        logprobs=logprobs,
        banned_strings=options.ban,
        depth=0 if options.plain else None,
        prediction=_text(options.prediction),
        reasoning_budget=options.reasoning_budget,
        reasoning_budget_message=options.reasoning_budget_message,
    )


def _text(file: IO[str] | None) -> str:
    try:
        return file.read() if file else ""
    except UnicodeDecodeError as error:
        raise UsageError(f"--prediction: {error}") from error


def _bias(text: str) -> tuple[int, float]:
    token, _, value = text.partition("=")
    try:
        return int(token), float(value)
    except ValueError:
        raise UsageError(f"logit bias {text!r} must be TOKEN=BIAS, e.g. 42=-1.5") from None


def set_sampling_fields(chosen: frozenset[str]) -> frozenset[str]:
    """Name the sampling parameters among the options that were given."""
    names = {parameter.names[0]: parameter.field for parameter in PARAMETERS}
    names |= {texts.name: texts.field for texts in LISTS} | {"logit_bias": "bias"}
    return frozenset(names[name] for name in chosen & names.keys())


def with_usual(usual: Sampling, requested: Settings, set_by_user: frozenset[str]) -> Settings:
    """Put the fields of sampling that the user sets over those of the model."""
    chosen = {name: getattr(requested.sampling, name) for name in set_by_user}
    sampling = replace(below(usual, chosen.get("temperature")), **chosen)
    return replace(requested, sampling=sampling)
