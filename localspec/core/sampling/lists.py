"""The parameters of sampling that are lists of texts."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from localspec.base.errors import UsageError
from localspec.core.sampling.order import sampler_name, split_samplers
from localspec.core.sampling.parameter import S

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

Texts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListParameter:
    """A list of texts in `Sampling`, and how people write it in one line."""

    field: str  # of `Sampling`
    name: str  # in requests; with hyphens, on the command line
    about: str  # within 50 characters
    read: Callable[[str], Texts]
    write: Callable[[Texts], str]

    @property
    def option(self) -> str:
        return self.name.replace("_", "-")

    def get(self, sampling: DataclassInstance) -> Texts:
        texts: Texts = getattr(sampling, self.field)
        return texts

    def put(self, sampling: S, texts: Texts) -> S:
        change: dict[str, Any] = {self.field: texts}
        return replace(sampling, **change)

    def choose(self, sampling: S, text: str) -> S:
        """Set a list that a person typed."""
        return self.put(sampling, self.read(text))


def read_samplers(text: str) -> Texts:
    names = (sampler_name(name) or name for name in split_samplers(text))
    return tuple(dict.fromkeys(names))


def read_texts(text: str) -> Texts:
    """Read a JSON list, also one without its brackets."""
    try:
        texts = json.loads(text if text.lstrip().startswith("[") else f"[{text}]")
    except (ValueError, RecursionError) as error:
        raise UsageError(f'{text[:40]!r} is no list of texts: write it as ["\\n", ":"]') from error
    return tuple(str(listed) for listed in texts if listed != "")


LISTS = (
    ListParameter(
        "samplers", "samplers", "Samplers in their order; others are off.", read_samplers, ";".join
    ),
    ListParameter(
        "dry_breakers",
        "dry_sequence_breakers",
        "Texts at which a repetition ends for DRY.",
        read_texts,
        lambda texts: json.dumps(texts, ensure_ascii=False),
    ),
)
