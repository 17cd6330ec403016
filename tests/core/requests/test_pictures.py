"""Behind pictures, too, speculation changes the speed and never the text."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from itertools import count

import pytest

from localspec.base.errors import UsageError
from localspec.base.tokens import tokens_of
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.prefix_cache.ram import Ram
from localspec.core.prefix_cache.tiers import CacheTiers
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.job import Chunk
from localspec.core.requests.settings import Settings
from localspec.core.sampling import filters
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.backend import Row
from localspec.interfaces.costs import Costs
from localspec.interfaces.testing import ScriptedModel, ScriptedSight, hashed_logits, seeing_logits
from tests.chi_square import chi_square, limit
from tests.runs import LETTERS, PROPOSERS, Want, converse, replies, said, scripted
from tests.seeing import BEGIN, CAT, DOG, END, Watched, pictured, seeing, seen

LONG = Settings(max_tokens=40, ignore_end=True)
PROMPTS = (
    ([1, 2], CAT, [3, 1, 2]),
    (CAT, [1, 2, 3, 1, 2]),
    ([1], CAT, DOG, [2]),
    ([1], CAT, [2, 2], CAT, [1, 2, 1]),
    ([3, 1, 2], DOG),
    ([1, 2, 3, 1, 2],),
)


def wants(model, settings=LONG):
    return [
        pictured(model, *parts, settings=replace(settings, seed=seed))
        for seed, parts in enumerate(PROMPTS)
    ]


def plain(settings=LONG, **options):
    """The replies without drafts, each to a prompt that is read alone and at once."""
    model = seeing(**options)
    return said([replies(model, Silent(), [want])[0] for want in wants(model, settings)])


def test_a_reply_depends_on_the_pictures_and_on_where_they_stand():
    prompts = [([1, 2], CAT), ([1, 2], DOG), ([1], CAT, [2]), (CAT, [1, 2]), ([1, 2],)]
    model = seeing()
    texts = said(replies(model, Silent(), [pictured(model, *p, settings=LONG) for p in prompts]))
    assert len({text for text, _, _ in texts}) == len(prompts)


@pytest.mark.parametrize("name", PROPOSERS)
@pytest.mark.parametrize("batch", [7, 64])
@pytest.mark.parametrize("whole", [False, True], ids=["in pieces", "at once"])
@pytest.mark.parametrize("recurrent", [False, True], ids=["attention", "recurrent"])
def test_greedy_text_behind_pictures_is_the_plain_text(name, batch, whole, recurrent):
    model = seeing(lengths=(3, 9), whole=whole, batch=batch, recurrent=recurrent)
    assert said(replies(model, PROPOSERS[name](), wants(model))) == plain(lengths=(3, 9))


@pytest.mark.parametrize("length", [60, 64, 65, 200])
def test_a_picture_that_is_read_at_once_may_be_longer_than_a_batch(length):
    model = Watched(seeing(lengths=(length,), whole=True))
    texts = said(replies(model, NgramProposer(3, 1), wants(model)))
    assert texts == plain(lengths=(length,))
    assert all(sum(map(len, rows)) <= max(length, 64) for rows in model.rounds)


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(1.0),
        Sampling(1.2, 5, 0.9, 0.02, 1.3, presence=0.5, frequency=0.3, penalty_window=8),
        Sampling(1.0, bias={1: 2.0}, repetition=1.4),
        Sampling(1.0, dry_multiplier=1.5, dry_allowed_length=1, dry_breakers=("e",)),
        Sampling(1.0, xtc_probability=0.5, xtc_threshold=0.15),
        Sampling(1.0, mirostat=2, mirostat_tau=1.2, mirostat_eta=0.4),
    ],
    ids=["all", "penalised", "biased", "dry", "xtc", "mirostat"],
)
@pytest.mark.parametrize("name", ["ngram", "suffix", "prediction", "forced", "best"])
def test_a_seeded_text_behind_pictures_is_the_plain_text(name, sampling):
    settings = replace(LONG, sampling=sampling)
    model = seeing(batch=9)
    assert said(replies(model, PROPOSERS[name](), wants(model, settings))) == plain(settings)


def text_probabilities(model, want, length):
    """The probability of every text of so many tokens."""
    logits, sampling, texts = seeing_logits(1), want.settings.sampling, {(): 1.0}
    prompt = seen(model, want)
    for _ in range(length):
        texts = {
            (*reply, token): p * q
            for reply, p in texts.items()
            for drawn in [filters.distribution(sampling, logits([*prompt, *reply]))]
            for token, q in zip(drawn.ids.tolist(), drawn.probs.tolist(), strict=True)
        }
    return texts


# Texts of look-ups are those without drafts, seed by seed: see the test of seeded texts.
LOOK_UPS = [pytest.param(name, marks=pytest.mark.long) for name in ("ngram", "suffix", "best")]


@pytest.mark.parametrize("name", ["silent", "twin", "stranger", "translated", *LOOK_UPS])
@pytest.mark.parametrize("parts", PROMPTS[1:4:2], ids=["one", "twice"])
def test_sampled_texts_behind_pictures_follow_the_targets_distribution(name, parts):
    model, total, length = seeing(), 2000, 3
    settings = Settings(max_tokens=length, sampling=Sampling(0.9), ignore_end=True)
    want = pictured(model, *parts, settings=settings)
    asked = [Want(want.prompt, replace(want.settings, seed=seed)) for seed in range(total)]
    counts: dict[tuple[int, ...], int] = {}
    for result in replies(model, PROPOSERS[name](), asked):
        counts[result.tokens] = counts.get(result.tokens, 0) + 1
    statistic, freedom = chi_square(counts, text_probabilities(model, want, length), total)
    assert statistic < limit(freedom)


def test_a_draft_model_reads_the_text_without_pictures_and_draws_as_the_target_does():
    """A twin that is sampled with the target's dice is right as long as it knows the position."""
    settings = Settings(max_tokens=60, sampling=Sampling(1.0), ignore_end=True, seed=3)
    model = seeing(hashed_logits(1))
    twin = {"draft-model": DraftModelProposer(scripted(1), floor=0)}
    costs = Costs({1: 0.01, 9: 0.011}, {"draft-model": {1: 1e-6, 4: 2e-6}})
    proposer = Best(twin, Depth(costs))
    [result] = replies(model, proposer, [pictured(model, CAT, [1, 2, 3], settings=settings)])
    assert result.speculation.drafted > 20
    assert result.speculation.acceptance_rate == 1


COLD = {
    "repetition": Sampling(repetition=1.8),
    "window": Sampling(repetition=1.8, presence=0.5, penalty_window=6),
    "dry": Sampling(dry_multiplier=2.5, dry_allowed_length=1, dry_breakers=("e",)),
}


@pytest.mark.parametrize("sampling", COLD.values(), ids=COLD)
def test_penalties_look_at_tokens_only(sampling):
    model, settings = seeing(hashed_logits(1)), replace(LONG, sampling=sampling)
    with_picture = pictured(model, CAT, [1, 2, 3, 1, 2], settings=settings)
    without = Want([BEGIN, BEGIN, END, 1, 2, 3, 1, 2], settings)
    assert said(replies(model, Silent(), [with_picture])) == said(
        replies(scripted(1), Silent(), [without])
    )


def test_strings_are_banned_and_log_probabilities_reported_behind_pictures():
    settings = replace(LONG, banned_strings=("ab", "c"), logprobs=3, sampled_logprobs=True)
    texts = []
    for proposer in (Silent(), NgramProposer(3, 1)):
        model = seeing()
        results = replies(model, proposer, wants(model, settings))
        texts.append(said(results))
        assert all(len(result.logprobs) == 40 for result in results)
        assert not any("c" in result.text or "ab" in result.text for result in results)
    assert texts[0] == texts[1]


class Stepping(ScriptedModel):
    """A model that takes several steps by itself, and notes behind which tokens."""

    def __init__(self, *parts, **options):
        super().__init__(*parts, **options)
        self.behind = []

    def multi_step(self, slots, tokens, choose):
        while tokens:
            self.behind += tokens
            pairs = zip(slots, tokens, strict=True)
            rows = self.forward([Row(slot, tokens_of([token])) for slot, token in pairs])
            tokens = choose([row[0] for row in rows])


def test_a_prompt_may_end_in_a_picture_of_one_position_that_alone_is_left_to_read():
    sight = ScriptedSight(BEGIN, END, (1,))
    model = Stepping(seeing_logits(1), LETTERS, sight=sight)
    want = pictured(model, [1, 2], CAT, settings=LONG)
    cut = Want(want.prompt[:-1], want.settings)
    engine = Engine(model, Silent())
    first, second = (converse(engine, [cut])[0] for _ in range(2))
    assert second.usage.cached_tokens == second.usage.prompt_tokens - 1
    assert said([first]) == said([second])
    assert min(model.behind) >= 0


class Noting(Silent):
    """Notes which rounds are said to teach nothing about drafts."""

    def __init__(self):
        self.reads = []

    def note(self, cost):
        self.reads.append(cost.reads)


def test_a_round_with_a_picture_teaches_no_times():
    model, proposer = seeing(lengths=(40,)), Noting()
    engine = Engine(model, proposer, clock=count().__next__)
    converse(engine, [pictured(model, [1], CAT, [2], settings=LONG)])
    assert engine.tiers.reading_seconds == 0
    assert proposer.reads[0]
    assert not any(proposer.reads[1:])
    converse(engine, [Want([1, 2, 3] * 15, LONG)])
    assert engine.tiers.reading_seconds > 0


def test_positions_of_a_picture_count_as_tokens_of_the_prompt():
    model = seeing()
    [result] = replies(model, Silent(), [pictured(model, [1, 2], CAT, [3], settings=LONG)])
    assert result.usage.prompt_tokens == 2 + 8 + 1


# Pictures that are encoded on another thread


class Encoding(ScriptedSight):
    """Encodes a run until a test says that it is done, or so many looks long."""

    def __init__(self, lengths=(3, 2), *, looks=None, **options):
        super().__init__(BEGIN, END, lengths, **options)
        self.under_way, self.left, self._looks = {}, {}, looks

    def encoding(self, name):
        if self._looks is None:
            future = self.under_way.setdefault(name, Future())
            return None if future.done() else future
        self.left[name] = self.left.get(name, self._looks) - 1
        return DONE if self.left[name] >= 0 else None

    def finish(self):
        for future in self.under_way.values():
            if not future.done():
                future.set_result(None)


DONE = Future()
DONE.set_result(None)


@pytest.mark.parametrize("name", PROPOSERS)
@pytest.mark.parametrize("looks", [1, 4])
@pytest.mark.parametrize("whole", [False, True], ids=["in pieces", "at once"])
def test_texts_that_waited_for_their_pictures_are_the_plain_texts(name, looks, whole):
    sight = Encoding((3, 9), looks=looks, whole=whole)
    model = ScriptedModel(seeing_logits(1), LETTERS, sight=sight)
    alone = [replies(model, PROPOSERS[name](), [want])[0] for want in wants(model)]
    assert said(alone) == plain(lengths=(3, 9))
    sight.left.clear()
    assert said(replies(model, PROPOSERS[name](), wants(model))) == plain(lengths=(3, 9))


def test_other_texts_go_on_while_a_picture_is_encoded():
    sight = Encoding()
    model = Watched(ScriptedModel(seeing_logits(1), LETTERS, sight=sight))
    with_picture, without = wants(model)[0], wants(model)[5]
    engine, ended = Engine(model, NgramProposer(3, 1), 4), []
    for want in (with_picture, without):
        engine.add(engine.prepare(tokens_of(want.prompt), want.settings, note_end(ended)))
    while not ended:
        engine.step()
    assert said(ended) == plain()[5:]
    assert model.read == 0
    assert [name.piece for name in sight.under_way] == [0], "each is encoded when it is reached"
    while engine.busy:
        engine.step()
        sight.finish()
    assert said(ended[1:]) == plain()[:1]


def note_end(ended):
    """Make a listener that notes how a request ends."""

    def note(event):
        if not isinstance(event, Chunk):
            ended.append(event)

    return note


def test_rounds_beside_a_picture_that_is_encoded_teach_no_times():
    sight, proposer = Encoding(), Noting()
    model = ScriptedModel(seeing_logits(1), LETTERS, sight=sight)
    engine, ended = Engine(model, proposer), []
    for want in (wants(model)[0], wants(model)[5]):
        engine.add(engine.prepare(tokens_of(want.prompt), want.settings, note_end(ended)))
    while not ended:
        engine.step()
    assert len(proposer.reads) > 20
    assert all(proposer.reads)


def test_a_request_that_waits_for_its_picture_can_be_cancelled_and_others_join_it():
    sight = Encoding()
    model = Watched(ScriptedModel(seeing_logits(1), LETTERS, sight=sight))
    engine, ended = Engine(model, Silent()), []
    want = pictured(model, CAT, [1], settings=LONG)
    job = engine.prepare(tokens_of(want.prompt), want.settings, note_end(ended))
    engine.add(job)
    for _ in range(4):
        engine.step()
    assert len(model.rounds) == 1, "what comes before the picture is read"
    [result] = converse_with(engine, Want([1, 2, 3], LONG))
    assert result.finish_reason == "length"
    job.cancelled = True
    engine.step()
    assert ended[0].finish_reason == "cancelled"
    assert not engine.busy


def converse_with(engine, want):
    """Run one request to its end beside others that wait."""
    ended = []
    engine.add(engine.prepare(tokens_of(want.prompt), want.settings, note_end(ended)))
    while not ended:
        engine.step()
    return ended


# What may be in a prompt


def check(model, prompt, runs):
    Engine(model, Silent()).prepare(tokens_of(prompt), replace(LONG, media=runs), lambda _: None)


def test_only_whole_runs_of_its_own_pictures_are_taken_in_a_prompt():
    model = seeing()
    cat = pictured(model, [1], CAT, [2])
    dog = pictured(model, [1], DOG, [2])
    check(model, cat.prompt, cat.settings.media)
    first = cat.prompt.index(cat.settings.media[0].first)
    cut = [*cat.prompt[: first + 1], *cat.prompt[first + 2 :]]
    turned = [*cat.prompt[:first], *cat.prompt[first : first + 3][::-1], *cat.prompt[first + 3 :]]
    for prompt in (cut, turned, cat.prompt[: first + 2], [1, -1, 2], dog.prompt):
        with pytest.raises(UsageError, match="that is no token"):
            check(model, prompt, cat.settings.media)
    for prompt in (cat.prompt, [1, -1, 2]):
        with pytest.raises(UsageError, match="tokens outside 0 to 6"):
            check(model, prompt, ())


# The prefix cache


class Talk:
    """Requests one after the other through one engine."""

    def __init__(self, model=None, tiers=None):
        self.model = Watched(model or seeing(lengths=(40, 30)))
        self.engine = Engine(self.model, NgramProposer(3, 1), parts=EngineParts(tiers=tiers))

    def ask(self, *parts, settings=LONG):
        """Return a result, and the positions of pictures that were read for it."""
        before = self.model.read
        [result] = converse(self.engine, [pictured(self.model, *parts, settings=settings)])
        return result, self.model.read - before


@pytest.mark.parametrize("recurrent", [False, True], ids=["attention", "recurrent"])
def test_the_next_turn_reads_nothing_of_a_picture_again(recurrent):
    talk = Talk(seeing(lengths=(40, 30), recurrent=recurrent))
    first, read = talk.ask([1, 2], CAT, [3])
    assert read == 70
    second, read = talk.ask([1, 2], CAT, [3], first.tokens, [1, 1])
    assert read == 0
    assert second.usage.cached_tokens == first.usage.prompt_tokens + len(first.tokens) - 1
    third, read = talk.ask([1, 2], CAT, [3], first.tokens, [1, 1], second.tokens, DOG, [2])
    assert read == 70
    assert third.usage.cached_tokens > second.usage.prompt_tokens


def test_requests_with_one_picture_share_a_beginning_and_those_with_others_do_not():
    talk = Talk()
    talk.ask([1, 2], CAT, [3, 3])
    same, read = talk.ask([1, 2], CAT, [2, 2, 2])
    assert (same.usage.cached_tokens, read) == (2 + 73, 0)
    other, read = talk.ask([1, 2], DOG, [3, 3])
    assert (other.usage.cached_tokens, read) == (3, 70)


@pytest.mark.parametrize("whole", [False, True])
def test_what_memory_kept_of_a_picture_is_not_read_again(whole):
    model = seeing(lengths=(40, 30), whole=whole)
    model.slots = 1
    talk = Talk(model, CacheTiers(Ram(1 << 30), clock=lambda: 0.0))
    first, _ = talk.ask([1, 2], CAT, [3])
    talk.ask([2] * 90)
    _, read = talk.ask([1, 2], CAT, [3], first.tokens, [1])
    assert read == 0


def test_several_replies_to_one_prompt_with_pictures_are_each_as_alone():
    model = seeing()
    settings = replace(LONG, sampling=Sampling(1.0))
    asked = [
        pictured(model, [1], CAT, [2, 1], settings=replace(settings, seed=seed))
        for seed in range(6)
    ]
    together = said(replies(model, PROPOSERS["suffix"](), asked))
    assert together == said([replies(model, Silent(), [want])[0] for want in asked])
    assert len(set(together)) == 6


@pytest.mark.parametrize("whole", [False, True])
def test_a_request_that_is_cancelled_within_a_picture_leaves_what_it_read(whole):
    model = seeing(lengths=(50, 150, 150), whole=whole, batch=64)
    alone = said(replies(model, Silent(), [pictured(model, [1], CAT, [2], settings=LONG)]))
    talk = Talk(seeing(lengths=(50, 150, 150), whole=whole, batch=64))
    want = pictured(talk.model, [1], CAT, [2], settings=LONG)
    job = talk.engine.prepare(tokens_of(want.prompt), want.settings, lambda _: None)
    talk.engine.add(job)
    for _ in range(3):
        talk.engine.step()
    held = job.generation.cached
    job.cancelled = True
    talk.engine.step()
    assert 52 < held < 352
    left = sum(token < 0 for token in want.prompt[held:])
    result, read = talk.ask([1], CAT, [2])
    assert (result.usage.cached_tokens, read) == (held, left)
    assert said([result]) == alone


@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("ram", [0, 1 << 30])
def test_texts_with_pictures_that_do_not_fit_together_are_said_as_if_alone(whole, ram):
    model = seeing(lengths=(40, 30), whole=whole)
    model.slots, model.context, model.pool = 4, 300, 300
    parts = EngineParts(tiers=CacheTiers(Ram(ram), clock=lambda: 0.0))
    engine = Engine(model, NgramProposer(3, 1), parts=parts)
    settings = replace(LONG, max_tokens=60)
    assert said(converse(engine, wants(model, settings))) == plain(settings, lengths=(40, 30))
