"""A recipe for one tiny model: transformers' class, its configuration and its vocabulary."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal

Values = Mapping[str, object]
Vocabulary = Literal["bytes", "gemma", "sentencepiece"]


@dataclass(frozen=True, slots=True)
class Vision:
    """The part of a recipe that sees, which becomes a projector."""

    values: Values  # of its configuration
    processor: Values  # of preprocessor_config.json
    tokens: tuple[str, ...] = ()  # around pictures; the one that stands for a picture is the first
    whole: Values = field(default_factory=dict)  # of the configuration around both parts
    says: Values = field(default_factory=dict)  # in published configurations, not transformers'


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
    renames: Mapping[str, str] = field(default_factory=dict)  # of tensors, to published names
    vision: Vision | None = None  # of a `wrapped` one that is to see

    def at(self, width: int) -> Recipe:
        """Put numbers in place of the shares of a width."""
        vision = self.vision and replace(self.vision, values=sized(self.vision.values, width))
        values, says = sized(self.values, width), sized(self.says, width)
        return replace(self, values=values, says=says, vision=vision)

    @property
    def vocabulary(self) -> Vocabulary:
        if not self.pre:
            return "sentencepiece"
        return "gemma" if self.pre == "gemma4" else "bytes"

    @property
    def expert(self) -> bool:
        """Tell whether it is a mixture of experts."""
        return any(word in str(self.values) for word in ("num_experts", "enable_moe"))


def recipe(kind: str, pre: str = "", *parts: Values, **values: object) -> Recipe:
    """Make a recipe of parts that others share, and of values of its own."""
    shared = {name: value for part in parts for name, value in part.items()}
    return Recipe(kind, shared | values, pre)


def sized(values: Values, width: int) -> dict[str, object]:
    return {name: number_of(value, width) for name, value in values.items()}


def number_of(value: object, width: int) -> object:
    if callable(value):
        return value(width)
    if isinstance(value, dict):
        return sized(value, width)
    return [number_of(item, width) for item in value] if isinstance(value, list) else value
