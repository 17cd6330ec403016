"""Run requests through a whole engine, on scripted or real models."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import cache
from itertools import cycle

from localspec.base.tokens import NONE, Tokens, tokens_of
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.corpus.match import longest_match
from localspec.core.corpus.segment import Segment, pack
from localspec.core.pairing.masked import Masked
from localspec.core.pairing.translated import Translated
from localspec.core.pairing.vocabulary import match
from localspec.core.proposers.corpus import CorpusProposer
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.first_of import FirstOf
from localspec.core.proposers.forced import ForcedProposer
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.prediction import PredictionProposer
from localspec.core.proposers.silent import Silent
from localspec.core.proposers.suffix import SuffixProposer
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.job import Result
from localspec.core.requests.settings import Settings
from localspec.interfaces.backend import Model
from localspec.interfaces.costs import Costs
from localspec.interfaces.draft import Draft
from localspec.interfaces.proposer import Ask, Hints, Proposer
from localspec.interfaces.testing import Alphabet, ScriptedModel, hashed_logits

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


@dataclass(frozen=True)
class Hinted:
    """A proposer whose every ask carries the same hints."""

    proposer: Proposer
    hints: Hints

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return self.proposer.propose([ask._replace(hints=self.hints) for ask in asks])

    def release(self, slot: int) -> None:
        self.proposer.release(slot)


PREDICTION = tokens_of([1, 2, 3, 0, 1, 1, 4, 4, 2, 2, 2, 4, 4, 4, 5, 0, 1, 1, 3, 2, 4, 4] * 3)


class FixedCorpus:
    """Segments of these texts, which nothing changes."""

    def __init__(self, *texts: Sequence[int], vocabulary: int = LETTERS.size) -> None:
        self.vocabulary = vocabulary
        named = [((str(at), 1, 1), tokens_of(text)) for at, text in enumerate(texts)]
        self.segments = (Segment(pack(named)),)

    def longest_match(self, text: Tokens):
        return longest_match(self.segments, text)


@cache
def replied(seed: int, size: int = 400) -> list[int]:
    """Return a text that a scripted model writes, and letters that it does not."""
    [result] = replies(
        scripted(seed), Silent(), [Want([1, 2, 3], Settings(max_tokens=size, ignore_end=True))]
    )
    return [1, 2, 3, *result.tokens, 5, 5, 1, 4] * 2


def force(reply: Tokens) -> Tokens:
    """Draft what would follow if threes came in threes; nothing holds the model to it."""
    return tokens_of([3] * (3 - len(reply) % 3)) if len(reply) and reply[-1] == 3 else NONE


PROPOSERS: dict[str, Callable[[], Proposer]] = {
    "silent": Silent,
    "ngram": lambda: NgramProposer(3, 1),
    "suffix": lambda: SuffixProposer(floor=0.1),
    "corpus": lambda: CorpusProposer(FixedCorpus(replied(1), PREDICTION.tolist()), floor=0.1),
    "prediction": lambda: Hinted(PredictionProposer(floor=0.1), Hints(PREDICTION)),
    "forced": lambda: Hinted(ForcedProposer(), Hints(forced=force)),
    "twin": lambda: DraftModelProposer(scripted(1), floor=0),
    "stranger": lambda: DraftModelProposer(scripted(9)),
    "windowed": lambda: DraftModelProposer(scripted(9), floor=0, context=16 + 12),
    "recurrent": lambda: DraftModelProposer(scripted(9, recurrent=True), floor=0),
    "translated": lambda: DraftModelProposer(translated(), floor=0),
    "masked": lambda: DraftModelProposer(Masked(scripted(9), 5), floor=0),
    "best": lambda: Best(
        {
            "suffix": SuffixProposer(floor=0.1),
            "prediction": Hinted(PredictionProposer(floor=0.1), Hints(PREDICTION)),
            "draft-model": DraftModelProposer(scripted(9), floor=0),
        },
        Depth(Costs({1: 0.01, 9: 0.011}, {"draft-model": {1: 0.001, 4: 0.004}})),
    ),
    "first-of": lambda: FirstOf(
        {"ngram": NgramProposer(3, 2), "draft-model": DraftModelProposer(scripted(9))}
    ),
}


@dataclass(frozen=True)
class Want:
    prompt: Sequence[int]
    settings: Settings = field(default_factory=Settings)


def replies(
    model: Model, proposer: Proposer, wants: Sequence[Want], depth: int = 4
) -> list[Result]:
    """Run all requests at once through an engine of their own."""
    costs = proposer.depth.costs if isinstance(proposer, Best) else None
    parts = EngineParts(costs, first_drafts=costs is not None)
    return converse(Engine(model, proposer, depth, parts=parts), wants)


def converse(engine: Engine, wants: Sequence[Want]) -> list[Result]:
    """Run all requests at once, to the end, by up to four rounds a step."""
    events: list[list[object]] = [[] for _ in wants]
    for want, heard in zip(wants, events, strict=True):
        engine.add(engine.prepare(tokens_of(want.prompt), want.settings, heard.append))
    hurried = cycle((False, False, False, True))
    while engine.busy:
        engine.step(lambda: next(hurried))
    for heard in events:
        assert isinstance(heard[-1], Result), heard[-1]
    return [heard[-1] for heard in events]


def said(results: Sequence[Result]) -> list[tuple[str, tuple[int, ...], str]]:
    return [(r.text, r.tokens, r.finish_reason) for r in results]
