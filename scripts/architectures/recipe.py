"""A recipe for one tiny model: transformers' class, its configuration and its vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Values = Mapping[str, object]
Vocabulary = Literal["bytes", "gemma", "sentencepiece"]


@dataclass(frozen=True, slots=True)
class Recipe:
    kind: str  # transformers' model type
    values: Values  # of its configuration, where they differ from what all have
    pre: str = ""  # llama.cpp's name for how text is cut before BPE; none: SentencePiece
    wrapped: bool = False  # the language model of one that also sees
    drafts: bool = False  # with a drafting block (MTP), which transformers does not keep
    spare: bool = False  # with keys and values that shared layers do not use
    trunk: bool = False  # without one, although the converter would expect it
    says: Values = field(default_factory=dict)  # in published configurations, not transformers'
    lacks: tuple[str, ...] = ()  # keys, with `*`, that transformers' configurations have only
    tokenizer_says: Values = field(default_factory=dict)
    as_written: bool = False  # the converter is to read config.json without transformers' defaults
    renames: tuple[str, str] | None = None  # a part of tensors' names, as published

    def at(self, width: int) -> Recipe:
        """Put numbers in place of the shares of a width."""
        return replace(self, values=sized(self.values, width), says=sized(self.says, width))

    @property
    def vocabulary(self) -> Vocabulary:
        if not self.pre:
            return "sentencepiece"
        return "gemma" if self.pre == "gemma4" else "bytes"

    @property
    def expert(self) -> bool:
        """Tell whether it is a mixture of experts."""
        return any(word in str(self.values) for word in ("num_experts", "enable_moe"))


def sized(values: Values, width: int) -> dict[str, object]:
    return {name: number_of(value, width) for name, value in values.items()}


def number_of(value: object, width: int) -> object:
    if callable(value):
        return value(width)
    if isinstance(value, dict):
        return sized(value, width)
    return [number_of(item, width) for item in value] if isinstance(value, list) else value
