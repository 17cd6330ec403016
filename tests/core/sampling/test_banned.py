"""Banned strings: which tokens are masked, and that drafts change nothing of the text."""

from __future__ import annotations

from dataclasses import replace
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from localspec.base.errors import UsageError
from localspec.base.tokens import tokens_of
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.forced import ForcedProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.requests.settings import Settings
from localspec.core.sampling.banned import Bans
from localspec.core.sampling.parameters import Sampling
from localspec.formats.grammar.grammar import Grammar
from localspec.interfaces.testing import Alphabet, ScriptedModel, hashed_logits
from tests.chi_square import chi_square, limit
from tests.runs import PROPOSERS, Want, replies, said, scripted

PIECES = [b"a", b"b", b"c", b"ab", b"bc", b"cab", b"A", b" B", b"\xc3", b"\xa9", b"\xc3\xa9", b" "]
WORDS = Alphabet([*PIECES, b"\xff", b"", b""], ends=[14])
FLAT = np.zeros(WORDS.size, np.float32)


def masked(ban, drafted=()):
    return set(np.flatnonzero(np.isinf(ban.masked(FLAT, drafted))).tolist())


def completing(text, strings):
    """Find the tokens after which a text has a banned string."""
    spelled = [string.encode().lower() for string in strings]
    after = [(text + WORDS.token_bytes(token)).lower() for token in range(WORDS.size)]
    return {token for token, longer in enumerate(after) if any(s in longer for s in spelled)}


@settings(max_examples=200)
@given(
    st.lists(st.text("abcA é", min_size=1, max_size=5), min_size=1, max_size=5),
    st.lists(st.integers(0, 1000), max_size=12),
)
def test_the_tokens_that_would_complete_a_string_are_masked_and_no_others(strings, choices):
    bans = Bans(WORDS)
    spoken, fresh = bans.ban(tuple(strings)), bans.ban(tuple(strings))
    text, emitted = b"", []
    for choice in choices:
        forbidden = completing(text, strings)
        assert masked(spoken) == masked(fresh, emitted) == forbidden
        allowed = [token for token in range(WORDS.size) if token not in forbidden]
        token = allowed[choice % len(allowed)]
        spoken.emit([token])
        emitted.append(token)
        text += WORDS.token_bytes(token)


@pytest.mark.parametrize(
    ("banned", "text"),
    [
        ("shiver", "SHIVER"),
        ("Élan", "élan"),
        ("élan", "ÉLAN"),
        ("ÉLAN", "Élan"),
        ("дрожь", "Дрожь"),
    ],
)
def test_a_string_is_banned_in_small_letters_in_capitals_and_with_a_capital_first(banned, text):
    data = text.encode()
    letters = Alphabet([bytes([byte]) for byte in range(256)])
    ban = Bans(letters).ban((banned,))
    ban.emit(list(data[:-1]))
    row = ban.masked(np.zeros(256, np.float32), ())
    assert {bytes([byte]).lower() for byte in np.flatnonzero(np.isinf(row))} == {data[-1:].lower()}


def test_a_draft_model_with_fewer_tokens_is_masked_as_far_as_it_goes():
    ban = Bans(WORDS).ban(("c",))
    row = ban.masked(np.zeros(4, np.float32), ())
    assert np.isinf(row).tolist() == [False, False, True, False]


BANNED = ("bcd", "Aa", "fe", "cab", "dd")
WARM = Sampling(temperature=1.0, presence=0.3, bias={2: 1.0})


def wants(count=3, sampling=None, banned=BANNED):
    prompts = [[(at * at + 3 * slot) % 5 for at in range(2 + 9 * slot)] for slot in range(count)]
    settings = Settings(60, sampling or Sampling(), ignore_end=True, banned_strings=banned)
    return [
        Want(prompt, replace(settings, seed=slot, max_tokens=50 + slot))
        for slot, prompt in enumerate(prompts)
    ]


def has_banned(text):
    return any(string.lower() in text for string in BANNED)


@pytest.mark.parametrize("name", PROPOSERS)
@pytest.mark.parametrize("recurrent", [False, True], ids=["attention", "recurrent"])
def test_greedy_text_without_banned_strings_is_the_plain_one(name, recurrent):
    plain = replies(scripted(), Silent(), wants())
    fast = replies(scripted(recurrent=recurrent, batch=9), PROPOSERS[name](), wants())
    assert said(fast) == said(plain)
    assert not any(has_banned(result.text) for result in plain)
    assert any(
        has_banned(result.text) for result in replies(scripted(), Silent(), wants(banned=()))
    )


def test_greedy_text_takes_the_likeliest_token_that_completes_no_string():
    [result] = replies(scripted(), Silent(), wants(count=1))
    script, context, text = hashed_logits(1), wants(count=1)[0].prompt, ""
    for token in result.tokens:
        row = script(context).copy()
        for at in range(7):
            if has_banned(text + "abcdefg"[at]):
                row[at] = -np.inf
        assert token == int(row.argmax())
        context, text = [*context, token], text + "abcdefg"[token]


@pytest.mark.parametrize("name", ["ngram", "suffix", "prediction", "forced", "best"])
def test_a_seeded_text_without_banned_strings_is_the_plain_one(name):
    plain = replies(scripted(), Silent(), wants(sampling=WARM))
    fast = replies(scripted(), PROPOSERS[name](), wants(sampling=WARM))
    assert said(fast) == said(plain)
    assert not any(has_banned(result.text) for result in plain)


@pytest.mark.parametrize("name", ["twin", "stranger", "best"])
def test_each_of_several_replies_has_its_own_banned_strings(name):
    requests = [*wants(2, WARM), *wants(2, WARM, ("ab",)), *wants(1, WARM, ())]
    alone = [replies(scripted(), PROPOSERS[name](), [request])[0] for request in requests]
    model = scripted()
    model.slots = 3
    assert said(replies(model, PROPOSERS[name](), requests)) == said(alone)


def test_a_drafted_twin_is_always_accepted():
    """Draft model and target are under the same mask, draft tokens included."""
    [result] = replies(scripted(), PROPOSERS["twin"](), wants(1, WARM))
    assert result.speculation.acceptance_rate == 1


def distribution_of_texts(length):
    """The probability of every text, by the definition of the mask."""
    script, open_ = hashed_logits(1), {(): 1.0}
    for _ in range(length):
        longer = {}
        for tokens, p in open_.items():
            row = script([1, 2, *tokens]).astype(np.float64)
            for token in range(7):
                if has_banned("".join("abcdefg"[at] for at in (*tokens, token))):
                    row[token] = -np.inf
            weights = np.exp(row - row.max())
            for token in np.flatnonzero(weights).tolist():
                longer[(*tokens, token)] = p * weights[token] / weights.sum()
        open_ = longer
    return open_


def test_sampled_texts_follow_the_targets_distribution_under_the_ban():
    total, length = 1500, 4
    sampling = Sampling(temperature=1.0)
    setting = Settings(length, sampling, ignore_end=True, banned_strings=BANNED)
    requests = [Want([1, 2], replace(setting, seed=seed)) for seed in range(total)]
    counts, drafted = {}, 0
    for result in replies(scripted(), PROPOSERS["stranger"](), requests):
        counts[result.tokens] = counts.get(result.tokens, 0) + 1
        drafted += result.speculation.drafted
    statistic, freedom = chi_square(counts, distribution_of_texts(length), total)
    assert statistic < limit(freedom)
    assert freedom > 15
    assert drafted


LETTERS = Alphabet([bytes([ord("a") + at]) for at in range(6)] + [b""], ends=[6])


def model(seed=1):
    return ScriptedModel(hashed_logits(seed), LETTERS)


@pytest.mark.parametrize(
    "make", [ForcedProposer, lambda: DraftModelProposer(model(9), floor=0)], ids=["forced", "draft"]
)
def test_a_grammar_and_banned_strings_hold_together(make):
    grammar = Grammar("regex", "(a|b|c|d){9}e")
    setting = Settings(20, grammar=grammar, banned_strings=("aa", "ab", "cb", "dd", "bc"))
    requests = [Want([1, at], replace(setting, seed=at)) for at in range(4)]
    plain = replies(model(), Silent(), requests)
    assert said(replies(model(), make(), requests)) == said(plain)
    for result in plain:
        assert len(result.text) == 10
        assert not any(string in result.text for string in setting.banned_strings)


def heard(setting, proposer):
    engine, events = Engine(model(), proposer), []
    engine.add(engine.prepare(tokens_of([1, 2]), setting, events.append))
    while engine.busy:
        engine.step()
    return events


@pytest.mark.parametrize("proposer", [Silent(), ForcedProposer()], ids=["plain", "drafts"])
def test_a_reply_for_which_a_grammar_leaves_banned_strings_only_ends_with_an_error(proposer):
    setting = Settings(20, grammar=Grammar("regex", "abcdef"), banned_strings=("cd",))
    error = heard(setting, proposer)[-1]
    assert isinstance(error, UsageError)
    assert "every token that could follow would complete a banned string" in str(error)


@pytest.mark.parametrize("proposer", [Silent(), ForcedProposer()], ids=["plain", "drafts"])
def test_strings_behind_the_end_of_a_reply_are_no_error(proposer):
    setting = Settings(20, grammar=Grammar("regex", "abcdef"), stop=("c",))
    result = heard(replace(setting, banned_strings=("cd",)), proposer)[-1]
    assert (result.text, result.stopped_by) == ("ab", "c")


@pytest.mark.parametrize(
    ("banned", "message"),
    [
        (("",), "a banned string is empty"),
        (("a",) * 1025, "1,025 strings are banned; there may be 1,024"),
        (("é" * 129,), "a banned string has 258 bytes; it may have 256"),
        (tuple("a" * 100 + str(at) for at in range(400)), "together; they may have 32,768"),
        (("\ud800",), "half a character"),
        ("abc", "banned_strings is 'abc'; it must be a tuple of texts"),
        ((5,), "one of banned_strings is 5; it must be a text"),
    ],
)
def test_strings_beyond_the_bounds_are_refused_with_the_numbers(banned, message):
    with pytest.raises(UsageError, match=message):
        Settings(banned_strings=banned)


def test_a_reply_that_fails_by_its_ban_takes_no_token_from_another():
    """Texts of a round get their tokens one after another, and the second fails in the third."""
    letters = Alphabet([bytes([ord("a") + at]) for at in range(7)])
    everything = tuple(map("".join, product("abcdefg", repeat=3)))
    free = Settings(8, seed=3)
    wants = [Want([1, 2], free), Want([1, 2], replace(free, banned_strings=everything))]
    engine, events = Engine(ScriptedModel(hashed_logits(1), letters), Silent()), ([], [])
    for want, heard in zip(wants, events, strict=True):
        engine.add(engine.prepare(tokens_of(want.prompt), want.settings, heard.append))
    while engine.busy:
        engine.step(lambda: False)
    assert isinstance(events[1][-1], UsageError)
    [alone] = replies(ScriptedModel(hashed_logits(1), letters), Silent(), wants[:1])
    assert said([events[0][-1]]) == said([alone])
