"""The options of one reply, as callers from Python give them by name."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from difflib import get_close_matches
from typing import Any, TypedDict, get_args

from localspec.base.errors import UsageError
from localspec.core.requests.job import Form
from localspec.core.requests.settings import Settings
from localspec.core.sampling.default_sampling import below
from localspec.core.sampling.lists import LISTS
from localspec.core.sampling.parameter import check, document
from localspec.core.sampling.parameters import GREEDY, PARAMETERS, Sampling
from localspec.formats.grammar.grammar import Grammar
from localspec.formats.templates.message import Json, Message, Tool
from localspec.running.runtime.prompting import Choice, Conversation, name_of


class ReplyOptions(TypedDict, total=False):
    """The options of one reply; each takes precedence over `Settings`.

    Parameters of sampling that are left out are the model's own, see `Sampling`.

    max_tokens: most tokens of the reply; 4,096 without it; None: until the context is full
    seed: the same seed gives the same text
    stop: a text, or several, that end the reply
    logprobs: how many alternatives to report for each token, beside its log-probability
    sampled_logprobs: report them as tokens were drawn, after all samplers, not the model's own
    banned_strings: a text, or several, that the reply may not have, in small letters or in capitals
    prediction: a text that the reply is likely to repeat, which makes it faster
    proposers: those that may draft, by name
    depth: most tokens to draft in a round; 0 is plain decoding
    adapters: scales of the model's LoRA adapters, by number; others are off
    json_schema: a JSON schema that the reply follows, or a class of pydantic; {} is any object
    grammar: a `Grammar` that the reply follows
    tools: of a chat, in OpenAI's form
    tool_choice: "auto", "none", "required", or the name of a tool that has to be called
    thinking: of a chat: whether to reason before the answer; False ends a thought as it begins
    reasoning_budget: of a chat: most tokens of thought; 0 is no thought, -1 no limit
    reasoning_budget_message: a text that ends a thought whose budget is spent
    """

    temperature: float
    top_k: int
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    repeat_last_n: int
    typical_p: float
    top_n_sigma: float
    xtc_probability: float
    xtc_threshold: float
    dynatemp_range: float
    dynatemp_exponent: float
    dry_multiplier: float
    dry_base: float
    dry_allowed_length: int
    dry_penalty_last_n: int
    dry_sequence_breakers: Sequence[str]
    mirostat: int
    mirostat_tau: float
    mirostat_eta: float
    adaptive_target: float
    adaptive_decay: float
    samplers: Sequence[str]
    max_tokens: int | None
    seed: int | None
    stop: str | Sequence[str]
    logprobs: int | None
    sampled_logprobs: bool
    banned_strings: str | Sequence[str]
    prediction: str
    proposers: Sequence[str] | None
    depth: int | None
    adapters: Mapping[int, float] | None
    json_schema: Mapping[str, Json] | str | type[Form]
    grammar: Grammar | None
    tools: Sequence[Tool]
    tool_choice: str
    thinking: bool
    reasoning_budget: int | None
    reasoning_budget_message: str | None


document(ReplyOptions, {texts.name: texts.about for texts in LISTS})
document(ReplyOptions, {parameter.names[0]: parameter.about for parameter in PARAMETERS})

MAX_TOKENS = 4096  # of a reply whose caller chose no number; a context may take an hour
OF_CHATS = ("tools", "tool_choice", "thinking", "reasoning_budget", "reasoning_budget_message")
NAMES = tuple(ReplyOptions.__annotations__)
OF_SETTINGS = {field.name for field in fields(Settings)} & set(NAMES)


def settings_with(
    settings: Settings | None, options: ReplyOptions, usual: Sampling = GREEDY
) -> Settings:
    """Combine settings with the options beside them; without settings the sampling is the usual."""
    if settings is None:
        settings = Settings(sampling=below(usual, options.get("temperature")))
    if not isinstance(settings, Settings):
        raise UsageError(f"settings are {settings!r:.60}; they must be Settings(...)")
    values: Mapping[str, Any] = options
    for name in values:
        if name not in NAMES:
            close = get_close_matches(name, NAMES, 1)
            hint = f"did you mean {close[0]}?" if close else f"there are: {', '.join(NAMES)}"
            raise UsageError(f"there is no option {name!r}; {hint}")
    sampling = settings.sampling
    for parameter in PARAMETERS:
        name = parameter.names[0]
        if name in values:
            low, high = parameter.sensible or parameter.bounds
            check(name, values[name], low, high, whole=parameter.whole)
            sampling = parameter.put(sampling, values[name])
    for texts in LISTS:
        value = values.get(texts.name)
        if isinstance(value, str):
            sampling = texts.choose(sampling, value)
        elif value is not None:
            sampling = texts.put(sampling, tuple(value) if isinstance(value, list) else value)
    changes: dict[str, Any] = {
        name: as_tuple(name, values[name]) for name in OF_SETTINGS & values.keys()
    }
    if "json_schema" in options:
        changes["grammar"] = json_grammar(options["json_schema"])
    return replace(settings, sampling=sampling, **changes)


def as_tuple(name: str, value: object) -> object:
    """Put one text, or several, into a tuple where settings have one."""
    if name in ("stop", "banned_strings") and isinstance(value, str):
        return (value,)
    return tuple(value) if isinstance(value, list) else value


def json_grammar(schema: object) -> Grammar:
    """Read a JSON schema, given as a text, as what it stands for, or as a class of pydantic."""
    if isinstance(schema, type) and isinstance(schema, Form):
        schema = schema.model_json_schema()
    if isinstance(schema, str):
        return Grammar("json_schema", schema)
    if isinstance(schema, Mapping):
        return Grammar("json_schema", json.dumps(schema)) if schema else Grammar("json_object")
    raise UsageError(
        f"json_schema is {schema!r}; it must be a JSON schema, e.g. {{'type': 'object'}}, or a "
        "class of pydantic"
    )


def conversation_with(
    messages: Sequence[Message], settings: Settings, options: ReplyOptions
) -> Conversation:
    """Combine messages with the options of a chat."""
    tools = [require_tool(tool) for tool in options.get("tools", ())]
    choice = options.get("tool_choice", "auto")
    is_mode = choice in get_args(Choice)
    names = [name_of(tool) for tool in tools]
    if not is_mode and choice not in names:
        offered = ", ".join(map(str, names)) or "none"
        modes = ", ".join(get_args(Choice))
        raise UsageError(f"tool_choice is {choice!r}; it must be {modes} or a tool: {offered}")
    thinking = options.get("thinking")
    return Conversation(
        messages,
        tools,
        choice if is_mode else "auto",  # type: ignore[arg-type]
        None if is_mode else choice,
        format=settings.grammar,
        extra={} if thinking is None else {"enable_thinking": thinking},
    )


def require_tool(tool: object) -> Tool:
    """Require OpenAI's form of a tool; a function without its envelope gets one."""
    if isinstance(tool, Mapping) and "function" not in tool and "name" in tool:
        tool = {"type": "function", "function": tool}
    function = tool.get("function") if isinstance(tool, Mapping) else None
    if not isinstance(tool, Mapping) or not isinstance(function, Mapping) or "name" not in function:
        form = "{'type': 'function', 'function': {'name': ..., 'parameters': ...}}"
        raise UsageError(f"a tool is {tool!r:.80}; it must be {form}")
    return tool


def refuse_of_chats(options: ReplyOptions) -> None:
    """Refuse options of chats for a raw prompt."""
    if aside := [name for name in OF_CHATS if name in options]:
        raise UsageError(f"{aside[0]} is for a chat: give messages, or a text, to `chat`")
