"""Real engines over tiny random models, each written and loaded once."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import localspec_llamacpp
from localspec.backend import Model, Options
from localspec.proposers.draft_model import DraftModelProposer
from localspec.proposers.first_of import FirstOf
from localspec.proposers.ngram import NgramProposer
from localspec.proposers.silent import Silent
from localspec.translated import Translated
from localspec.vocabulary import match
from tests.tiny import ARCHITECTURES, Head, write

__all__ = ["ARCHITECTURES"]

HEAD = Head()
OPTIONS = Options(slots=4, context=512, batch=64, threads=1, tentative=8)


@cache
def folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="localspec-tiny-"))


@cache
def tiny(architecture: str, *, seed: int = 0, layout: str = "plain", head: Head = HEAD) -> Path:
    path = folder() / f"{architecture}-{seed}-{layout}-{hash(head)}.gguf"
    return write(path, architecture, seed=seed, layout=layout, head=head)


def target(architecture: str, **options) -> Model:
    return localspec_llamacpp.load(tiny(architecture), replace(OPTIONS, **options))


def draft(architecture: str = "llama", **options) -> Model:
    """A model that says much the same as the target of its architecture."""
    path = tiny(architecture, head=Head(drift=0.2))
    return localspec_llamacpp.load(path, replace(OPTIONS, drafting=True, **options))


def strange_draft(target: Model) -> Translated:
    """A draft with another vocabulary."""
    path = tiny("llama", layout="shuffled", head=Head(drift=0.2))
    model = localspec_llamacpp.load(path, replace(OPTIONS, drafting=True))
    return Translated(
        model, target.tokenizer, match(target.tokenizer, model.tokenizer), target.vocabulary
    )


def proposer(name: str, target: Model):
    """A proposer and the models that must be closed with it."""
    if name == "silent":
        return Silent(), []
    if name == "ngram":
        return NgramProposer(3, 1), []
    model = strange_draft(target) if name == "translated" else draft(name.partition(" ")[0])
    made = DraftModelProposer(model, floor=0.2)
    return (FirstOf(NgramProposer(3, 2), made) if name.endswith("first-of") else made), [model]
