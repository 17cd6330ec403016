"""The prompts of every model, and answers to them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from localspec.base.tokens import common_prefix, tokens_of

TOKENS = 24
# The same in an engine and in LocalSpec, as "longrope" has other factors for a longer one; early
# models have no more positions.
CONTEXT = 1024
# The second is longer than the windows and has much to look up, the third has odd characters.
PROMPTS = (
    "The quick brown fox",
    "def main(x):\n    return [i for i in range(x) if i % 2 == 0]\n" * 5 + "def main(",
    "Hello there, how are you today? Naïve café 😀",
)
# llama.cpp's K-quants flip ties of 0.008 to 0.11 logits between batches of different width.
NEAR = 0.12


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """An answer: tokens that a model continues a text by, up to an end token."""

    text: str
    prompt: tuple[int, ...]
    tokens: tuple[int, ...]

    @classmethod
    def of(cls, data: Mapping[str, Any]) -> ModelAnswer:
        return cls(data["text"], tuple(data["prompt"]), tuple(data["tokens"]))


@dataclass(frozen=True, slots=True)
class Parting:
    """The place where an answer leaves the engine's."""

    way: str  # how it was asked for
    at: int  # tokens that both begin with
    token: int | None = None  # what is said then; None: no more, or the prompt is another
    prompt: tuple[int, ...] = ()
    said: tuple[int, ...] = ()  # by both


def parting(way: str, engine: ModelAnswer, ours: ModelAnswer) -> Parting | None:
    """Find where two answers part; None if they are equal."""
    if engine.prompt == ours.prompt and engine.tokens == ours.tokens:
        return None
    at = shared(engine.tokens, ours.tokens)
    if engine.prompt != ours.prompt or at in (len(engine.tokens), len(ours.tokens)):
        return Parting(way, at)
    return Parting(way, at, ours.tokens[at], ours.prompt, ours.tokens[:at])


def shared(one: Sequence[int], other: Sequence[int]) -> int:
    """Count the tokens that both begin with."""
    return common_prefix(tokens_of(one), tokens_of(other))
