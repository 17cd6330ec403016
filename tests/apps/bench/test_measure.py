"""Modes over one model: in turn, from emptied slots, timed round by round."""

from __future__ import annotations

import pytest

from localspec.apps.bench.budget import Pace
from localspec.apps.bench.measure import (
    NEWEST,
    WARM_UP,
    Question,
    ask,
    questions,
    replies,
    warmed_up,
)
from localspec.apps.bench.modes import AGAIN, Kind, Lineup, Mode, kinds
from localspec.apps.bench.prompts import Prompt
from localspec.apps.bench.watched import Watched
from localspec.base.errors import BackendError, UsageError
from localspec.base.system.energy import Counter, EnergyMeter
from localspec.base.tokens import tokens_of
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.backend import Row
from localspec.interfaces.testing import Alphabet, ScriptedModel, hashed_logits

LETTERS = Alphabet([bytes([letter]) for letter in b"abcdefg"])
SETTINGS = Settings(max_tokens=24, seed=3)


class Slow(ScriptedModel):
    """Takes a second a forward and a tenth of one a token, by a clock of its own."""

    def __init__(self, seed=1):
        super().__init__(hashed_logits(seed), LETTERS)
        self.now = 0.0
        self.fed = []  # how many tokens each slot held before each forward, and the row's

    def forward(self, rows):
        self.fed += [(len(self.held.get(row.slot, [])), len(row.tokens)) for row in rows]
        self.now += 1 + sum(len(row.tokens) for row in rows) / 10
        return super().forward(rows)

    def clock(self):
        return self.now


def prompt(words="abcabcab", number=1, prediction=""):
    return Prompt("chat", ({"role": "user", "content": words},), prediction, number)


def question(words="abcabcab", settings=SETTINGS):
    return Question(prompt(words), LETTERS.encode(words), settings)


def lineup(model, draft=None, names=("plain", "ngram", "draft", AGAIN)):
    target = Watched(model, model.clock)
    draft = draft or ScriptedModel(hashed_logits(1), LETTERS)
    makes = {
        "plain": lambda: Engine(target, Silent(), 0, model.clock),
        "ngram": lambda: Engine(target, NgramProposer(3, 1), 4, model.clock),
        "draft": lambda: Engine(target, DraftModelProposer(draft, floor=0), 4, model.clock),
        AGAIN: lambda: Engine(target, Silent(), 0, model.clock),
    }
    modes = tuple(Mode(name, makes[name], reads=name == "draft") for name in names)
    return Lineup(target, (target, draft), modes)


def test_every_mode_answers_every_prompt_in_turn_between_two_plain_replies():
    asked = [question(), question("cab"), question("bad")]
    listed = list(replies(lineup(Slow()), asked, repeat=2))
    order = [reply.mode for reply in listed]
    assert len(listed) == 4 * 3 * 2
    assert order[:4] == ["plain", "ngram", "draft", AGAIN]
    assert order[4:8] == ["plain", "draft", "ngram", AGAIN]
    assert [reply.repeat for reply in listed] == [0] * 12 + [1] * 12
    assert all(reply.prompt == asked[at // 4 % 3].prompt for at, reply in enumerate(listed))


def test_greedy_modes_say_the_same_and_only_some_draft():
    plain, ngram, draft, again = replies(lineup(Slow()), [question()], repeat=1)
    assert plain.tokens == ngram.tokens == draft.tokens == again.tokens
    assert len(plain.tokens) == 24
    assert plain.prompt_tokens == 8
    assert not any(each.drafted for each in (*plain.rounds, *again.rounds))
    assert sum(each.accepted for each in draft.rounds) == sum(each.drafted for each in draft.rounds)
    assert any(each.rejects for each in ngram.rounds)


def test_rounds_add_up_to_the_reply():
    for reply in replies(lineup(Slow()), [question(), question("gfedcba")], repeat=1):
        assert sum(each.emitted for each in reply.rounds) == len(reply.tokens)
        assert all(each.accepted <= each.drafted for each in reply.rounds)
        assert all(each.emitted == each.accepted + 1 for each in reply.rounds[:-1])


def test_a_prompt_is_read_once_and_by_modes_that_draft_with_a_model_of_their_own():
    model, long = Slow(), question("abcabcab" * 3)
    listed = list(replies(lineup(model), [long, question("gfedcbagfedcba")], repeat=1))
    assert [(each.mode, each.cached_tokens) for each in listed] == [
        ("plain", 0),
        ("ngram", 24 - NEWEST),
        ("draft", 0),
        (AGAIN, 24 - NEWEST),
        ("plain", 0),
        ("draft", 0),
        ("ngram", 14 - NEWEST),
        (AGAIN, 14 - NEWEST),
    ]
    assert len({each.tokens for each in listed[:4]}) == 1
    assert [fed for fed in model.fed if fed[1] > 8] == [(0, 24)] * 2 + [(0, 14)] * 2


def test_no_reply_is_held_when_the_next_one_begins():
    model, asked = Slow(), question("abcabcab" * 3)
    list(replies(lineup(model, names=("plain", "ngram", AGAIN)), [asked], repeat=1))
    assert [fed for fed in model.fed if fed[1] == NEWEST] == [(24 - NEWEST, NEWEST)] * 2


def test_a_draft_model_starts_from_nothing_as_well():
    model, draft = Slow(), Slow()
    list(replies(lineup(model, draft, ("plain", "draft", AGAIN)), [question()] * 2, repeat=1))
    assert sum(held == 0 for held, _ in draft.fed) == 2


def test_the_warm_up_is_short_and_tells_the_pace():
    model = Slow()
    modes = lineup(model)
    for mode in modes.modes:
        assert mode.make()
    pace = warmed_up(modes, question("abcabcab" * 3))
    assert max(held for held, _ in model.fed) <= 24 + WARM_UP
    assert pace.reading > 0
    assert pace.decoding > 0
    few = question(settings=Settings(max_tokens=1))
    assert isinstance(warmed_up(lineup(Slow()), few), Pace)


def test_rounds_are_timed_from_one_to_the_next_and_forwards_apart():
    model = Slow()
    target = Watched(model, model.clock)
    engine = Engine(target, NgramProposer(3, 1), 4, model.clock)
    result, rounds = ask(engine, target, question(), model.clock)
    first, *later = rounds
    assert (first.seconds, first.checking) == (pytest.approx(1.8), pytest.approx(1.8))
    assert any(each.drafted for each in later)
    for each in later:
        assert each.checking == pytest.approx(1 + (1 + each.drafted) / 10)
        assert each.seconds == pytest.approx(each.checking)
    seconds = sum(each.seconds for each in later)
    assert result.timings.tokens_per_second == pytest.approx((24 - 1) / seconds)
    assert result.timings.first_token == pytest.approx(first.seconds)


def test_text_that_was_held_back_is_no_round():
    """Half a character is shown when the reply is over, without a token."""
    model = ScriptedModel(hashed_logits(1), Alphabet([b"\xc3"] * 7))
    target = Watched(model)
    asked = Question(prompt(), tokens_of([1, 2]), Settings(max_tokens=5))
    result, rounds = ask(Engine(target, Silent(), 0), target, asked)
    assert result.text
    assert [each.emitted for each in rounds] == [1] * 5


class Dawdling:
    """A proposer that takes its time."""

    def __init__(self, model, seconds):
        self.model, self.seconds, self.inner = model, seconds, NgramProposer(3, 1)

    def propose(self, asks):
        self.model.now += self.seconds
        return self.inner.propose(asks)

    def release(self, slot):
        self.inner.release(slot)


def test_what_drafting_takes_is_not_the_forwards_time():
    model = Slow()
    target = Watched(model, model.clock)
    engine = Engine(target, Dawdling(model, 0.5), 4, model.clock)
    _, rounds = ask(engine, target, question(), model.clock)
    assert all(r.seconds - r.checking == pytest.approx(0.5) for r in rounds[1:-1])


def test_repeats_draw_other_texts_and_modes_the_same():
    settings = Settings(max_tokens=24, seed=3, sampling=Sampling(temperature=1.0))
    names = ("plain", "ngram", AGAIN)
    asked = [question(settings=settings)]
    listed = list(replies(lineup(Slow(), names=names), asked, repeat=2))
    first, second = {r.tokens for r in listed[:3]}, {r.tokens for r in listed[3:]}
    assert len(first) == len(second) == 1
    assert first != second
    again = list(replies(lineup(Slow(), names=names), asked, repeat=2))
    assert [r.tokens for r in again] == [r.tokens for r in listed]


def test_a_prompt_without_a_template_is_read_as_it_is():
    [asked_question] = questions(Slow(), [prompt("abc", prediction="cab")], SETTINGS)
    assert asked_question.tokens.tolist() == [0, 1, 2]
    assert asked_question.settings.prediction == "cab"
    assert asked_question.settings.seed == SETTINGS.seed


def test_a_prompt_goes_through_the_models_template():
    model = Slow()
    model.tokenizer.chat_template = "g{% for m in messages %}{{ m.content }}{% endfor %}g"
    try:
        [asked_question] = questions(model, [prompt("abc")], SETTINGS)
    finally:
        model.tokenizer.chat_template = None
    assert asked_question.tokens.tolist() == [6, 0, 1, 2, 6]


def test_a_prompt_that_does_not_fit_is_named_before_anything_is_asked():
    model = Slow()
    model.context = 6
    with pytest.raises(UsageError, match=r"chat 2: the prompt is too long: 8 tokens > 6;"):
        questions(model, [prompt("abc"), prompt("abcabcab", 2)], SETTINGS)
    assert not model.fed


def test_a_model_that_fails_ends_the_run_with_the_prompt_it_failed_at():
    model = Slow()
    modes = lineup(model, names=("plain", AGAIN))

    def broken(rows):
        raise BackendError("out of memory")

    model.forward = broken
    with pytest.raises(BackendError, match="chat 1 was not answered: out of memory"):
        list(replies(modes, [question()], repeat=1))


def test_a_watched_model_is_the_model_it_watches():
    model = Slow()
    watched = Watched(model, model.clock)
    assert (watched.context, watched.batch, watched.tentative, watched.slots) == (
        model.context,
        model.batch,
        model.tentative,
        model.slots,
    )
    engine = Engine(watched, Silent(), 0)
    ask(engine, watched, question())
    assert watched.truncate(0, 5) == 5
    assert watched.copy(0, 1, 4) == 4
    assert model.held[1] == model.held[0][:4]
    watched.close()
    assert not model.held


def test_several_plain_rounds_at_once_are_rounds_of_their_own():
    class Hurrying(Slow):
        def multi_step(self, slots, tokens, choose):
            [slot], newest = slots, list(tokens)
            while newest:
                logits = self.forward([Row(slot, tokens_of(newest))])
                newest = choose([each[0] for each in logits])

    model = Hurrying()
    model.clock = lambda: model.now / 1000  # rounds so short that many are run at once
    target = Watched(model, model.clock)
    engine = Engine(target, Silent(), 0, model.clock)
    result, rounds = ask(engine, target, question(), model.clock)
    assert (
        result.tokens
        == ask(Engine(Watched(Slow()), Silent(), 0), Watched(Slow()), question())[0].tokens
    )
    assert [each.emitted for each in rounds] == [1] * 24
    for each in rounds[1:]:
        assert each.seconds == pytest.approx(0.0011)
        assert each.checking == pytest.approx(0.0011)


@pytest.mark.parametrize("draft", ["", "draft-model", "eagle3"])
def test_plain_comes_first_and_last_whatever_is_asked_for(draft):
    named = kinds(("ngram:2", "plain", "ngram:2"), draft)
    assert [kind.name for kind in named] == ["plain", "ngram:2", AGAIN]
    assert named[0] == Kind("plain", (), 0)


def test_only_modes_that_decide_are_measured_without_details():
    assert [kind.name for kind in kinds(())] == ["plain", "auto", AGAIN]
    for drafter in ("draft-model", "eagle3"):
        _, lookup, auto, _ = kinds((), drafter)
        assert (lookup.name, auto.name) == ("lookup", "auto")
        assert auto.proposers == (*lookup.proposers, drafter)
        assert lookup.depth is auto.depth is None
        more = kinds((), drafter, details=True)
        assert {2, 4, 8} <= {kind.depth for kind in more if kind.proposers == (drafter,)}
    assert "prediction:8" in [kind.name for kind in kinds((), details=True)]


@pytest.mark.parametrize(
    ("name", "proposer", "depth"),
    [("ngram", "ngram", 4), ("suffix:1", "suffix", 1), ("draft-model:16", "draft-model", 16)],
)
def test_a_mode_may_say_how_far_it_drafts(name, proposer, depth):
    assert kinds((name,), "draft-model")[1] == Kind(name, (proposer,), depth)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("fast", "no mode 'fast'; known: plain, auto, "),
        ("ngram:", "no mode 'ngram:'"),
        ("ngram:x", "no mode 'ngram:x'"),
        ("auto:3", "no mode 'auto:3'"),
        ("ngram:0", "mode ngram:0 has depth 0; it must be 1 to 512"),
        ("ngram:513", "depth 513"),
        ("draft-model", "mode draft-model needs a draft model"),
        ("draft-model:2", "mode draft-model:2 needs a draft model"),
        ("dflash:2", "mode dflash:2 needs a drafting head"),
    ],
)
def test_a_mode_that_there_is_not_is_refused(name, message):
    with pytest.raises(UsageError, match=message):
        kinds((name,))


def test_the_energy_of_a_reply_is_counted_from_its_first_token_on():
    model = Slow()
    meter = EnergyMeter([Counter("package-0", lambda: 2 * model.now)])
    target = Watched(model)
    asked = question(settings=Settings(max_tokens=4, ignore_end=True))
    _, rounds = ask(Engine(target, Silent()), target, asked, model.clock, meter)
    decoding = sum(round_.seconds for round_ in rounds[1:])
    assert meter.joules() == pytest.approx(2 * decoding)
