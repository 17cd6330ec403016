"""Slots, prefixes, cancellation and endings."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.base.errors import BackendError, PromptTooLong, UsageError
from localspec.base.tokens import tokens_of
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.requests.job import Chunk, Result
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.backend import Row
from localspec.interfaces.testing import ScriptedModel, hashed_logits
from tests.runs import PROPOSERS, Want, replies, said, scripted

LONG = Settings(max_tokens=200, ignore_end=True)


class Harness:
    """An engine whose requests are followed one by one."""

    def __init__(self, model=None, proposer=None, **options):
        self.model = model or scripted()
        self.engine = Engine(self.model, proposer or Silent(), **options)
        self.heard = []

    def ask(self, prompt, settings=LONG):
        events = []
        self.heard.append(events)
        job = self.engine.prepare(tokens_of(prompt), settings, events.append)
        self.engine.add(job)
        return job, events

    def finish(self):
        while self.engine.busy:
            self.engine.step()


def test_more_requests_than_slots_wait_their_turn():
    model = scripted()
    model.slots = 2
    wants = [Want([1, at % 5], Settings(max_tokens=10 + at)) for at in range(7)]
    assert said(replies(model, Silent(), wants)) == said(
        [replies(scripted(), Silent(), [want])[0] for want in wants]
    )


class Listening(NgramProposer):
    """Notes what it hears of prompts that are read beside."""

    def __init__(self):
        super().__init__(3, 1)
        self.beside = []

    def propose(self, asks):
        self.beside += [ask.beside for ask in asks]
        return super().propose(asks)


def test_who_drafts_hears_how_much_of_prompts_is_read_in_the_same_batch():
    proposer = Listening()
    harness = Harness(proposer=proposer)
    harness.ask([1, 2, 3] * 4)
    for _ in range(4):
        harness.engine.step()
    assert set(proposer.beside) == {0}
    harness.ask([4, 5, 3, 2] * 5)
    harness.finish()
    assert sum(proposer.beside) == 20
    assert proposer.beside.count(0) > 10


def test_a_follow_up_reads_only_what_is_new():
    harness = Harness()
    prompt = [1, 2, 3, 4, 5] * 4
    _, events = harness.ask(prompt, Settings(max_tokens=8, ignore_end=True))
    harness.finish()
    reply = list(events[-1].tokens)
    _, events = harness.ask([*prompt, *reply, 1, 1], Settings(max_tokens=4))
    harness.finish()
    assert events[-1].usage.cached_tokens == len(prompt) + len(reply) - 1


def test_the_same_prompt_again_is_fed_from_its_last_token():
    harness = Harness()
    for _ in range(2):
        _, events = harness.ask([1, 2, 3, 4], Settings(max_tokens=3))
        harness.finish()
    assert events[-1].usage.cached_tokens == 3


def test_a_prefix_is_copied_from_a_slot_that_is_busy():
    harness = Harness()
    prompt = [1, 2, 3, 4, 5] * 4
    harness.ask(prompt, LONG)
    for _ in range(3):
        harness.engine.step()
    _, events = harness.ask([*prompt, 2, 2], Settings(max_tokens=4))
    harness.finish()
    assert events[-1].usage.cached_tokens == len(prompt)
    alone = replies(scripted(), Silent(), [Want([*prompt, 2, 2], Settings(max_tokens=4))])[0]
    assert events[-1].tokens == alone.tokens


def test_a_long_conversation_is_not_given_up_for_one_that_starts_alike():
    harness = Harness()
    first = [1, 2, *[3, 4, 5] * 10]
    harness.ask(first, Settings(max_tokens=3))
    harness.finish()
    harness.ask([1, 2, 6, 6], Settings(max_tokens=3))
    harness.finish()
    _, events = harness.ask([*first, 1], Settings(max_tokens=3))
    harness.finish()
    assert events[-1].usage.cached_tokens >= len(first)


def test_a_recurrent_model_reads_again_what_it_cannot_go_back_to():
    harness = Harness(scripted(recurrent=True))
    for prompt in ([1, 2, 3, 4, 5, 1], [1, 2, 3, 2, 2]):
        _, events = harness.ask(prompt, Settings(max_tokens=5))
        harness.finish()
        alone = replies(scripted(), Silent(), [Want(prompt, Settings(max_tokens=5))])[0]
        assert events[-1].tokens == alone.tokens


def test_a_cancelled_request_keeps_what_was_said_and_frees_its_slot():
    model = scripted()
    model.slots = 1
    harness = Harness(model)
    job, events = harness.ask([1, 2], LONG)
    _, other = harness.ask([3, 4], Settings(max_tokens=3))
    for _ in range(5):
        harness.engine.step()
    job.cancelled = True
    harness.finish()
    result = events[-1]
    assert isinstance(result, Result)
    assert result.finish_reason == "cancelled"
    assert result.text == "".join(event.text for event in events[:-1])
    assert 0 < len(result.tokens) < 200
    assert other[-1].finish_reason in ("length", "stop")


def test_a_request_cancelled_while_waiting_never_runs():
    harness = Harness()
    job, events = harness.ask([1, 2], LONG)
    job.cancelled = True
    harness.finish()
    assert [event.finish_reason for event in events] == ["cancelled"]
    assert harness.model.forwards == 0


class Failing:
    """A model that fails at chosen forwards, as if memory had run out."""

    def __init__(self, model, *failures):
        self.inner = model
        self.failures = set(failures)
        self.count = 0
        for name in ("tokenizer", "vocabulary", "slots", "context", "pool", "batch", "tentative"):
            setattr(self, name, getattr(model, name))

    def forward(self, rows):
        self.count += 1
        if self.count in self.failures:
            raise BackendError("no room left in the context")
        return self.inner.forward(rows)

    def truncate(self, slot, length):
        return self.inner.truncate(slot, min(length, len(self.inner.held.get(slot, []))))

    def copy(self, source, target, length):
        return self.inner.copy(source, target, length)


def test_a_failed_forward_ends_its_requests_and_no_others():
    harness = Harness(Failing(scripted(), 4, 5))  # a round that fails is tried once more
    _, events = harness.ask([1, 2], LONG)
    harness.finish()
    assert isinstance(events[-1], BackendError)
    _, events = harness.ask([1, 2], Settings(max_tokens=5))
    harness.finish()
    alone = replies(scripted(), Silent(), [Want([1, 2], Settings(max_tokens=5))])[0]
    assert events[-1].tokens == alone.tokens


def test_a_failed_forward_is_tried_again_once_idle_slots_are_emptied():
    model = Failing(scripted(), 9, 10)
    harness = Harness(model)
    harness.ask([5, 5, 5, 4], Settings(max_tokens=4, ignore_end=True))
    harness.finish()
    _, events = harness.ask([1, 2], LONG)
    harness.finish()
    alone = replies(scripted(), Silent(), [Want([1, 2], LONG)])[0]
    assert events[-1].tokens == alone.tokens
    assert model.inner.held[0] == []


class Poisoned:
    """A model whose logits are no numbers for one slot."""

    def __init__(self, model):
        self.inner = model
        for name in ("tokenizer", "vocabulary", "slots", "context", "pool", "batch", "tentative"):
            setattr(self, name, getattr(model, name))
        self.truncate, self.copy = model.truncate, model.copy

    def forward(self, rows):
        logits = self.inner.forward(rows)
        return [
            each * float("nan") if row.slot == 1 else each
            for row, each in zip(rows, logits, strict=True)
        ]


def test_logits_that_are_no_numbers_end_one_request_and_no_others():
    harness = Harness(Poisoned(scripted()))
    heard = [harness.ask([1, at, 2], Settings(max_tokens=9))[1] for at in range(3)]
    harness.finish()
    alone = replies(
        scripted(), Silent(), [Want([1, at, 2], Settings(max_tokens=9)) for at in (0, 2)]
    )
    assert said([heard[0][-1], heard[2][-1]]) == said(alone)
    assert isinstance(heard[1][-1], BackendError)


def test_what_a_stop_text_might_have_begun_in_belongs_to_a_cancelled_reply():
    harness = Harness()
    [plain] = replies(scripted(), Silent(), [Want([1, 2], LONG)])
    stop = plain.text[:12] + "?"
    job, events = harness.ask([1, 2], Settings(max_tokens=200, ignore_end=True, stop=(stop,)))
    for _ in range(6):
        harness.engine.step()
    job.cancelled = True
    harness.finish()
    assert events[-1].text == plain.text[:6]


def test_every_request_ends_exactly_once():
    harness = Harness(proposer=NgramProposer(3, 1))
    jobs = [harness.ask([1, at % 5, 2], Settings(max_tokens=5 + at)) for at in range(12)]
    for at, (job, _) in enumerate(jobs):
        harness.engine.step()
        job.cancelled = at % 3 == 0
    harness.finish()
    for _, events in jobs:
        assert [isinstance(event, Chunk) for event in events] == [True] * (len(events) - 1) + [
            False
        ]


def test_replies_go_on_while_a_long_prompt_is_read():
    harness = Harness(scripted(batch=16))
    _, events = harness.ask([1, 2], LONG)
    for _ in range(3):
        harness.engine.step()
    before = len(events)
    harness.ask([at % 6 for at in range(150)], Settings(max_tokens=3))
    for _ in range(10):
        harness.engine.step()
    assert len(events) == before + 10


def test_everyone_gets_a_turn_when_the_batch_is_smaller_than_the_crowd():
    harness = Harness(scripted(batch=7), NgramProposer(3, 1), depth=4)
    jobs = [harness.ask([at % 6, 1], Settings(max_tokens=40, ignore_end=True)) for at in range(8)]
    for _ in range(40):
        harness.engine.step()
    assert min(len(events) for _, events in jobs) >= 4


@pytest.mark.parametrize(
    ("prompt", "settings", "message"),
    [
        ([], LONG, "empty"),
        ([1, 7], LONG, "outside 0 to 6"),
        ([-1], LONG, "outside 0 to 6"),
        ([1], Settings(sampling=Sampling(bias={9: 1.0})), "bias"),
    ],
)
def test_a_request_that_makes_no_sense_is_refused_at_once(prompt, settings, message):
    with pytest.raises(UsageError, match=message):
        Harness().ask(prompt, settings)


@pytest.mark.parametrize("length", [100, 120])
def test_a_prompt_that_leaves_no_room_names_both_numbers(length):
    model = scripted()
    model.context = 100
    with pytest.raises(PromptTooLong, match=rf"{length} tokens > 100;"):
        Harness(model).ask([1] * length)


@pytest.mark.parametrize("name", ["ngram", "twin", "stranger"])
@pytest.mark.parametrize("context", [11, *range(20, 27)])
def test_a_reply_ends_where_the_context_is_full(name, context):
    model = scripted()
    model.context = context
    [result] = replies(model, PROPOSERS[name](), [Want([1, 2] * 5, Settings(ignore_end=True))])
    assert result.finish_reason == "length"
    assert len(result.tokens) == context - 10


def test_log_probabilities_are_those_of_the_raw_logits_with_and_without_speculation():
    sampling = Sampling(temperature=0.7, top_k=3, presence=0.5)
    settings = Settings(max_tokens=30, sampling=sampling, seed=3, logprobs=2, ignore_end=True)
    model = scripted()
    [plain] = replies(model, Silent(), [Want([1, 2], settings)])
    [fast] = replies(scripted(), NgramProposer(3, 1), [Want([1, 2], settings)])
    assert fast.logprobs == plain.logprobs
    assert [each.token for each in plain.logprobs] == list(plain.tokens)
    context = [1, 2]
    for each in plain.logprobs:
        [logits] = scripted().forward([Row(0, tokens_of(context))])
        weights = 2.718281828459045 ** (logits[0].astype(float))
        probabilities = dict(enumerate((weights / weights.sum()).tolist()))
        best = sorted(probabilities, key=probabilities.get, reverse=True)[:2]
        assert [t.token for t in each.top] == best
        assert 2.718281828459045**each.logprob == pytest.approx(probabilities[each.token], rel=1e-4)
        context.append(each.token)


@pytest.mark.parametrize("name", ["silent", "ngram", "twin", "stranger", "best"])
@pytest.mark.parametrize(
    ("sampling", "banned"),
    [(Sampling(0.9, top_k=3, presence=0.5), ("ab", "dd")), (Sampling(0.9), ()), (Sampling(), ())],
)
def test_log_probabilities_as_tokens_were_drawn_are_those_of_the_sampler(name, sampling, banned):
    settings = Settings(30, sampling, 3, logprobs=7, sampled_logprobs=True, banned_strings=banned)
    [result] = replies(scripted(), PROPOSERS[name](), [Want([1, 2], settings)])
    assert [emitted.token for emitted in result.logprobs] == list(result.tokens)
    sampler = (
        Engine(scripted(), Silent()).prepare(tokens_of([1, 2]), settings, print).generation.sampler
    )
    context = [1, 2]
    for emitted in result.logprobs:
        [[logits]] = scripted().forward([Row(0, tokens_of(context))])
        distribution = sampler.distribution(logits)
        drawn = {one.token: 2.718281828459045**one.logprob for one in (emitted, *emitted.top)}
        assert drawn == pytest.approx({token: distribution.prob(token) for token in drawn})
        assert {one.token for one in emitted.top} == set(distribution.ids.tolist())
        assert [one.logprob for one in emitted.top] == sorted(
            (one.logprob for one in emitted.top), reverse=True
        )
        sampler.emit([emitted.token])
        context.append(emitted.token)


@pytest.mark.parametrize("length", [200, 7, 8, 9, 10])  # the last draft is cut now and then
@pytest.mark.parametrize("proposer", ["ngram", "twin"])
def test_the_figures_add_up(length, proposer):
    settings = Settings(max_tokens=length, ignore_end=True, stop=("dd",))
    [r] = replies(scripted(), PROPOSERS[proposer](), [Want([1, 2, 1, 2], settings)])
    s = r.speculation
    assert sum(s.tokens_by_source.values()) == len(r.tokens) == r.usage.completion_tokens
    assert sum(n for by, n in s.tokens_by_source.items() if by != "target") == s.accepted
    assert s.accepted + s.taken_back == s.drafted > 0
    assert s.tokens_per_round == pytest.approx(len(r.tokens) / s.rounds)
    assert s.acceptance_rate == pytest.approx(s.accepted / s.drafted)
    assert sorted(s.acceptance_by_position, reverse=True) == list(s.acceptance_by_position)
    assert sum(each.drafted for by in s.positions.values() for each in by) == s.drafted
    assert sum(each.accepted for by in s.positions.values() for each in by) == s.accepted
    assert sum(s.depths.values()) == s.rounds
    assert sum(depth * count for depth, count in s.depths.items()) == s.drafted
    assert r.timings.first_token <= r.timings.total
    assert r.timings.between_tokens_p50 <= r.timings.between_tokens_p95


class Watched(ScriptedModel):
    """Keeps the rows it was given."""

    def __init__(self):
        super().__init__(hashed_logits(1))
        self.rows = []

    def forward(self, rows):
        self.rows += rows
        return super().forward(rows)


@pytest.mark.parametrize(
    ("settings", "told_of"),
    [
        (Settings(max_tokens=6, depth=0), 5),  # nothing is fed after the last
        (Settings(max_tokens=6, depth=0, seed=3, sampling=Sampling(temperature=0.8)), 5),
        (Settings(max_tokens=6, depth=0, sampling=Sampling(repetition=1.2)), 5),
        (Settings(max_tokens=6, depth=2), 0),
    ],
    ids=["greedy", "sampled", "penalised", "speculative"],
)
def test_the_engine_is_told_how_a_token_that_will_be_fed_alone_is_sampled(settings, told_of):
    model = Watched()
    proposer = NgramProposer() if settings.depth else Silent()
    [result] = replies(model, proposer, [Want([1, 2, 3], replace(settings, ignore_end=True))])
    nexts = [row.next for row in model.rows if row.next]
    assert len(nexts) == told_of
    for at, each in enumerate(nexts):
        assert each.position == 3 + at
        assert each.sampler.sampling == settings.sampling
        assert each.sampler.dice.seed == result.seed


class Slow(ScriptedModel):
    """A millisecond a token, by a clock of its own."""

    batch = 512

    def forward(self, rows):
        self.now += 0.001 * sum(len(row.tokens) for row in rows)
        return super().forward(rows)


def test_a_long_prompt_hardly_holds_up_those_who_are_being_answered():
    model = Slow(hashed_logits(5))
    model.now = 0.0
    harness = Harness(model, clock=lambda: model.now)
    _, running = harness.ask([1, 2, 3], Settings(max_tokens=60, ignore_end=True))
    harness.engine.step()
    _, coming = harness.ask([4, 5] * 1000, Settings(max_tokens=2, ignore_end=True))
    harness.finish()
    assert running[-1].timings.between_tokens_p95 < 0.5
    assert coming[-1].timings.first_token < 2.5
    harness.ask([5, 4] * 1000, Settings(max_tokens=1))
    rounds = model.forwards
    harness.finish()
    assert model.forwards - rounds == 4  # in batches as large as there are


def test_a_piece_of_a_prompt_is_priced_by_the_tokens_before_it(monkeypatch):
    harness, noted, asked = Harness(), [], []
    pace = harness.engine._pace
    allowance, note = pace.allowance, pace.note
    monkeypatch.setattr(pace, "allowance", lambda before: asked.append(before) or allowance(before))
    monkeypatch.setattr(pace, "note", lambda *each: noted.append(each[::2]) or note(*each))
    harness.ask([1, 2, 3], Settings(max_tokens=60, ignore_end=True))
    harness.engine.step()
    harness.ask([4, 5] * 150, Settings(max_tokens=2, ignore_end=True))
    harness.finish()
    pieces = [(read, before) for read, before in noted[1:] if read]
    assert len(pieces) > 1
    assert [before for _, before in pieces] == [
        sum(r for r, _ in pieces[:at]) for at in range(len(pieces))
    ]
    assert asked[1:] == [before for _, before in pieces]


def test_what_is_wrong_with_one_sequence_does_not_end_the_others():
    harness = Harness()
    broken, first = harness.ask([1, 2, 3])
    _, second = harness.ask([3, 2, 1], Settings(max_tokens=20, ignore_end=True))
    harness.engine.step()
    broken.generation.spell = lambda token: 1 / 0
    harness.finish()
    assert isinstance(first[-1], BackendError)
    assert isinstance(first[-1].__cause__, ZeroDivisionError)
    assert len(second[-1].tokens) == 20
    for _ in range(harness.model.slots):
        harness.ask([1, 2])
    harness.engine.step()
    assert len(harness.engine.jobs) == harness.model.slots


@pytest.mark.parametrize("allowance", [16, 50, 100, 300])
@pytest.mark.parametrize("lengths", [(110, 250), (55, 53, 51), (17, 400, 330), (105, 64, 63, 9)])
def test_prompts_read_in_pieces_beside_replies_give_the_texts_of_each_alone(
    monkeypatch, allowance, lengths
):
    prompts = [[(3 * at + size) % 6 for at in range(size)] for size in lengths]
    alone = [Harness(scripted(batch=512)) for _ in prompts]
    for desk, prompt in zip(alone, prompts, strict=True):
        desk.ask(prompt, Settings(max_tokens=20, ignore_end=True))
        desk.finish()
    together = Harness(scripted(batch=512))
    monkeypatch.setattr(together.engine._pace, "allowance", lambda before: allowance)
    together.ask([1, 2, 3], replace(LONG, max_tokens=60))
    together.engine.step()
    for prompt in prompts:
        together.ask(prompt, Settings(max_tokens=20, ignore_end=True))
    together.finish()
    assert [heard[-1].tokens for heard in together.heard[1:]] == [
        desk.heard[0][-1].tokens for desk in alone
    ]


class Adapting(ScriptedModel):
    """A model that says at once what it changed while it ran."""

    changes = ("one thread less",)

    def take_notices(self):
        changes, self.changes = self.changes, ()
        return list(changes)


def test_what_a_model_changes_by_itself_is_told_to_those_who_wait_and_logged(caplog):
    harness = Harness(Adapting(hashed_logits(1)))
    _, events = harness.ask([1, 2], Settings(max_tokens=3))
    harness.finish()
    _, later = harness.ask([1, 2], Settings(max_tokens=3))
    harness.finish()
    assert events[-1].notices == ("one thread less",)
    assert later[-1].notices == ()
    assert [record.message for record in caplog.records] == ["one thread less"]
