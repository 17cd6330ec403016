"""Modes over one model: in turn, from emptied slots, timed round by round."""

from __future__ import annotations

import pytest

from localspec.bench.measure import WARM_UP, Question, ask, questions, replies
from localspec.bench.modes import Kind, Lineup, Mode, kinds
from localspec.bench.prompts import Prompt
from localspec.bench.watched import Watched
from localspec.engine.engine import Engine
from localspec.engine.figures import Clockwork
from localspec.engine.settings import Settings
from localspec.errors import BackendError, UsageError
from localspec.proposers.draft_model import DraftModelProposer
from localspec.proposers.ngram import NgramProposer
from localspec.proposers.silent import Silent
from localspec.sampling.parameters import Sampling
from localspec.testing import Alphabet, ScriptedModel, hashed_logits
from localspec.tokens import tokens_of

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


def lineup(model, draft=None, names=("plain", "ngram", "draft")):
    target = Watched(model, model.clock)
    draft = draft or ScriptedModel(hashed_logits(1), LETTERS)
    makes = {
        "plain": lambda: Engine(target, Silent(), 0, model.clock),
        "ngram": lambda: Engine(target, NgramProposer(3, 1), 4, model.clock),
        "draft": lambda: Engine(target, DraftModelProposer(draft, floor=0), 4, model.clock),
    }
    return Lineup(target, (target, draft), tuple(Mode(name, makes[name]) for name in names))


def test_every_mode_answers_every_prompt_and_each_begins_with_another():
    asked = [question(), question("cab"), question("bad")]
    found = list(replies(lineup(Slow()), asked, repeat=2))
    order = [reply.mode for reply in found]
    assert len(found) == 3 * 3 * 2
    assert order[:9] == "plain ngram draft ngram draft plain draft plain ngram".split()  # noqa: SIM905
    assert order[9] == "ngram"
    assert [reply.repeat for reply in found] == [0] * 9 + [1] * 9
    assert all(reply.prompt == asked[at // 3 % 3].prompt for at, reply in enumerate(found))


def test_greedy_modes_say_the_same_and_only_some_draft():
    plain, ngram, draft = replies(lineup(Slow()), [question()], repeat=1)
    assert plain.tokens == ngram.tokens == draft.tokens
    assert len(plain.tokens) == 24
    assert plain.prompt_tokens == 8
    assert not any(each.drafted for each in plain.rounds)
    assert sum(each.accepted for each in draft.rounds) == sum(each.drafted for each in draft.rounds)
    assert any(each.rejects for each in ngram.rounds)


def test_rounds_add_up_to_the_reply():
    for reply in replies(lineup(Slow()), [question(), question("gfedcba")], repeat=1):
        assert sum(each.emitted for each in reply.rounds) == len(reply.tokens)
        assert all(each.accepted <= each.drafted for each in reply.rounds)
        assert all(each.emitted == each.accepted + 1 for each in reply.rounds[:-1])


def test_every_answer_reads_its_whole_prompt_whoever_read_it_before():
    model = Slow()
    list(replies(lineup(model), [question(), question("abcabcabd")], repeat=1))
    readings = [fed for fed in model.fed if fed[0] == 0]
    assert readings == [(0, 8)] * 3 + [(0, 8)] * 3 + [(0, 9)] * 3


def test_a_draft_model_starts_from_nothing_as_well():
    model, draft = Slow(), Slow()
    list(replies(lineup(model, draft, ("plain", "draft")), [question()] * 2, repeat=1))
    assert sum(held == 0 for held, _ in draft.fed) == 1 + 2  # of the warm-up and two answers


def test_the_warm_up_is_short_and_not_counted():
    model = Slow()
    [only] = replies(lineup(model, names=("plain",)), [question()], repeat=1)
    assert len(model.fed) == WARM_UP + len(only.tokens)
    model = Slow()
    few = question(settings=Settings(max_tokens=3))
    list(replies(lineup(model, names=("plain",)), [few], repeat=1))
    assert len(model.fed) == 3 + 3


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
    names = ("plain", "ngram")
    asked = [question(settings=settings)]
    found = list(replies(lineup(Slow(), names=names), asked, repeat=2))
    first, second = {r.tokens for r in found[:2]}, {r.tokens for r in found[2:]}
    assert len(first) == len(second) == 1
    assert first != second
    again = list(replies(lineup(Slow(), names=names), asked, repeat=2))
    assert [r.tokens for r in again] == [r.tokens for r in found]


def test_a_prompt_without_a_template_is_read_as_it_is():
    [found] = questions(Slow(), [prompt("abc", prediction="cab")], SETTINGS)
    assert found.tokens.tolist() == [0, 1, 2]
    assert found.settings.prediction == "cab"
    assert found.settings.seed == SETTINGS.seed


def test_a_prompt_goes_through_the_models_template():
    model = Slow()
    model.tokenizer.chat_template = "g{% for m in messages %}{{ m.content }}{% endfor %}g"
    try:
        [found] = questions(model, [prompt("abc")], SETTINGS)
    finally:
        model.tokenizer.chat_template = None
    assert found.tokens.tolist() == [6, 0, 1, 2, 6]


def test_a_prompt_that_does_not_fit_is_named_before_anything_is_asked():
    model = Slow()
    model.context = 6
    with pytest.raises(UsageError, match=r"chat 2: the prompt is 8 tokens; .* loaded for 6"):
        questions(model, [prompt("abc"), prompt("abcabcab", 2)], SETTINGS)
    assert not model.fed


def test_a_model_that_fails_ends_the_run_with_the_prompt_it_failed_at():
    model = Slow()
    found = lineup(model, names=("plain",))

    def broken(rows):
        raise BackendError("out of memory")

    model.forward = broken
    with pytest.raises(BackendError, match="chat 1 was not answered: out of memory"):
        list(replies(found, [question()], repeat=1))


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


@pytest.mark.parametrize("draft", ["", "draft-model", "eagle3"])
def test_plain_comes_first_whatever_is_asked_for(draft):
    assert kinds(("ngram:2", "plain"), draft)[0] == Kind("plain", (), 0)
    assert [kind.name for kind in kinds(("ngram:2", "ngram:2"), draft)] == ["plain", "ngram:2"]
    usual = kinds((), draft)
    assert [(kind.name, kind.depth) for kind in usual[:2]] == [("plain", 0), ("auto", None)]
    assert {2, 4, 8} <= {kind.depth for kind in usual}
    assert any(kind.proposers == (draft,) for kind in usual) == bool(draft)
    assert (draft in usual[1].proposers) == bool(draft)


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
        ("ngram:0", "mode ngram:0 has depth 0; it must be 1 to 16"),
        ("ngram:17", "depth 17"),
        ("draft-model", "mode draft-model needs a draft model"),
        ("draft-model:2", "mode draft-model:2 needs a draft model"),
        ("dflash:2", "mode dflash:2 needs a drafting head"),
    ],
)
def test_a_mode_that_there_is_not_is_refused(name, message):
    with pytest.raises(UsageError, match=message):
        kinds((name,))


def test_the_slowest_gaps_show_in_the_timings_of_a_reply():
    clock = Clockwork(submitted=0.0)
    for now in [*range(98), 107, 127]:
        clock.note(float(now), 1)
    timings = clock.report(130.0)
    assert timings.between_tokens_p50 == timings.between_tokens_p95 == 1
    assert timings.between_tokens_p99 == pytest.approx(10.2)
    assert Clockwork(submitted=0.0).report(1.0).between_tokens_p99 is None
