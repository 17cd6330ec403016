"""Several rounds without drafts, whose tokens are published together."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import pytest

from localspec.base.errors import BackendError
from localspec.base.tokens import tokens_of
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.decoding.prompt_pace import MAX_ROUNDS_AT_ONCE, MAX_SECONDS_AT_ONCE
from localspec.core.proposers.silent import Silent
from localspec.core.proposers.suffix import SuffixProposer
from localspec.core.requests.engine import Engine
from localspec.core.requests.job import Chunk, Result
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.backend import Row
from localspec.interfaces.costs import Costs
from localspec.interfaces.proposer import ALWAYS_QUIET, NOT_QUIET, Quiet
from localspec.interfaces.testing import LETTERS, Alphabet, ScriptedModel, hashed_logits
from tests.runs import scripted

LONG = Settings(max_tokens=41, ignore_end=True)


class Ticking:
    """A clock by which each forward takes some milliseconds, and nothing else does."""

    def __init__(self, model, seconds):
        self.now, self.forwards = 0.0, 0
        self._seconds, self._forward = seconds, model.forward
        model.forward = self.forward

    def __call__(self):
        return self.now

    def forward(self, rows):
        self.now += self._seconds
        self.forwards += 1
        return self._forward(rows)


class Stepping(ScriptedModel):
    """A model that takes several steps by itself."""

    def multi_step(self, slots, tokens, choose):
        while tokens:
            pairs = zip(slots, tokens, strict=True)
            logits = self.forward([Row(slot, tokens_of([token])) for slot, token in pairs])
            tokens = choose([each[0] for each in logits])


KINDS = {
    "forward": scripted,
    "recurrent": partial(scripted, recurrent=True),  # it goes back to nothing
    "multi_step": lambda: Stepping(hashed_logits(1), LETTERS),
}


@pytest.fixture(params=KINDS)
def made(request):
    """Make models of one kind: those that take several steps by themselves, or others."""
    return KINDS[request.param]


class Running:
    """An engine with requests, and what each of them heard."""

    def __init__(self, model, seconds=0.01, prompts=([1, 2, 3],), settings=LONG, proposer=None):
        self.clock = Ticking(model, seconds)
        self.engine = Engine(model, proposer or Silent(), clock=self.clock)
        self.heard = [self.ask(prompt, settings) for prompt in prompts]

    def ask(self, prompt, settings=LONG):
        events = []
        self.engine.add(self.engine.prepare(tokens_of(prompt), settings, events.append))
        return events

    def run(self, hurried=lambda: False):
        while self.engine.busy:
            self.engine.step(hurried)
        return self.heard


def chunks(events):
    return [each for each in events if isinstance(each, Chunk) and each.tokens]


def tokens(events):
    return [token for each in chunks(events) for token in each.tokens]


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("count", [1, 3])
def test_the_text_is_that_of_single_rounds(made, temperature, count):
    settings = Settings(max_tokens=41, seed=5, sampling=Sampling(temperature), ignore_end=True)
    prompts = [[1, 2, 3, at] for at in range(count)]
    single = Running(made(), prompts=prompts, settings=settings).run(hurried=lambda: True)
    several = Running(made(), prompts=prompts, settings=settings).run()
    for one, other in zip(single, several, strict=True):
        assert one[-1].text == other[-1].text
        assert one[-1].tokens == other[-1].tokens == tuple(tokens(other))
        assert one[-1].finish_reason == other[-1].finish_reason
    assert max(len(each.tokens) for each in chunks(several[0])) > 1
    assert {len(each.tokens) for each in chunks(single[0])} == {1}


@pytest.mark.parametrize(
    ("seconds", "count", "most"),
    [
        (0.01, 1, 5),
        (0.02, 1, 2),
        (0.03, 1, 1),
        (0.5, 1, 1),
        (0.02, 2, 5),
        (0.0001, 1, MAX_ROUNDS_AT_ONCE),
    ],
)
def test_as_many_rounds_are_run_at_once_as_take_no_longer_than_a_write(made, seconds, count, most):
    running = Running(made(), seconds, prompts=[[1, 2, at] for at in range(count)])
    running.run()
    assert max(each.rounds for each in chunks(running.heard[0])) == most
    assert most * seconds <= MAX_SECONDS_AT_ONCE * min(count, 2) or most == 1


def test_figures_count_every_round(made):
    running = Running(made())
    [events] = running.run()
    result = events[-1]
    assert isinstance(result, Result)
    rounds = sum(each.rounds for each in chunks(events))
    assert rounds == result.speculation.rounds == running.clock.forwards == 41
    assert result.speculation.tokens_by_source == {"target": 41}
    assert result.timings.between_tokens_p50 == pytest.approx(0.01)


def test_a_request_that_comes_waits_for_one_round_only(made):
    running = Running(made())
    running.engine.step(lambda: False)
    running.engine.step(lambda: False)
    before = running.clock.forwards
    asked = iter((False, True))
    running.engine.step(lambda: next(asked))
    assert running.clock.forwards == before + 2


def test_logprobs_are_those_of_each_round(made):
    events = Running(made(), settings=Settings(max_tokens=9, ignore_end=True, logprobs=2)).run()[0]
    assert [len(each.logprobs) for each in chunks(events)] == [1] * 9


def test_a_text_ends_where_it_ends(made):
    [free] = Running(made(), settings=Settings(max_tokens=41, ignore_end=True)).run()
    end = tokens(free)[6]
    settings = Settings(max_tokens=41, ends=frozenset({end}))
    [events] = Running(made(), settings=settings).run()
    assert events[-1].finish_reason == "stop"
    assert tokens(events) == tokens(free)[: tokens(free).index(end) + 1]


@pytest.mark.parametrize("failing", range(4, 9))
def test_an_error_in_the_midst_is_told_after_the_tokens_before_it(made, failing):
    model = made()
    running = Running(model)
    forward = model.forward

    def dies(rows):
        if running.clock.forwards >= failing:
            raise BackendError("gone")
        return forward(rows)

    model.forward = dies
    [events] = running.run()
    assert isinstance(events[-1], BackendError)
    assert len(tokens(events)) == failing


@pytest.mark.parametrize("fed", [False, True])
def test_an_error_that_passes_changes_nothing(made, fed):
    """Also where the model has taken in the tokens before it fails."""
    [expected] = Running(made()).run()
    model = made()
    running = Running(model)
    forward, failed = model.forward, []

    def stumbles(rows):
        if running.clock.forwards == 4 and not failed:  # in the midst of the third step
            failed.append(fed and forward(rows))
            raise BackendError("once")
        return forward(rows)

    model.forward = stumbles
    [events] = running.run()
    assert failed
    assert tokens(events) == list(expected[-1].tokens)


@pytest.mark.parametrize("broken", [0, 1])
@pytest.mark.parametrize("at", range(1, 12))
def test_what_is_wrong_with_one_text_costs_the_others_no_token(made, broken, at):
    prompts = [[1, 2, 3, each] for each in range(3)]
    expected = Running(made(), prompts=prompts).run()
    running = Running(made(), prompts=prompts)
    spelled = []

    def spell(token):
        spelled.append(token)
        return b"x" if len(spelled) < at else 1 / 0

    running.engine._waiting[broken].generation.spell = spell
    heard = running.run()
    assert isinstance(heard[broken][-1], BackendError)
    for which in {0, 1, 2} - {broken}:
        assert tokens(heard[which]) == list(heard[which][-1].tokens) == tokens(expected[which])


def test_a_text_without_a_turn_waits_for_one_round_only(made):
    model = made()
    model.batch = 3
    prompts = [[1, 2, each] for each in range(5)]
    running = Running(model, prompts=prompts, settings=replace(LONG, depth=0))
    running.run()
    for events in running.heard:
        assert {each.rounds for each in chunks(events)[:10]} == {1}
        assert len(tokens(events)) == 41


class Watching(Silent):
    """Drafts nothing, and is quiet for some rounds and until something holds of the text."""

    def __init__(self, quiet):
        self.asked = []
        self._quiet = quiet

    def propose(self, asks):
        self.asked.append([len(ask.history) for ask in asks if ask.limit])
        return super().propose(asks)

    def quiet(self, ask):
        return self._quiet


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize(
    ("quiet", "expected"),
    [
        (Quiet(0, lambda text: len(text) in (7, 8)), [4, 5, 7, 8, 16, 24]),
        (Quiet(3, lambda text: len(text) in (7, 8)), [4, 5, 8, 16, 24]),
        (Quiet(2, lambda text: True), [4, 5, 7, 9, 11]),
        (Quiet(0, lambda text: 1 / (len(text) - 9)), [4, 5, 6, 7, 8, 9, 10]),  # fails at 9
        (Quiet(3), [4, 5, 8, 11, 14]),
        (Quiet(0), [4, 5, 6, 7, 8]),
        (ALWAYS_QUIET, [4, 5, 13, 21]),
    ],
)
def test_rounds_end_where_the_quiet_of_a_proposer_is_over(made, quiet, expected, count):
    proposer = Watching(quiet)
    prompts = [[1, 2, at] for at in range(count)]
    running = Running(made(), 0.0001, prompts=prompts, proposer=proposer)
    ids = [tokens(each) for each in running.run()]
    plain = [tokens(each) for each in Running(made(), prompts=prompts).run()]
    assert ids == plain
    assert [each[0] for each in proposer.asked if each][: len(expected)] == expected


def test_the_first_token_of_a_prompt_is_published_alone(made):
    running = Running(made(), 0.0001)
    running.run()  # and rounds have been measured
    events = running.ask([4, 3, 2, 1])
    running.run()
    assert [each.rounds for each in chunks(events)][:2] == [1, MAX_ROUNDS_AT_ONCE]


def test_texts_that_came_one_after_the_other_and_repeat_nothing_run_several_rounds_at_once():
    """They were looked at in rounds of their own, so that each ended the plain rounds of all."""
    letters = Alphabet([bytes([at]) for at in range(250)])
    depth = Depth(Costs({1: 0.01, 17: 0.03}, {"suffix": {1: 1e-5, 8: 2e-5}}))
    best = Best({"suffix": SuffixProposer()}, depth, clock=lambda: 0.0)
    model = ScriptedModel(hashed_logits(1, vocabulary=250), letters)
    running = Running(model, prompts=(), proposer=best)
    for at in range(8):
        running.ask([at, 1, 2], Settings(max_tokens=140 - 3 * at, ignore_end=True))
        for _ in range(3):
            running.engine.step(lambda: False)
    begun = running.clock.forwards
    steps = 0
    while running.engine.busy:
        running.engine.step(lambda: False)
        steps += 1
    assert running.clock.forwards - begun > 3 * steps


@pytest.mark.parametrize("plain", [{"depth": 0}, {"proposers": ()}], ids=str)
def test_plain_decoding_asks_no_proposer_for_how_long_it_is_quiet(made, plain):
    proposer = Watching(NOT_QUIET)
    running = Running(made(), 0.0001, settings=replace(LONG, **plain), proposer=proposer)
    [events] = running.run()
    assert not proposer.asked
    assert max(each.rounds for each in chunks(events)) == MAX_ROUNDS_AT_ONCE


def test_a_model_with_a_head_takes_no_steps_by_itself():
    model = Stepping(hashed_logits(1), LETTERS)
    model.head, steps = object(), []
    model.multi_step = lambda *arguments: steps.append(arguments)
    [events] = Running(model, 0.0001).run()
    assert not steps
    assert len(tokens(events)) == 41
