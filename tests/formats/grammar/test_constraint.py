"""A reply keeps to its grammar, and is what plain decoding under that grammar says."""

from __future__ import annotations

import json
import random
import re
import time

import jsonschema
import numpy as np
import pytest

from localspec.base.errors import UsageError
from localspec.base.tokens import NONE, History, tokens_of
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.decoding.generation import Ending, Generation
from localspec.core.decoding.scheduler import Scheduler
from localspec.core.pairing.translated import Translated
from localspec.core.pairing.vocabulary import match
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.forced import ForcedProposer
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.core.proposers.suffix import SuffixProposer
from localspec.core.requests.engine import Engine
from localspec.core.requests.job import Result
from localspec.core.requests.settings import Settings
from localspec.core.sampling import filters
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.core.sampling.sampler import Sampler, SamplerParts
from localspec.formats.grammar.compiler import Lexicon
from localspec.formats.grammar.grammar import Grammar
from localspec.interfaces.costs import Costs
from localspec.interfaces.distribution import Distribution
from localspec.interfaces.draft import Draft
from localspec.interfaces.testing import Alphabet, ScriptedModel, hashed_logits
from tests.chi_square import chi_square, limit
from tests.engines import draft, target, there
from tests.runs import LETTERS, Want, converse, replies, said

CHARACTERS = [bytes([at]) for at in range(32, 127)]
PIECES = [b'{"', b'": ', b'", "', b"name", b'"}', b"tru", b"or ", b"00", b"a b", b"SEL", b"er"]
CONTROL, END, OTHER_END = (len(CHARACTERS) + len(PIECES) + at for at in range(3))
WORDS = Alphabet([*CHARACTERS, *PIECES, b"", b"", b""], ends=[END, OTHER_END])

SCHEMA = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 5},
        "kind": {"enum": ["order", "or else", "a b c"]},
        "sizes": {"type": "array", "items": {"type": "integer", "maximum": 50}, "maxItems": 2},
        "open": {"type": "boolean"},
    },
    "required": ["name", "kind", "open"],
    "additionalProperties": False,
}
QUERY = """
start: "SELECT " NAME (", " NAME)* " FROM table" (" WHERE " NAME " = " /[0-9]{1,3}/)? ";"
NAME: /[a-z]{1,3}/
"""
PATTERN = r"(yes|no|or else), [a-f]{2,4}( [a-f]{2,4}){0,3} is 0{1,9}\."
GRAMMARS = {
    "schema": Grammar("json_schema", json.dumps(SCHEMA)),
    "object": Grammar("json_object"),
    "regex": Grammar("regex", PATTERN),
    "lark": Grammar("lark", QUERY),
}


def follows(name, text):
    if name == "schema":
        jsonschema.validate(json.loads(text), SCHEMA)
        return True
    if name == "object":
        return isinstance(json.loads(text), dict)
    if name == "regex":
        return re.fullmatch(PATTERN, text)
    name = r"[a-z]{1,3}"
    where = rf"( WHERE {name} = \d{{1,3}})?"
    return re.fullmatch(rf"SELECT {name}(, {name})* FROM table{where};", text)


def model(seed=1, words=WORDS, sharpness=2.0):
    return ScriptedModel(hashed_logits(seed, sharpness, words.size), words)


def strange():
    """A draft model that knows about half of the target's tokens, by other numbers."""
    pieces = [*CHARACTERS[::-1][:60], *PIECES, b"", b"", b"zz"]
    words = Alphabet(pieces, ends=[71, 72])
    return Translated(model(9, words), WORDS, match(WORDS, words), WORDS.size)


PROPOSERS = {
    "forced": ForcedProposer,
    "ngram": lambda: NgramProposer(3, 1),
    "suffix": lambda: SuffixProposer(floor=0.1),
    "twin": lambda: DraftModelProposer(model(1), floor=0),
    "stranger": lambda: DraftModelProposer(model(9), floor=0),
    "translated": lambda: DraftModelProposer(strange(), floor=0),
    "best": lambda: Best(
        {
            "forced": ForcedProposer(),
            "suffix": SuffixProposer(floor=0.1),
            "draft-model": DraftModelProposer(model(9), floor=0),
        },
        Depth(Costs({1: 0.01, 9: 0.011}, {"draft-model": {1: 0.001, 4: 0.004}})),
    ),
}
CLOSING = dict.fromkeys(WORDS.encode('}"]').tolist(), 3.0)
DRAWN = ("twin", "stranger", "translated")


def want(grammar, sampling=GREEDY, seed=0, **settings):
    prompt = WORDS.encode("a name or order " * (1 + seed % 3)).tolist()
    return Want(prompt, Settings(60 + seed, sampling, seed, grammar=grammar, **settings))


def one_each(sampling=GREEDY, seed=0, **settings):
    """A request for each grammar, to run together."""
    return [want(grammar, sampling, seed, **settings) for grammar in GRAMMARS.values()]


def plain(requests):
    return said(replies(model(), Silent(), requests, depth=0))


@pytest.mark.parametrize("depth", [1, 4, 16])
@pytest.mark.parametrize("name", PROPOSERS)
def test_greedy_text_under_a_grammar_is_the_plain_one(name, depth):
    assert said(replies(model(), PROPOSERS[name](), one_each(), depth)) == plain(one_each())


@pytest.mark.parametrize("name", [name for name in PROPOSERS if name not in DRAWN])
def test_a_seeded_text_under_a_grammar_is_the_plain_one(name):
    requests = one_each(
        Sampling(1.2, top_p=0.95, presence=0.3, repetition=1.1, bias={3: 1.0}), seed=1
    )
    assert said(replies(model(), PROPOSERS[name](), requests)) == plain(requests)


@pytest.mark.parametrize("name", ["forced", "stranger", "translated", "best"])
@pytest.mark.parametrize("ignore_end", [False, True])
def test_a_reply_that_stops_follows_its_grammar(name, ignore_end):
    found: dict[str, int] = {}
    for seed in range(3):
        requests = one_each(Sampling(0.9, bias=CLOSING), seed, ignore_end=ignore_end)
        results = replies(model(), PROPOSERS[name](), requests)
        for grammar, result in zip(GRAMMARS, results, strict=True):
            if result.finish_reason == "stop":
                assert follows(grammar, result.text)
                found[grammar] = found.get(grammar, 0) + 1
            assert not ignore_end or max(result.tokens) < CONTROL
    assert len(found) == len(GRAMMARS)


def test_a_forced_token_is_never_wrong_and_saves_a_round():
    [answer] = replies(model(), ForcedProposer(), [want(GRAMMARS["schema"], Sampling(1.0))], 8)
    account = answer.speculation
    assert account.acceptance_rate == 1
    assert re.fullmatch(r'\{"name": ".*", "kind": ".*\}', answer.text)
    assert account.rounds == len(answer.tokens) - account.accepted < 0.7 * len(answer.tokens)


class Junk:
    """Drafts tokens that no grammar here allows."""

    def propose(self, asks):
        return [Draft(tokens_of([CONTROL, 3, 3][: ask.limit]), "junk") for ask in asks]

    def release(self, slot):
        pass


def test_what_leaves_the_grammar_is_not_verified():
    answers = replies(model(), Junk(), one_each())
    assert said(answers) == plain(one_each())
    assert sum(result.speculation.drafted for result in answers) == 0
    constraint = Lexicon(WORDS).constraint(Grammar("regex", "ab*c"), WORDS.ends)
    kept = [constraint.keeps(WORDS.encode(text).tolist()) for text in ("ab", "axb", "abbc", "c")]
    assert kept == [2, 1, 3, 0]


def test_a_drawn_twin_is_always_accepted():
    """Draft model and target are under the same mask, draft tokens included."""
    for result in replies(model(), PROPOSERS["twin"](), one_each(Sampling(1.0, frequency=0.2))):
        assert result.speculation.acceptance_rate == 1


FEW = Grammar("regex", "(a|b|ce)(a|d)?(f|bb)?(c|e{1,2})?")
TEXTS = {
    a + b + c + d
    for a in ("a", "b", "ce")
    for b in ("", "a", "d")
    for c in ("", "f", "bb")
    for d in ("", "c", "e", "ee")
}
WARM = Sampling(1.1, top_p=0.95)


def distribution_of_texts(logits, prompt):
    """The probability of every reply, worked out from the texts that the grammar has."""
    chances, open_ = {}, {(): 1.0}
    while open_:
        tokens, p = open_.popitem()
        text = "".join("abcdef"[token] for token in tokens)
        row = logits([*prompt, *tokens]).copy()
        for token in range(6):
            if not any(each.startswith(text + "abcdef"[token]) for each in TEXTS):
                row[token] = -np.inf
        if text not in TEXTS:
            row[6] = -np.inf
        if not np.isfinite(row[:6]).any():
            chances[tokens] = p  # nothing is left but the end
            continue
        distribution = filters.distribution(WARM, row)
        for token, q in zip(distribution.ids.tolist(), distribution.probs.tolist(), strict=True):
            (chances if token == 6 else open_)[(*tokens, token)] = p * q
    return {tokens: p for tokens, p in chances.items() if p > 0}


class Stubborn:
    """Samples from its own distribution, which knows no grammar and likes the end."""

    def __init__(self):
        self.source = Distribution(np.array([0, 2, 5, 6]), np.array([0.3, 0.2, 0.1, 0.4]))

    def propose(self, asks):
        return [self._draw(ask) for ask in asks]

    def _draw(self, ask):
        places = range(len(ask.history), len(ask.history) + ask.limit)
        tokens = [self.source.draw(ask.sampler.dice, place) for place in places]
        return Draft(tokens_of(tokens), "stubborn")

    def release(self, slot):
        pass


DRAFTING = {
    "stranger": lambda: DraftModelProposer(model(9, LETTERS, 1.0), floor=0),
    "stubborn": Stubborn,
}


@pytest.mark.parametrize("name", DRAFTING)
def test_sampled_texts_follow_the_targets_distribution_under_the_mask(name):
    prompt, total = [1, 2, 3], 500
    requests = [Want(prompt, Settings(9, WARM, seed=seed, grammar=FEW)) for seed in range(total)]
    counts: dict[tuple[int, ...], int] = {}
    drafted = 0
    for result in replies(model(1, LETTERS, 1.0), DRAFTING[name](), requests):
        counts[result.tokens] = counts.get(result.tokens, 0) + 1
        drafted += result.speculation.drafted
    statistic, freedom = chi_square(counts, distribution_of_texts(hashed_logits(1), prompt), total)
    assert statistic < limit(freedom)
    assert freedom > 15
    assert drafted


@pytest.mark.parametrize("name", PROPOSERS)
def test_a_sequence_does_not_depend_on_its_neighbours_nor_on_who_had_its_slot(name):
    requests = [*one_each(Sampling(0.8)), want(None, seed=1), want(None, seed=2)]
    alone = [replies(model(), PROPOSERS[name](), [each])[0] for each in requests]
    target = model()
    target.slots = 3
    assert said(replies(target, PROPOSERS[name](), requests)) == said(alone)


def reply(text, words=WORDS, **settings):
    wished = Settings(**{"max_tokens": 40, "grammar": Grammar("regex", text), **settings})
    [answer] = replies(model(1, words), Silent(), [Want([1, 2], wished)])
    return answer


def test_where_the_grammar_must_end_the_reply_stops_without_another_round():
    answer = reply("a b")
    assert (answer.text, answer.finish_reason) == ("a b", "stop")
    assert answer.tokens == tuple(WORDS.encode("a b").tolist())
    assert answer.speculation.rounds == len(answer.tokens)


def test_where_the_grammar_may_end_any_end_token_may_be_said_and_elsewhere_none():
    likes = {END: 100.0, CONTROL: 100.0}
    for end in (END, OTHER_END):
        answer = reply("(ab)+", sampling=Sampling(bias={**likes, end: 200.0}))
        assert (answer.text, answer.tokens[-1]) == ("ab", end)
        assert answer.finish_reason == "stop"
    endless = reply("(ab)+", sampling=Sampling(bias=likes), ignore_end=True)
    assert endless.text == "ab" * 20
    assert endless.finish_reason == "length"


def test_a_token_that_ends_this_reply_besides_ends_it_within_its_grammar():
    answer = reply("abc", ends=frozenset(WORDS.encode("b").tolist()))
    assert (answer.text, answer.finish_reason) == ("a", "stop")


def test_a_stop_text_ends_a_reply_within_its_grammar():
    assert reply("ab{5}c", stop=("bbb",)).text == "a"


def test_a_control_token_is_said_only_where_the_grammar_names_it():
    grammar = Grammar("lark", f'start: "a" <[{CONTROL}]> "b"')
    answer = reply("", grammar=grammar, marks=frozenset([CONTROL]))
    assert answer.text == f"a<{CONTROL}>b"


def test_what_is_forced_depends_on_the_reply():
    constraint = Lexicon(WORDS).constraint(Grammar("regex", "(a|b) name"), frozenset())
    name = WORDS.encode(" name").tolist()
    [a] = WORDS.encode("a").tolist()
    assert constraint.forced(NONE).tolist() == []
    constraint.emit([a])
    # The last token is the target's own, which ends the reply.
    assert constraint.forced(tokens_of([a])).tolist() == name[:-1]
    assert constraint.forced(tokens_of([a, a])).tolist() == []


def test_bias_and_penalties_are_put_on_the_logits_that_the_grammar_leaves():
    a, b, c = WORDS.encode("abc").tolist()
    constraint = Lexicon(WORDS).constraint(Grammar("regex", "(a|b)+"), WORDS.ends)
    sampling = Sampling(1.0, presence=0.5, frequency=0.25, bias={b: 1.0, c: 100.0})
    sampler = Sampler(sampling, 0, NONE, SamplerParts(constraint))
    sampler.emit([a])
    distribution = sampler.distribution(np.zeros(WORDS.size, np.float32), [a, b])
    weights = {a: -0.5 - 2 * 0.25, b: 1.0 - 0.75, END: 0, OTHER_END: 0}
    total = sum(np.exp(list(weights.values())))
    assert {
        t: distribution.prob(t) for t in range(WORDS.size) if distribution.prob(t)
    } == pytest.approx({token: np.exp(weight) / total for token, weight in weights.items()})


@pytest.mark.parametrize("grammar", GRAMMARS)
def test_a_place_in_a_grammar_is_the_same_however_it_was_reached(grammar):
    """Drafts come and go, and what was looked at on the way must not show."""
    dice, lexicon = random.Random(3), Lexicon(WORDS)
    used = lexicon.constraint(GRAMMARS[grammar], WORDS.ends)
    spoken: list[int] = []
    flat = np.zeros(WORDS.size, np.float32)

    def some(drafted):
        left = np.flatnonzero(used.masked(flat, drafted) == 0).tolist()
        return dice.choice(left)

    for _ in range(25):
        for _ in range(3):
            drafted: list[int] = []
            while len(drafted) < dice.randrange(6) and not used.over(drafted):
                drafted.append(some(drafted))
        if used.over([step := some([])]):
            break
        used.emit([step])
        spoken.append(step)
        fresh = lexicon.constraint(GRAMMARS[grammar], WORDS.ends)
        assert used.masked(flat, ()).tolist() == fresh.masked(flat, spoken).tolist()


def test_what_must_follow_may_be_long():
    answer = reply("a b" * 40 + "[xyz]", max_tokens=30)
    assert answer.text == "a b" * 30
    assert answer.finish_reason == "length"


@pytest.mark.parametrize("name", ["silent", "twin", "best", "forced"])
def test_a_grammar_that_becomes_too_large_fails_its_own_request_only(name):
    make = PROPOSERS.get(name, Silent)
    rules = 'start: a{100000}\na: b{100000}\nb: "x"{100000} | "y"'
    bad = Settings(400, grammar=Grammar("lark", rules))
    good = want(GRAMMARS["schema"])
    engine = Engine(model(), make())
    events: list[list[object]] = [[], []]
    engine.add(engine.prepare(tokens_of([1, 2]), bad, events[0].append))
    engine.add(engine.prepare(tokens_of(good.prompt), good.settings, events[1].append))
    while engine.busy:
        engine.step()
    assert isinstance(events[0][-1], UsageError)
    assert "grammar" in str(events[0][-1])
    assert isinstance(events[1][-1], Result)
    assert said([events[1][-1]]) == plain([good])


def test_a_draft_that_is_too_much_for_a_grammar_is_no_harm_to_the_reply():
    rules = 'start: "no" | "yes" a{100000}\na: b{100000}\nb: "x"{100000} | "y"'
    constraint = Lexicon(WORDS, Ticking()).constraint(Grammar("lark", rules), WORDS.ends)
    draft = WORDS.encode("yesyyxxxx").tolist()
    assert any(constraint.over(draft[:length]) for length in range(len(draft) + 1))
    fresh = Lexicon(WORDS, Ticking()).constraint(Grammar("lark", rules), WORDS.ends)
    zeros = np.zeros(WORDS.size, np.float32)
    masked = [each.masked(zeros, draft[:8]).tolist() for each in (constraint, fresh)]
    assert masked[0] == masked[1]
    n, o = WORDS.encode("no").tolist()
    constraint.emit([n])
    distribution = constraint.masked(np.zeros(WORDS.size, np.float32), ())
    assert np.flatnonzero(distribution == 0).tolist() == [o]


class Ticking:
    """A clock that goes on by `step` seconds whenever it is looked at."""

    def __init__(self, step=0.0):
        self.step, self.now = step, 0.0

    def __call__(self):
        self.now += self.step
        return self.now


def test_a_reply_whose_grammar_takes_too_long_ends_with_an_error():
    clock = Ticking()
    constraint = Lexicon(WORDS, clock).constraint(Grammar("regex", "[a-z]+"), WORDS.ends)
    a, b = WORDS.encode("ab").tolist()
    constraint.emit([a])
    clock.step = 0.01
    constraint.emit([a, b])
    clock.step = 0.05
    with pytest.raises(UsageError, match=r"gave up after 3 tokens: a token took 0\.\d+ s of work"):
        constraint.emit([a, b, a, b])
    clock.step = 0.2
    with pytest.raises(UsageError, match=r"cannot be followed: a token took 0\.20 s"):
        Lexicon(WORDS, clock).constraint(Grammar("regex", "[a-z]+"), WORDS.ends)


def test_no_mask_is_computed_once_the_time_of_a_round_is_over():
    clock = Ticking()
    constraint = Lexicon(WORDS, clock).constraint(Grammar("regex", "[a-z]+"), WORDS.ends)
    clock.step = 0.015
    drafted = WORDS.encode("abcdefgh").tolist()
    flat = np.zeros(WORDS.size, np.float32)
    rows = [constraint.masked(flat, drafted[:length]).min() for length in range(1, 8)]
    assert np.isinf(rows).tolist() == [True] + 6 * [False]
    before = clock.now
    assert constraint.over(drafted)
    assert clock.now == before


@pytest.mark.parametrize(("step", "drafts"), [(0.0, 16), (0.001, 15), (0.004, 3), (0.02, 0)])
def test_fewer_tokens_are_drafted_where_masks_take_long(step, drafts):
    clock = Ticking(step)
    constraint = Lexicon(WORDS, clock).constraint(Grammar("regex", "[a-z]+"), WORDS.ends)
    sampler = Sampler(GREEDY, 0, NONE, SamplerParts(constraint))
    history = History(tokens_of([1, 2]))
    generation = Generation(history, sampler, Ending(100), WORDS.token_bytes, depth=16)
    history.extend([3])
    generation.cached = 2
    [turn] = Scheduler(64, 16).plan([generation])
    assert turn.limit == drafts


def test_an_ambiguous_grammar_ends_its_own_reply_before_others_wait_for_it():
    sums = " | ".join("s " * count for count in range(2, 12))
    grammar = Grammar("lark", f'start: s\ns: {sums} | /[a-z ]/ | ""')
    bad = Want([1, 2], Settings(40, grammar=grammar, ignore_end=True))
    engine = Engine(model(), SuffixProposer(floor=0.1))
    heard: list[object] = []
    engine.add(engine.prepare(tokens_of(bad.prompt), bad.settings, heard.append))
    longest = 0.0
    while engine.busy:
        before = time.thread_time()
        engine.step()
        longest = max(longest, time.thread_time() - before)
    assert isinstance(heard[-1], UsageError)
    assert "the grammar gave up after" in str(heard[-1])
    print(f"longest round: {longest:.2f} s of processor time, {len(heard)} rounds")
    assert longest < 0.5


def test_a_cancelled_reply_leaves_nothing_behind():
    request = want(GRAMMARS["schema"])
    engine = Engine(model(), PROPOSERS["stranger"]())
    heard: list[object] = []
    job = engine.prepare(tokens_of(request.prompt), request.settings, heard.append)
    engine.add(job)
    for _ in range(3):
        engine.step()
    job.cancelled = True
    engine.step()
    assert heard[-1].finish_reason == "cancelled"
    assert said(converse(engine, [request])) == plain([request])


def test_a_draft_model_that_knows_none_of_the_words_still_has_a_distribution():
    """The draft model knows none of the allowed tokens; the target must not notice."""
    words = Alphabet([b"a", b"b", b"c", b"d", b""], ends=[4])
    other = Alphabet([b"b", b"a", b"x", b"y", b""], ends=[4])
    draft = Translated(model(3, other), words, match(words, other), words.size)
    requests = [
        Want([0, 1], Settings(20, sampling, seed=3, grammar=Grammar("regex", "[cd]{5,30}")))
        for sampling in (GREEDY, Sampling(0.01, presence=0.5))
    ]
    answers = replies(model(1, words), DraftModelProposer(draft, floor=0), requests)
    assert [re.fullmatch("[cd]{5,30}", result.text) for result in answers]
    assert sum(result.speculation.drafted for result in answers)
    assert said(answers[:1]) == said(replies(model(1, words), Silent(), requests[:1]))


def test_a_model_may_be_held_to_what_it_would_never_say():
    """No warning, and no empty distribution."""
    steep = np.linspace(0, 500, WORDS.size, dtype=np.float32)
    target, draft = (ScriptedModel(lambda context: steep, WORDS) for _ in range(2))
    wild = want(Grammar("regex", "[ 6]{30}"), Sampling(100.0))
    [answer] = replies(target, DraftModelProposer(draft, floor=0), [wild])
    assert set(answer.text) == {" ", "6"}
    assert answer.speculation.acceptance_rate == 1


@pytest.mark.parametrize("name", there("llama", "mlx llama"))
def test_real_engines_keep_to_a_grammar_and_say_what_they_would_plainly(name):
    main, other = target(name), draft(name)
    form = Grammar("regex", "(the|a|on|in) (cat|dog|code)( [a-z]{1,6}){1,4}, and return ok\\.")
    request = Want(main.tokenizer.encode("the code is ").tolist(), Settings(50, grammar=form))
    proposers = (Silent(), ForcedProposer(), DraftModelProposer(other, floor=0.1))
    slow, *fast = [replies(main, proposer, [request])[0] for proposer in proposers]
    assert re.fullmatch(form.text, slow.text)
    assert said(fast) == 2 * said([slow])
    assert all(result.speculation.rounds < slow.speculation.rounds for result in fast)
    main.close()
    other.close()
