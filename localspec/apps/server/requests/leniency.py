"""Leniency: fields without effect are accepted and reported."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from functools import cache
from types import NoneType, UnionType
from typing import Annotated, ClassVar, Union, get_args, get_origin

from pydantic import BaseModel, ConfigDict, JsonValue, model_validator
from pydantic.fields import FieldInfo
from pydantic_core import PydanticCustomError

MAX_NAME_LETTERS = 64  # of one reported name
MAX_HEADER = 512  # letters of all reported names
MAX_FIELDS = 1_000  # of one object, unknown ones included
MAX_ENTRIES = 10_000  # of a list or an object: messages, parts, calls
MAX_PROMPT_TOKENS = 1 << 20  # of a prompt by numbers
UNSAFE = re.compile(r"[^A-Za-z0-9_.:/-]+")

# Fields that could change no text, or ask for what is done in any case: not reported.
HARMLESS = frozenset(
    {
        *("user", "metadata", "client_metadata", "safety_identifier", "session_id", "request_id"),
        *(
            "keep_alive",
            "store",
            "service_tier",
            "inference_geo",
            "extra_headers",
            "num_retries",
            "verbose",
        ),
        # Prefixes are kept anyway, in the slot that holds most of them.
        *("cache_control", "copilot_cache_control", "cache_prompt", "id_slot", "cache"),
        *("prompt_cache_key", "prompt_cache_options", "prompt_cache_retention"),
        *("prompt_cache_breakpoint",),
        # Streams are not padded, times come at the end.
        *("include_obfuscation", "timings_per_token", "sse_ping_interval", "usage"),
        *("t_max_prompt_ms", "summary", "generate_summary", "execution", "time"),
        # The kind of a picture or a sound is read from its file.
        *("media_type", "mime_type", "mimeType", "source_type"),
        # Replies that come back with what servers and libraries wrote to them.
        *("id", "status", "index", "annotations", "citations", "refusal"),
        *("parsed", "parsed_arguments", "signature", "phase", "caller", "finish_reason"),
        # Calls follow their schemas in any case, and stream as they come.
        *("strict", "eager_input_streaming", "defer_loading", "input_examples", "output_schema"),
        *("allowed_callers", "async", "context_management", "diagnostics"),
    }
)

# Fields with the values that ask for what is done here anyway; other values are reported.
NEUTRAL: Mapping[str, tuple[JsonValue, ...]] = {
    **dict.fromkeys(("tfs_z", "tfs", "num_beams"), (1,)),
    **dict.fromkeys(("smoothing_factor", "top_a", "n_probs"), (0,)),
    **dict.fromkeys(("no_repeat_ngram_size", "epsilon_cutoff", "eta_cutoff"), (0,)),
    **dict.fromkeys(("length_penalty", "guidance_scale", "best_of", "n", "n_cmpl"), (1,)),
    **dict.fromkeys(("echo", "background", "use_beam_search", "logits_all"), (False,)),
    **dict.fromkeys(("vocab_only", "embedding_only", "multi_user_cache"), (False,)),
    **dict.fromkeys(("continue_final_message", "return_token_ids", "return_tokens"), (False,)),
    **dict.fromkeys(("include_stop_str_in_output", "post_sampling_probs"), (False,)),
    **dict.fromkeys(("ban_eos_token", "raw", "return_progress", "penalty_alpha"), (False,)),
    **dict.fromkeys(("n_keep", "n_discard", "n_cache_reuse"), (0,)),
    **dict.fromkeys(("truncate", "shift", "spaces_between_special_tokens"), (True,)),
    **dict.fromkeys(("encoder_repetition_penalty",), (1,)),
    **dict.fromkeys(("add_generation_prompt", "skip_special_tokens", "add_bos_token"), (True,)),
    **dict.fromkeys(("penalize_newline", "penalize_nl", "add_special"), (True,)),
    **dict.fromkeys(("functions", "mcp_servers", "images", "plugins"), ([],)),
    "logprobs": (False, 0, []),
    "prefix": (True,),
    "partial": (True,),
    "min_keep": (0, 1),
    "speed": ("standard",),
    "truncation": ("disabled",),
    "reasoning_format": ("auto", "deepseek"),
    "detail": ("auto", "high", "original"),  # pictures are read as finely as the model can
}


KINDS = frozenset({int, float, bool, str, list, dict, NoneType})


def is_none(field: FieldInfo, value: object) -> bool:
    """Return whether a value is empty and of another kind: so forms, PHP and Lua write nothing."""
    if value or not isinstance(value, str | list | dict) or field.metadata:
        return False
    annotation: object = field.annotation
    accepted = kinds(annotation)
    return accepted <= KINDS and type(value) not in accepted


@cache
def kinds(annotation: object) -> frozenset[object]:
    """Return the kinds of values that a field takes; objects of ours are dictionaries."""
    origin = get_origin(annotation)
    if origin in (Union, UnionType):
        return frozenset[object]().union(*map(kinds, get_args(annotation)))
    if origin is Annotated:
        return kinds(get_args(annotation)[0])
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return frozenset({dict})
    return frozenset({origin or annotation})


class RequestPart(BaseModel):
    """An object in a request: null is as good as absent, unknown fields are kept and reported."""

    model_config = ConfigDict(extra="allow", allow_inf_nan=False, frozen=True)
    most_entries: ClassVar[Mapping[str, int]] = {  # of a field, where it is not `MAX_ENTRIES`
        **dict.fromkeys(("prompt", "tokens", "context"), MAX_PROMPT_TOKENS),
        **dict.fromkeys(("tools", "functions"), 2_000),  # a client with all its servers has 200
        **dict.fromkeys(("logit_bias", "banned_tokens", "custom_token_bans"), 8_192),  # OpenAI: 300
    }

    @model_validator(mode="before")
    @classmethod
    def without_nulls(cls, data: object) -> object:
        if not isinstance(data, dict):
            return data
        check_entries(data, cls.most_entries)
        fields = cls.model_fields
        return {
            name: value
            for name, value in data.items()
            if value is not None and not (name in fields and is_none(fields[name], value))
        }

    def heeds(self, name: str, value: object) -> bool:
        """Return whether a field that is not declared has the effect it asks for."""
        return name in HARMLESS or value in NEUTRAL.get(name, ())

    def ignored(self) -> Iterator[str]:
        """Yield the paths of fields that have no effect."""
        extra = self.model_extra or {}
        yield from (name for name, value in extra.items() if not self.heeds(name, value))
        for name, value in self.__dict__.items():  # iterating over a model takes longer
            if isinstance(value, RequestPart | list):
                yield from (f"{name}.{path}" for path in _within(value))


def check_entries(data: Mapping[str, object], most: Mapping[str, int]) -> None:
    """Refuse an object with so many fields or entries that checking it takes seconds."""
    if len(data) > MAX_FIELDS:
        raise too_many(f"an object has {len(data):,} fields; it may have {MAX_FIELDS:,}")
    for name, value in data.items():
        if isinstance(value, list | dict) and len(value) > most.get(name, MAX_ENTRIES):
            message = f"{safe(name)} has {len(value):,} entries"
            raise too_many(f"{message}; it may have {most.get(name, MAX_ENTRIES):,}")


def too_many(message: str) -> PydanticCustomError:
    return PydanticCustomError("too_many", "{message}", {"message": message})


class LeftOut(RequestPart):
    """A tool, item or block of a kind that no model reads."""

    type: str = "unknown"

    def ignored(self) -> Iterator[str]:
        yield self.type


def _within(value: object) -> Iterator[str]:
    match value:
        case RequestPart():
            yield from value.ignored()
        case list():
            for entry in value:
                yield from _within(entry)


def safe(name: str) -> str:
    """Make a client's name fit for headers, logs and labels."""
    return UNSAFE.sub("?", name)[:MAX_NAME_LETTERS] or "?"


def header(names: Iterable[str]) -> str:
    """Join names for a header: each once, as many as fit."""
    joined = ""
    for name in dict.fromkeys(map(safe, names)):
        longer = f"{joined}, {name}" if joined else name
        if len(longer) > MAX_HEADER:
            return f"{joined}, ..."
        joined = longer
    return joined
