"""Prompts as texts, as tokens, or as both in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from localspec.server.faults import refused
from localspec.server.requests.fields import MAX_CHOICES, Id
from localspec.server.served import Served

EMPTY = "the prompt is empty: give a text, or a token at least"
Piece = Id | str
One = str | Annotated[list[Piece], Field(fail_fast=True)]  # tokens, and texts between them


def as_prompt(value: object) -> object:
    """Read a text that stands in an object, as beside images; refuse images."""
    if isinstance(value, list):
        return [as_prompt(prompt) for prompt in value] if any(map(is_object, value)) else value
    if not isinstance(value, dict) or "prompt_string" not in value:
        return value
    if value.get("multimodal_data"):
        raise PydanticCustomError("unread", "models here read text only: leave the images out")
    return value["prompt_string"]


def is_object(value: object) -> bool:
    return isinstance(value, dict)


PromptField = Annotated[
    One | Annotated[list[One], Field(fail_fast=True)], BeforeValidator(as_prompt)
]


def count(prompt: str | list[Piece] | list[One], copies: int = 1) -> int:
    """Count the prompts, quickly where one has a million tokens; refuse too many."""
    if isinstance(prompt, str) or is_one(prompt):
        return 1
    if not prompt:
        raise refused(EMPTY, "prompt")
    if len(prompt) * copies > MAX_CHOICES:
        things, field = ("replies", "n") if copies > 1 else ("prompts", "prompt")
        raise refused(f"a request may have {MAX_CHOICES} {things}", field)
    return len(prompt)


def is_one(prompt: Sequence[Piece | One]) -> bool:
    """Return whether a list is one prompt: tokens, with texts between them."""
    return any(isinstance(piece, int) for piece in prompt)


def prompts(prompt: str | list[Piece] | list[One], copies: int = 1) -> list[One]:
    """List the prompts; one may be tokens with texts between them."""
    count(prompt, copies)
    if isinstance(prompt, str):
        return [prompt]
    if [] in prompt:
        raise refused(EMPTY, "prompt")
    if is_one(prompt):
        return [[piece for piece in prompt if not isinstance(piece, list)]]
    return [one for one in prompt if not isinstance(one, int)]


def tokens(served: Served, prompt: One) -> list[int]:
    """Tokenise a prompt; the texts of control tokens become those tokens, as in llama.cpp."""
    runtime = served.runtime
    first, *others = [prompt] if isinstance(prompt, str) else prompt or [""]
    ids = runtime.read(first) if isinstance(first, str) else [first]
    for piece in others:
        if isinstance(piece, str):
            ids += runtime.tokenizer.encode(piece, special=True).tolist()
        else:
            ids.append(piece)
    return ids
