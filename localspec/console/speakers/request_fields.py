"""The fields of a request for an answer, as OpenAI's API and its extensions name them."""

from __future__ import annotations

import json

from localspec.core.requests.settings import Settings
from localspec.core.sampling.lists import LISTS
from localspec.core.sampling.parameters import GREEDY, PARAMETERS, Sampling
from localspec.formats.templates.message import Json


def request_fields(settings: Settings, *, ours: bool) -> dict[str, Json]:
    """Leave out of a request to a foreign server the fields at their neutral value."""
    predicted = {"type": "content", "content": settings.prediction}
    more: dict[str, Json] = {
        "logit_bias": {str(token): value for token, value in settings.sampling.bias.items()},
        "stop": list(settings.stop),
        "banned_strings": list(settings.banned_strings),
        "ignore_eos": settings.ignore_end,
        "prediction": predicted if settings.prediction else None,
        "response_format": response_format(settings),
        "localspec": {**drafting_fields(settings), "trace": True} if ours else None,
    }
    numbers: dict[str, Json] = {
        "seed": settings.seed,
        "max_tokens": settings.max_tokens,
        "reasoning_budget_tokens": settings.reasoning_budget,  # as llama.cpp's server calls it
        "reasoning_budget_message": settings.reasoning_budget_message,
    }
    drawn, nothing = sampling_fields(settings.sampling), {} if ours else sampling_fields(GREEDY)
    return {
        **{name: value for name, value in drawn.items() if value != nothing.get(name)},
        "temperature": settings.sampling.temperature,  # 0 is what does nothing, and not usual
        **{name: value for name, value in numbers.items() if value is not None},
        **{name: value for name, value in more.items() if value},
    }


def sampling_fields(sampling: Sampling) -> dict[str, Json]:
    fields: dict[str, Json] = {p.names[0]: p.get(sampling) for p in PARAMETERS}
    return fields | {texts.name: list(texts.get(sampling)) for texts in LISTS}


def response_format(settings: Settings) -> Json:
    if settings.grammar is None:
        return None
    schema = {"name": "answer", "schema": json.loads(settings.grammar.text)}
    return {"type": "json_schema", "json_schema": schema}


def drafting_fields(settings: Settings) -> dict[str, Json]:
    fields: dict[str, Json] = {}
    if settings.depth is not None:
        fields["depth"] = settings.depth
    if settings.proposers is not None:
        fields["proposer"] = ",".join(settings.proposers) or "none"
    return fields
