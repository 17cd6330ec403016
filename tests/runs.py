"""Run requests through a whole engine, on scripted or real models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from localspec.backend import Model
from localspec.engine import Engine
from localspec.job import Result
from localspec.proposer import Proposer
from localspec.proposers.draft_model import DraftModelProposer
from localspec.proposers.first_of import FirstOf
from localspec.proposers.ngram import NgramProposer
from localspec.proposers.silent import Silent
from localspec.settings import Settings
from localspec.testing import Alphabet, ScriptedModel, hashed_logits
from localspec.tokens import tokens_of
from localspec.translated import Translated
from localspec.vocabulary import match

TEXTS = (
    "the code is the code, and the return is the return of the code",
    "def add(a, b):\n    return a + b\n\ndef add",
    "it was not on the other side; it was on this side of the sea",
    "naïve café 😀 naïve café 😀",
)
LETTERS = Alphabet([bytes([ord("a") + at]) for at in range(7)], ends=[6])
# The same letters in another order, one of them unknown, one that the target does not have.
STRANGE_LETTERS = Alphabet([b"c", b"a", b"z", b"b", b"e", b"f", b"g"], ends=[6])


def scripted(seed: int = 1, *, recurrent: bool = False, batch: int = 64) -> ScriptedModel:
    model = ScriptedModel(hashed_logits(seed), LETTERS, recurrent=recurrent)
    model.batch = batch
    return model


def translated() -> Translated:
    """A draft model with a vocabulary of its own."""
    draft = ScriptedModel(hashed_logits(9), STRANGE_LETTERS)
    return Translated(draft, LETTERS, match(LETTERS, STRANGE_LETTERS), LETTERS.size)


PROPOSERS: dict[str, Callable[[], Proposer]] = {
    "silent": Silent,
    "ngram": lambda: NgramProposer(3, 1),
    "twin": lambda: DraftModelProposer(scripted(1), floor=0),
    "stranger": lambda: DraftModelProposer(scripted(9)),
    "recurrent": lambda: DraftModelProposer(scripted(9, recurrent=True), floor=0),
    "translated": lambda: DraftModelProposer(translated(), floor=0),
    "first-of": lambda: FirstOf(NgramProposer(3, 2), DraftModelProposer(scripted(9))),
}


@dataclass(frozen=True)
class Want:
    prompt: Sequence[int]
    settings: Settings = field(default_factory=Settings)


def replies(
    model: Model, proposer: Proposer, wants: Sequence[Want], depth: int = 4
) -> list[Result]:
    """All requests at once through an engine of their own."""
    return converse(Engine(model, proposer, depth), wants)


def converse(engine: Engine, wants: Sequence[Want]) -> list[Result]:
    """All requests at once, to the end."""
    events: list[list[object]] = [[] for _ in wants]
    for want, heard in zip(wants, events, strict=True):
        engine.add(engine.prepare(tokens_of(want.prompt), want.settings, heard.append))
    while engine.busy:
        engine.step()
    for heard in events:
        assert isinstance(heard[-1], Result), heard[-1]
    return [heard[-1] for heard in events]


def said(results: Sequence[Result]) -> list[tuple[str, tuple[int, ...], str]]:
    return [(r.text, r.tokens, r.finish_reason) for r in results]
