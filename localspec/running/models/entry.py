"""One pair of the catalogue, and its files for each engine."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from localspec.interfaces.footprint import Kind
from localspec.running.models.sources import Source

EXPERTS = re.compile(r"(?P<all>[\d.]+)B, (?P<active>[\d.]+)B active")


@dataclass(frozen=True, slots=True)
class Shape:
    """The sizes that decide how much memory a text takes."""

    layers: int
    kv_heads: int
    head: int
    vocabulary: int

    @property
    def token_bytes(self) -> int:
        """The bytes of 16-bit keys and values of one token."""
        return 2 * 2 * self.layers * self.kv_heads * self.head


@dataclass(frozen=True, slots=True)
class Weights:
    """One quantisation of a model."""

    source: Source
    bytes: int  # as published, rounded
    install: str = ""  # the command that gets the package it is in
    sums: tuple[str, ...] = ()  # sha256 of its large files, where they have been checked


@dataclass(frozen=True, slots=True)
class Offer:
    """The files for one engine, the preferred weights first."""

    weights: Mapping[str, Weights]
    drafter: str = "none"
    draft: str = ""  # another name of the catalogue with its weights, or a source
    draft_original: str = ""  # ORG/REPOSITORY of a drafter's weights as its makers published them
    draft_bytes: int = 0  # of a drafting head in files of its own, where that is known
    projector: str = ""  # the source of the file by which the model sees
    projector_bytes: int = 0  # as published, rounded


@dataclass(frozen=True, slots=True)
class Entry:
    name: str
    about: str
    licence: str
    offers: Mapping[str, Offer]  # by format, as "gguf"
    family: str = ""
    parameters: str = ""
    original: str = ""  # ORG/REPOSITORY of the weights as its makers published them
    context: int = 0
    good_at: tuple[str, ...] = ()
    sampling: Mapping[str, float] = field(default_factory=dict)  # that its makers recommend
    shape: Shape | None = None
    checked: bool = False  # its files have been resolved
    reasons: bool = False  # before it answers, unless asked otherwise
    kind: Kind = "text"  # what it does
    # What goes before a text, by what the text is: "query" or "document".
    prefixes: Mapping[str, str] = field(default_factory=dict)
    reasoning_budget: int = -1  # tokens of thought, where nobody chose another; -1: no limit
    reasoning_budget_message: str = ""  # that ends a thought whose budget is spent
    samplers: tuple[str, ...] = ()  # in their order, where it is not the usual one

    def text_only(self) -> Entry:
        """Return the entry without its projectors."""
        blind = {
            kind: replace(offer, projector="", projector_bytes=0)
            for kind, offer in self.offers.items()
        }
        return replace(self, offers=blind)

    @property
    def active_share(self) -> float:
        """Return the share of its weights that a token reads; a mixture has idle experts."""
        sizes = EXPERTS.fullmatch(self.parameters)
        return float(sizes["active"]) / float(sizes["all"]) if sizes else 1.0
