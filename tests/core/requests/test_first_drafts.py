"""A reply that begins with a copy begins with a draft, read beside the last piece of its prompt."""

from __future__ import annotations

import time

import pytest

from localspec.base.tokens import tokens_of
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.forced import ForcedProposer
from localspec.core.proposers.prediction import PredictionProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.interfaces.backend import Options
from localspec.interfaces.costs import Costs
from localspec.interfaces.proposer import Hints
from localspec.running.memory.planner import Limits
from localspec.running.runtime.loaded_pair import resolve_and_load
from localspec.running.runtime.loading import may_begin_drafted
from localspec.running.runtime.pair_files import PairFiles
from tests import engines
from tests.runs import Hinted, Want, converse, replies, said, scripted

PROMPT = [1, 2, 3, 4, 5] * 8
FLAT, STEEP = {1: 0.01, 65: 0.011}, {1: 0.01, 65: 0.65}


class Watched:
    """A model that records the rows of each forward: tokens fed and drafted."""

    def __init__(self, model):
        self.rounds = []
        self.fed = 0  # tokens, of drafts too
        self._model = model

    def __getattr__(self, name):
        return getattr(self._model, name)

    def forward(self, rows):
        self.rounds.append([(len(row.tokens) - row.tentative, row.tentative) for row in rows])
        self.fed += sum(len(row.tokens) for row in rows)
        return self._model.forward(rows)


def plain(want):
    return replies(scripted(), Silent(), [want])[0]


def engine(model, curve, prediction, first_drafts=True, clock=time.perf_counter):
    proposers = {
        "prediction": Hinted(PredictionProposer(), Hints(tokens_of(prediction))),
        "draft-model": DraftModelProposer(scripted(9), floor=0),
    }
    costs = Costs(curve, {"draft-model": {1: 1e-6, 8: 2e-6}})
    parts = EngineParts(costs, first_drafts=first_drafts)
    return Engine(model, Best(proposers, Depth(costs), clock), 16, clock, parts)


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=1.0)], ids=["greedy", "seeded"])
@pytest.mark.parametrize("recurrent", [False, True], ids=["attention", "recurrent"])
@pytest.mark.parametrize("batch", [24, 64])
def test_a_reply_that_begins_like_its_prediction_is_drafted_beside_its_prompt(
    sampling, recurrent, batch
):
    want = Want(PROMPT, Settings(sampling=sampling, max_tokens=30, ignore_end=True, seed=3))
    slow = plain(want)
    model = Watched(scripted(recurrent=recurrent, batch=batch))
    [fast] = converse(engine(model, FLAT, slow.tokens), [want])
    assert said([fast]) == said([slow])
    *_, (fed, drafted) = [row for [row] in model.rounds if row[0] > 1]
    assert drafted > 2
    assert fed + drafted <= batch
    assert fast.speculation.rounds < slow.speculation.rounds / 3


def test_a_prediction_that_is_wrong_from_the_start_changes_no_text():
    want = Want(PROMPT, Settings(max_tokens=30, ignore_end=True))
    slow = plain(want)
    wrong = [(token + 1) % 5 for token in slow.tokens]
    model = Watched(scripted())
    assert said(converse(engine(model, FLAT, wrong), [want])) == said([slow])
    assert model.rounds[0][0][1] > 0


def test_the_first_token_does_not_wait_for_a_draft_that_takes_longer_than_a_round():
    want = Want(PROMPT, Settings(max_tokens=30, ignore_end=True))
    model = Watched(scripted())
    converse(engine(model, STEEP, plain(want).tokens), [want])
    assert model.rounds[0] == [(len(PROMPT), 0)]


@pytest.mark.parametrize("prediction", [[], [6] * 30])
def test_without_a_first_draft_a_prompt_is_read_as_ever(prediction):
    want = Want(PROMPT, Settings(max_tokens=4, ignore_end=True))
    model = Watched(scripted())
    converse(engine(model, FLAT, prediction, first_drafts=not prediction), [want])
    assert model.rounds[0] == [(len(PROMPT), 0)]


def test_the_first_token_waits_for_as_many_draft_tokens_as_a_plain_round_takes():
    """Where ten and a half tokens take as long as a round, a sure draft of sixteen has ten."""
    want = Want(PROMPT, Settings(max_tokens=30, ignore_end=True))
    tokens = plain(want).tokens
    costs = Costs({1: 0.01, 106: 0.11})
    sure = Hinted(ForcedProposer(), Hints(forced=lambda reply: tokens_of(tokens[len(reply) :])))
    model = Watched(scripted())
    best = Best({"forced": sure}, Depth(costs))
    converse(Engine(model, best, 16, parts=EngineParts(costs, first_drafts=True)), [want])
    assert model.rounds[0][0][1] == 10


def test_the_tokens_of_a_first_draft_are_not_taken_for_slow_reading():
    clock, model = iter(range(1 << 20)), Watched(scripted())
    want = Want(PROMPT, Settings(max_tokens=1 + 16, ignore_end=True))
    working = engine(model, FLAT, plain(want).tokens, clock=lambda: model.fed + 1e-6 * next(clock))
    converse(working, [want])
    assert model.rounds[0][0][1] > 2
    assert working.tiers.reading_seconds == pytest.approx(1.0, abs=0.01)


def test_beside_others_no_reply_begins_with_a_draft():
    want = Want(PROMPT, Settings(max_tokens=8, ignore_end=True))
    model = Watched(scripted(batch=256))
    converse(engine(model, FLAT, plain(want).tokens), [want, want])
    assert model.rounds[0] == [(len(PROMPT), 0)] * 2


@pytest.mark.parametrize(
    ("kind", "bit_exact", "may"),
    [("llama", False, True), ("llama", True, False), ("mamba2", False, False)],
)
def test_a_prompt_is_read_as_without_drafts_where_its_batches_must_not_differ(kind, bit_exact, may):
    files = PairFiles.locate(engines.tiny(kind), None, "auto")
    options = Options(threads=1, context=512, gpu_layers=0, bit_exact=bit_exact)
    with resolve_and_load(files, options, Limits()) as loaded:
        assert may_begin_drafted(loaded) is may
