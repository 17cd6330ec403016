"""A draft model goes when memory runs short in the middle of a text, which stays the same."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import pairwise

import pytest

from localspec.base.errors import BackendError, ModelFileError, OutOfMemory
from localspec.base.tokens import tokens_of
from localspec.core.control.depth import Depth
from localspec.core.pairing.pair import Pair
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Needs, Options
from localspec.interfaces.costs import Costs
from localspec.interfaces.proposer import Ask, Quiet, RoundCost
from localspec.interfaces.testing import ScriptedModel
from localspec.running.memory.plan import plan
from localspec.running.memory.plan_request import PlanRequest
from localspec.running.memory.planner import Watcher
from localspec.running.models.locate import ModelFiles
from localspec.running.models.trial import ResolvedModel
from localspec.running.runtime.loaded_pair import LoadedPair
from localspec.running.runtime.loading import is_drafter_hopeless
from localspec.running.runtime.memory_relief import (
    AMPLE_SECONDS,
    HOPELESS_LOOKS,
    LOOK_SECONDS,
    DraftModelRelief,
)
from localspec.running.runtime.proposer_factory import ProposerFactory
from localspec.running.runtime.resolved_pair import ResolvedPair
from localspec.running.runtime.runtime import Runtime
from tests import engines
from tests.machines import GB, MB, cpu
from tests.runs import Want, converse, replies, said, scripted
from tests.seeing import CAT, DOG, pictured, seeing

PROMPTS = ([1, 2, 3, 4, 5] * 4, [2, 2, 3], [5, 4, 3, 2, 1, 1])
WANTS = [Want(prompt, Settings(max_tokens=120, ignore_end=True)) for prompt in PROMPTS]
TARGET, DRAFT = (ResolvedModel(ModelFiles("x", name), None, None) for name in ("a", "b"))


@dataclass
class Memory:
    """Short from one time on; with room again from another."""

    clock: Clock
    short: float = 1e9
    ample: float = 1e9

    def shortage(self) -> str:
        return "12 MiB are left" if self.short <= self.clock.now < self.ample else ""

    def has_room(self, count: int) -> bool:
        return self.clock.now >= self.ample


@dataclass
class Clock:
    now: float = 0.0
    step: float = 0.25

    def __call__(self) -> float:
        self.now += self.step
        return self.now


@dataclass
class Twins:
    """A pair whose draft model is a twin of the target, and which can be taken back."""

    depth: bool = True
    wanted: tuple[str, ...] = ("suffix", "draft-model")
    clock: Clock = field(default_factory=Clock)
    target: Callable[[], ScriptedModel] = scripted
    draft_cost: float = 0.001  # seconds of a draft token; a plain one takes ten times as long

    def __post_init__(self):
        self.memory = Memory(self.clock)
        self.drafts = []
        self.refuses, self.refused = False, 0
        twins = self

        class Reloaded(LoadedPair):
            def with_draft(self, tell=None):
                return replace(self, pair=Pair(self.pair.target, twins.draft()))

        needs = Needs(100 * MB, 10 * MB, 10 * MB)
        request = PlanRequest(lambda _: needs, Options(), 8192, lambda _: needs)
        resolved = ResolvedPair(TARGET, DRAFT, plan(request, cpu(8 * GB)))
        # A draft takes a tenth of a round, however busy this machine is.
        drafting = {1: self.draft_cost, 4: 4 * self.draft_cost}
        depth = Depth(Costs({1: 0.01, 9: 0.011}, {"draft-model": drafting}))
        factory = ProposerFactory(self.wanted, depth if self.depth else None, Clock(step=0.001))
        self.loaded = Reloaded(Pair(self.target(), self.draft()), resolved)
        hopeless = partial(is_drafter_hopeless, depth if self.depth else None, self.wanted)
        self.relief = DraftModelRelief(self.loaded, factory, self.memory, self.clock, hopeless)
        self.engine = Engine(
            self.loaded.pair.target,
            self.relief,
            4,
            Clock(step=0.01),
            EngineParts(depth.costs if self.depth else None, relief=self.relief),
        )

    def draft(self):
        if self.refuses:
            self.refused += 1
            raise OutOfMemory("there was no memory for it")
        self.drafts.append(Faulty())
        return self.drafts[-1]


class Faulty:
    """A twin of the target that can be told to fail."""

    def __init__(self):
        self.model = scripted()
        self.error = None
        self.closed = False

    def __getattr__(self, name):
        return getattr(self.model, name)

    def roll(self, rolls):
        if self.error:
            raise self.error
        return self.model.roll(rolls)

    def close(self):
        self.closed = True
        self.model.close()


def plain():
    return said(replies(scripted(), ProposerFactory(())(Pair(scripted())), WANTS, depth=0))


@pytest.mark.parametrize("depth", [True, False])
@pytest.mark.parametrize("wanted", [("suffix", "draft-model"), ("draft-model",)])
def test_the_text_is_the_same_when_the_draft_model_goes_in_the_middle(depth, wanted):
    twins = Twins(depth, wanted)
    twins.memory.short = 3.0
    results = converse(twins.engine, WANTS)
    assert said(results) == plain()
    assert twins.drafts[0].closed
    for result in results:
        [notice] = result.notices
        assert notice == (
            "the draft model was put away, prompt lookup drafts instead: 12 MiB are left"
        )
        assert set(result.speculation.tokens_by_source) >= {"draft-model", "suffix", "target"}


def test_the_text_behind_pictures_is_the_same_when_the_draft_model_goes_in_the_middle():
    def wants(model):
        prompts = ([1, 2], CAT, [3, 1, 2]), (DOG, [2, 1])
        return [pictured(model, *parts, settings=WANTS[0].settings) for parts in prompts]

    twins, plainly = Twins(target=seeing), seeing()
    twins.memory.short = 3.0
    results = converse(twins.engine, wants(twins.loaded.pair.target))
    assert twins.drafts[0].closed
    assert said(results) == said(replies(plainly, Silent(), wants(plainly)))


class Quieted(Silent):
    def __init__(self, rounds):
        self.rounds = rounds

    def quiet(self, ask):
        return Quiet(self.rounds)


def test_it_is_quiet_for_as_long_as_what_drafts_now():
    twins = Twins()
    relief = DraftModelRelief(
        twins.loaded, lambda pair: Quieted(9 if pair.draft is None else 5), twins.memory, Clock()
    )
    ask = Ask(0, tokens_of([1]), 4, Sampler(GREEDY, 0, tokens_of([1])))
    assert relief.quiet(ask) == Quiet(5)
    relief.give_up("memory is short")
    assert relief.quiet(ask) == Quiet(9)


def test_without_a_shortage_it_stays():
    twins = Twins(clock=Clock(step=LOOK_SECONDS))
    results = converse(twins.engine, WANTS)
    assert not twins.drafts[0].closed
    assert all(result.notices == () for result in results)


def test_a_draft_model_that_cannot_pay_gives_its_memory_back_for_good_and_says_so_once():
    twins = Twins(draft_cost=0.01, clock=Clock(step=LOOK_SECONDS))
    first, *others = (converse(twins.engine, WANTS[:1])[0] for _ in range(3))
    assert said([first]) == plain()[:1]
    assert "draft-model" not in first.speculation.tokens_by_source
    assert twins.drafts[0].closed
    assert first.notices == (
        "the draft model was put away, prompt lookup drafts instead: its drafts cost more here "
        "than they can win",
    )
    assert all(result.notices == () for result in others)
    twins.memory.ample = twins.clock.now
    twins.engine.idle()
    assert (twins.relief.away, len(twins.drafts)) == (False, 1)


def test_a_draft_model_that_has_hope_now_and_then_stays():
    twins, looks = Twins(clock=Clock(step=LOOK_SECONDS)), []
    relief = DraftModelRelief(
        twins.loaded,
        lambda pair: Silent(),
        twins.memory,
        twins.clock,
        lambda: looks.append(1) or len(looks) % HOPELESS_LOOKS != 0,
    )
    for _ in range(4 * HOPELESS_LOOKS):
        relief.propose([])
    assert len(looks) == 4 * HOPELESS_LOOKS
    assert not twins.drafts[0].closed


def test_drafts_of_a_length_that_the_user_chose_are_never_hopeless():
    twins = Twins(depth=False, draft_cost=0.01, clock=Clock(step=LOOK_SECONDS))
    converse(twins.engine, WANTS[:1])
    assert not twins.drafts[0].closed


def test_memory_is_looked_at_once_a_second_and_not_more():
    twins = Twins(clock=Clock(step=LOOK_SECONDS / 10))
    look_times = []
    shortage = twins.memory.shortage
    twins.memory.shortage = lambda: look_times.append(twins.clock.now) or shortage()
    converse(twins.engine, WANTS[:1])
    assert look_times
    assert all(b - a >= LOOK_SECONDS - 1e-9 for a, b in pairwise(look_times))


@pytest.mark.parametrize("kind", [OutOfMemory, BackendError])
def test_a_draft_model_that_fails_ends_no_request(kind):
    twins = Twins(depth=False, wanted=("draft-model",))
    twins.drafts[0].error = kind("the device gave up")
    results = converse(twins.engine, WANTS)
    assert said(results) == plain()
    assert all("the device gave up" in result.notices[0] for result in results)
    assert twins.relief.away == (kind is OutOfMemory)  # what is broken does not come back


def test_who_fails_without_a_draft_model_is_heard():
    twins = Twins()
    twins.relief.give_up("test")
    assert not twins.relief.give_up("again")

    calls = []

    def fail(asks):
        calls.append(asks)
        raise BackendError("broken")

    twins.relief._proposer.propose = fail
    with pytest.raises(BackendError, match="broken"):
        twins.relief.propose([])
    assert len(calls) == 1


def test_a_round_is_told_to_the_proposer_that_drafts_now():
    twins = Twins()
    made = []

    class Learner(Silent):
        def __init__(self):
            self.costs = []
            made.append(self)

        def note(self, cost):
            self.costs.append(cost)

    relief = DraftModelRelief(twins.loaded, lambda _: Learner(), twins.memory, twins.clock)
    cost = RoundCost(1, 1, 1, 0.01, reads=False)
    relief.note(cost)
    relief.give_up("test")
    relief.note(cost)
    relief.note(cost)
    assert [len(each.costs) for each in made] == [1, 2]


def test_a_target_without_memory_gets_the_draft_model_s():
    twins = Twins(depth=False)
    target, draft = twins.engine.target, twins.drafts[0]
    forward = target.forward

    def short(rows):
        if not draft.closed and sum(len(row.tokens) for row in rows) > 4:
            raise OutOfMemory("the pool is full")
        return forward(rows)

    target.forward = short
    results = converse(twins.engine, WANTS)
    assert said(results) == plain()
    assert draft.closed
    assert "the pool is full" in results[0].notices[0]


def test_another_fault_of_the_target_does_not_cost_the_draft_model():
    twins = Twins()

    def fail(rows):
        raise BackendError("a bad batch")

    twins.engine.target.forward = fail
    heard = []
    want = WANTS[0]
    twins.engine.add(twins.engine.prepare(tokens_of(want.prompt), want.settings, heard.append))
    twins.engine.step()
    assert isinstance(heard[-1], BackendError)
    assert not twins.drafts[0].closed


def test_it_comes_back_after_memory_was_ample_for_a_while():
    twins = Twins()
    twins.relief.give_up("test")
    twins.memory.ample = twins.clock.now + 10
    twins.clock.step = 1.0
    for _ in range(200):
        twins.relief.idle()
    assert len(twins.drafts) == 2
    assert not twins.drafts[1].closed
    assert twins.clock.now >= AMPLE_SECONDS + 9
    results = converse(twins.engine, WANTS)
    assert said(results) == plain()
    assert "draft-model" in results[0].speculation.tokens_by_source
    assert results[0].notices[-1] == "the draft model is back: there is memory for it again"


def test_it_does_not_come_back_while_there_is_too_little():
    twins = Twins()
    twins.relief.give_up("test")
    twins.clock.step = 1.0
    for _ in range(200):
        twins.relief.idle()
    assert len(twins.drafts) == 1


def test_where_it_cannot_be_loaded_again_it_is_tried_later():
    twins = Twins()
    twins.relief.give_up("test")
    twins.memory.ample = 0.0
    twins.memory.short = 1e9
    twins.clock.step, twins.refuses = 1.0, True
    for _ in range(100):
        twins.relief.idle()
    assert twins.relief.away
    assert 2 <= twins.refused <= 4
    twins.refuses = False
    for _ in range(100):
        twins.relief.idle()
    assert not twins.relief.away


def test_it_comes_back_while_nobody_asks(monkeypatch):
    monkeypatch.setattr("localspec.core.requests.worker.IDLE_SECONDS", 0.01)
    twins = Twins(depth=False, wanted=("draft-model",))
    back = threading.Event()
    take_back = twins.relief._take_back
    twins.relief._take_back = lambda: (take_back(), back.set())
    with Runtime(twins.engine) as runtime:
        twins.memory.short, twins.memory.ample = 2.0, 30.0
        first = runtime.generate(PROMPTS[0], WANTS[0].settings)
        assert first.notices
        twins.clock.step = 10.0
        assert back.wait(30)
        second = runtime.generate(PROMPTS[0], WANTS[0].settings)
    assert second.tokens == first.tokens
    assert "draft-model" in second.speculation.tokens_by_source


def test_closing_the_engine_frees_what_came_back():
    twins = Twins()
    twins.relief.give_up("test")
    twins.memory.ample = 0.0
    twins.clock.step = AMPLE_SECONDS
    twins.relief.idle()
    twins.engine.close()
    assert twins.drafts[-1].closed


@pytest.mark.parametrize(
    "name", ["glm4moe-soft-mtp", "llama-eagle3", engines.COMPANION, *engines.MLX_HEADS[:1]]
)
def test_a_head_goes_in_the_middle_and_its_texts_go_on(name):
    with closing(engines.target(name)) as target:
        by = target.head.proposer
        wants = [Want(prompt, WANTS[0].settings) for prompt in ([300, 301, 302], [310, 77, 50])]
        plain = said(replies(target, Silent(), wants, depth=0))
        clock = Clock()
        memory = Memory(clock, short=6.0)
        loaded = LoadedPair(Pair(target), ResolvedPair(TARGET, None, Twins().loaded.plan))
        relief = DraftModelRelief(loaded, ProposerFactory((by,)), memory, clock)
        engine = Engine(target, relief, 4, parts=EngineParts(relief=relief))
        results = converse(engine, wants)
        assert target.head is None
        assert not relief.away
        assert said(converse(engine, wants)) == plain  # whose prefixes are in slots
    assert said(results) == plain
    for result in results:
        [notice] = result.notices
        assert notice.startswith("the drafting head was put away, prompt lookup drafts instead")
        assert result.speculation.positions[by][0][0] > 0


class Look:
    def __init__(self, free):
        self.free = free

    def __call__(self):
        machine = cpu(8 * GB)
        return replace(machine, host=replace(machine.host, free=self.free))


def watcher(free, stalls=0.0):
    needs = Needs(100 * MB, 10 * MB, 10 * MB)
    planned = plan(PlanRequest(lambda _: needs, Options(), 8192), cpu(8 * GB))
    return Watcher(planned, Look(free), lambda: stalls)


def test_memory_is_short_when_half_of_the_reserve_is_gone():
    assert watcher(257 * MB).shortage() == ""
    assert watcher(255 * MB).shortage() == "255 MiB are left in host memory"
    assert watcher(4 * GB, stalls=0.25).shortage() == "25% of all time goes into waiting for memory"


def test_there_is_room_where_the_reserve_stays():
    assert watcher(712 * MB).has_room(200 * MB)
    assert not watcher(711 * MB).has_room(200 * MB)


def test_a_file_that_has_gone_is_not_looked_for_again():
    twins = Twins()
    twins.relief.give_up("test")

    def gone():
        raise ModelFileError("draft does not exist")

    twins.draft, twins.memory.ample, twins.clock.step = gone, 0.0, AMPLE_SECONDS
    twins.relief.idle()
    assert not twins.relief.away


def test_it_does_not_come_back_at_once_though_there_was_room_for_long():
    twins = Twins()
    twins.clock.now = 1000.0
    twins.memory.ample = 0.0
    twins.relief.give_up("test")
    twins.relief.idle()
    assert twins.relief.away
