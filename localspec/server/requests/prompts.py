"""Prompts as texts, as tokens, or as both in turn."""

from __future__ import annotations

from typing import Annotated

from pydantic import BeforeValidator
from pydantic_core import PydanticCustomError

from localspec.server.faults import refused
from localspec.server.model_host import Served
from localspec.server.requests.fields import CHOICES, Id

Piece = Id | str
One = str | list[Piece]  # tokens, and texts between them


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


PromptGiven = Annotated[One | list[One], BeforeValidator(as_prompt)]


def prompts(given: str | list[Piece] | list[One], copies: int = 1) -> list[One]:
    """One prompt, also of tokens with texts between them, or several."""
    if isinstance(given, str):
        return [given]
    if not given or [] in given:
        raise refused("the prompt is empty: give a text, or a token at least", "prompt")
    found = [each for each in given if not isinstance(each, int)]
    if len(found) < len(given):
        return [[each for each in given if not isinstance(each, list)]]
    if len(found) * copies > CHOICES:
        what, field = ("replies", "n") if copies > 1 else ("prompts", "prompt")
        raise refused(f"a request may have {CHOICES} {what}", field)
    return found


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
