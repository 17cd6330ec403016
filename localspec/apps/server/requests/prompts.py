"""Prompts as texts, as tokens, or as both in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from localspec.apps.server.requests.fields import Id
from localspec.apps.server.served import Served

Piece = Id | str
One = str | Annotated[list[Piece], Field(fail_fast=True)]  # tokens, and texts between them


def as_prompt(value: object) -> object:
    """Read texts that stand in objects, as beside pictures; refuse pictures."""
    if isinstance(value, list):
        return [as_prompt(prompt) for prompt in value] if any(map(is_object, value)) else value
    if isinstance(value, dict) and value.get("multimodal_data"):
        raise PydanticCustomError("unread", "only texts are read here: leave the pictures out")
    return as_text(value)


def as_text(value: object) -> object:
    return value.get("prompt_string", value) if isinstance(value, dict) else value


def is_object(value: object) -> bool:
    return isinstance(value, dict)


PromptField = Annotated[
    One | Annotated[list[One], Field(fail_fast=True)], BeforeValidator(as_prompt)
]


def is_one(prompt: Sequence[object]) -> bool:
    """Return whether a list is one prompt: tokens, with texts between them."""
    return any(isinstance(piece, int) for piece in prompt)


def tokens(served: Served, prompt: One) -> list[int]:
    """Tokenise a prompt; the texts of control tokens become those tokens, as in llama.cpp."""
    runtime = served.runtime
    first, *others = [prompt] if isinstance(prompt, str) else prompt or [""]
    ids = runtime.text.read(first) if isinstance(first, str) else [first]
    for piece in others:
        if isinstance(piece, str):
            ids += runtime.tokenizer.encode(piece, special=True).tolist()
        else:
            ids.append(piece)
    return ids
