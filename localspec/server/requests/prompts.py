"""Prompts as texts, as tokens, or as both in turn."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field
from pydantic_core import PydanticCustomError

from localspec.server.faults import refused
from localspec.server.model_host import Served
from localspec.server.requests.fields import CHOICES, Id

EMPTY = "the prompt is empty: give a text, or a token at least"
Piece = Id | str
One = str | Annotated[list[Piece], Field(fail_fast=True)]  # tokens, and texts between them


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


PromptGiven = Annotated[
    One | Annotated[list[One], Field(fail_fast=True)], BeforeValidator(as_prompt)
]


def count(given: str | list[Piece] | list[One], copies: int = 1) -> int:
    """Count the prompts, quickly where one has a million tokens; refuse too many."""
    if isinstance(given, str) or is_one(given):
        return 1
    if not given:
        raise refused(EMPTY, "prompt")
    if len(given) * copies > CHOICES:
        what, field = ("replies", "n") if copies > 1 else ("prompts", "prompt")
        raise refused(f"a request may have {CHOICES} {what}", field)
    return len(given)


def is_one(given: Sequence[Piece | One]) -> bool:
    """Tell whether a list is one prompt: of tokens, with texts between them."""
    return any(isinstance(piece, int) for piece in given)


def prompts(given: str | list[Piece] | list[One], copies: int = 1) -> list[One]:
    """One prompt, also of tokens with texts between them, or several."""
    count(given, copies)
    if isinstance(given, str):
        return [given]
    if [] in given:
        raise refused(EMPTY, "prompt")
    if is_one(given):
        return [[piece for piece in given if not isinstance(piece, list)]]
    return [prompt for prompt in given if not isinstance(prompt, int)]


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
