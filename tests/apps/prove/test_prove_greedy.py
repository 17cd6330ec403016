"""A proof tells rounding, which is the engine's, from defects, which are ours."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

from localspec.apps.prove.greedy import compare, differ, sizes
from localspec.apps.prove.proposers import Slips, Unpriced, usual_proposers
from localspec.apps.prove.recording import Recorder, find_answers, top_two
from localspec.apps.prove.refeed import refeed
from localspec.apps.prove.runs import ReplyRequest, plain, run
from localspec.base.errors import BackendError
from localspec.base.tokens import tokens_of
from localspec.core.pairing.pair import Pair
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.proposer import ALWAYS_QUIET, NOT_QUIET, Ask
from localspec.interfaces.testing import ScriptedModel, hashed_logits
from tests import engines

PROMPTS = [tokens_of([(at * at + 3 * text) % 5 for at in range(3 + 4 * text)]) for text in range(6)]
TOKENS = 30


def scripted(seed=1, **options):
    return ScriptedModel(hashed_logits(seed), **options)


class Altered:
    """A scripted model that says something else, or keeps what it should forget."""

    def __init__(self, model=None, says=None, forgets=None):
        self.model = model or scripted()
        self.tokenizer, self.vocabulary = self.model.tokenizer, self.model.vocabulary
        self.slots, self.context = self.model.slots, self.model.context
        self.pool, self.head = self.model.pool, self.model.head
        self.sight = self.model.sight
        self.batch, self.tentative = self.model.batch, self.model.tentative
        self._says = says or (lambda rows, logits: None)
        self._forgets = forgets or (lambda slot, length: None)

    def forward(self, rows):
        logits = [each.copy() for each in self.model.forward(rows)]
        self._says(rows, logits)
        return logits

    def truncate(self, slot, length):
        self._forgets(slot, length)
        return self.model.truncate(slot, length)


def rounding(model=None, repeats=True, seed=5):
    """Logits depend a little on how wide the batches were that brought the last few tokens."""
    model = model or scripted()
    chance = np.random.default_rng(seed)
    widths = defaultdict(list)  # by slot, for each token

    def says(rows, logits):
        width = sum(len(row.tokens) for row in rows)
        for row, each in zip(rows, logits, strict=True):
            del widths[row.slot][len(model.held[row.slot]) - len(row.tokens) :]
            widths[row.slot] += [width] * len(row.tokens)
            for output in range(row.outputs):
                end = len(widths[row.slot]) - row.outputs + output + 1
                shape = np.random.default_rng(widths[row.slot][max(0, end - 4) : end])
                noise = shape if repeats else chance
                each[output] += 0.06 * noise.normal(size=model.vocabulary)

    return Altered(model, says)


def forgetful(model):
    """Taking a part back leaves the first token that should have gone, in place of the last."""
    held = model.held if hasattr(model, "held") else model.model.held

    def forgets(slot, length):
        if 0 < length < len(held.get(slot, [])):
            held[slot][length - 1] = held[slot][length]

    return Altered(model, forgets=forgets)


def credulous(model):
    """Make a model to which draft tokens look better than they are."""

    def says(rows, logits):
        for row, each in zip(rows, logits, strict=True):
            for output, token in enumerate(row.tokens[len(row.tokens) - row.tentative :]):
                each[output, token] += 0.5

    return Altered(model, says)


def leaking():
    """Make a model on which other texts in a batch have an effect."""

    def says(rows, logits):
        for row, each in zip(rows, logits, strict=True):
            for other in rows:
                if other.slot != row.slot:
                    each[:, other.tokens[-1]] += 3

    return Altered(says=says)


def compared(model, draft=None, proposers=None):
    replies = list(plain(model, PROMPTS, TOKENS))
    proposers = proposers or {
        **usual_proposers(Pair(model, draft)),
        "slips": lambda: Slips(replies),
    }
    return list(compare(model, replies, proposers, TOKENS))


def differences(found):
    return [each.difference for each in found if each.difference]


@pytest.mark.parametrize("recurrent", [False, True], ids=["attention", "recurrent"])
@pytest.mark.parametrize("slots", [1, 8])
def test_all_texts_are_equal_where_nothing_is_wrong(recurrent, slots):
    model = scripted(recurrent=recurrent)
    model.slots = slots
    comparison = compared(model, draft=scripted(9))
    assert {each.proposer for each in comparison} == {
        "ngram",
        "suffix",
        "draft-model",
        "auto",
        "slips",
    }
    assert len(comparison) == 5 * len(PROMPTS) * len(sizes(model, len(PROMPTS)))
    assert not differences(comparison)


def test_every_proposer_is_right_and_wrong_alone_and_in_company_at_many_depths():
    comparison = compared(scripted(), draft=scripted(9))
    for name in ("ngram", "suffix", "draft-model", "auto", "slips"):
        for alone in (True, False):
            some = [e for e in comparison if e.proposer == name and (e.together == 1) == alone]
            assert [each.prompt for each in some] == list(range(1, len(PROMPTS) + 1))
            assert 0 < sum(each.accepted for each in some) < sum(each.drafted for each in some)
            assert len({each.depth for each in some}) == len(PROMPTS)


def test_a_proposer_whose_costs_are_hidden_is_as_quiet_as_ever():
    ask = Ask(0, tokens_of([1]), 4, Sampler(GREEDY, 0, tokens_of([1])))
    assert Unpriced(Silent()).quiet(ask) is ALWAYS_QUIET
    assert Unpriced(NgramProposer()).quiet(ask) is NOT_QUIET


def test_slips_stand_at_every_place_of_a_draft_and_some_drafts_have_none():
    model = scripted()
    replies = list(plain(model, PROMPTS, TOKENS))
    right, steps = defaultdict(int), []
    for prompt in PROMPTS:
        [reply] = run(model, Slips(replies), [ReplyRequest(prompt, TOKENS, depth=3)])
        steps += reply.steps[2:]
    for step in steps:
        [row], [answers] = step.rows, step.answers
        drafts = row.tokens[len(row.tokens) - row.tentative :].tolist()
        if len(drafts) == 3:
            best = [answer.best for answer in answers]
            right[next((at for at in range(3) if drafts[at] != best[at]), 3)] += 1
    assert set(right) == {0, 1, 2, 3}


@pytest.mark.parametrize("slots", [2, 8])
@pytest.mark.parametrize("recurrent", [False, True], ids=["attention", "recurrent"])
def test_rounding_by_the_width_of_batches_is_reported_as_that(recurrent, slots):
    model = rounding(scripted(recurrent=recurrent))
    model.slots = slots
    differing = differences(compared(model, draft=scripted(9)))
    assert len(differing) > 3
    assert all(each.explained for each in differing), [each.why for each in differing]
    assert all(0 < each.margin < 0.5 for each in differing)
    assert all(each.plain != each.speculative for each in differing)


@pytest.mark.parametrize("slots", [1, 8])
def test_rounding_that_never_comes_again_is_told_by_its_size(slots):
    differing = []
    for seed in (5, 6):
        model = rounding(repeats=False, seed=seed)
        model.slots = slots
        differing += differences(compared(model))
    assert len(differing) > 6
    # With eight slots 225 of 242 are, over six seeds.
    assert sum(each.explained for each in differing) > 0.85 * len(differing)


@pytest.mark.parametrize("broken", [forgetful, credulous])
@pytest.mark.parametrize("make", [scripted, rounding, partial(rounding, repeats=False)])
def test_a_defect_is_not_taken_for_rounding(broken, make):
    differing = differences(compared(broken(make())))
    assert sum(not each.explained for each in differing) > len(differing) / 2
    assert any("with nothing drafted" in each.why for each in differing if not each.explained)


def test_neighbours_that_turn_a_clear_choice_are_not_taken_for_rounding():
    comparison = compared(leaking())
    assert not differences([each for each in comparison if each.together == 1])
    wrong = differences([each for each in comparison if each.together > 1])
    assert wrong
    assert any("rounding does not turn" in each.why and not each.explained for each in wrong)


def test_a_text_the_model_did_not_say_is_a_defect_though_it_be_equal():
    model = scripted()
    [text] = plain(model, PROMPTS[:1], 9)
    last = text.answers[len(text.text) - 1]
    other = replace(last, top_two=replace(last.top_two, best=last.top_two.second))
    for bad in (
        replace(text, answers={**text.answers, len(text.text) - 1: other}),
        replace(text, answers={at: each for at, each in text.answers.items() if at != 5}),
    ):
        for pair in ((text, bad), (bad, text)):
            difference = differ(model, *pair)
            assert not difference.explained
            assert "did not say" in difference.why
    assert differ(model, text, text) is None


def test_a_text_that_ends_too_early_is_a_defect():
    model = scripted()
    [text] = plain(model, PROMPTS[:1], 9)
    short = replace(text, text=text.text[:-1])
    for pair in ((text, short), (short, text)):
        difference = differ(model, *pair)
        assert difference.place == 9
        assert "(the end)" in (difference.plain, difference.speculative)
        assert not difference.explained


def test_a_difference_names_its_place_its_tokens_and_its_margin():
    model = scripted()
    [text] = plain(model, PROMPTS[:1], 9)
    [other] = plain(scripted(2), PROMPTS[:1], 9)
    at = next(at for at in range(9) if text.text[3 + at] != other.text[3 + at])
    difference = differ(model, text, other)
    assert difference.place == at + 1
    assert difference.plain == "abcdefg"[text.text[3 + at]]
    assert difference.speculative == "abcdefg"[other.text[3 + at]]
    assert difference.margin == text.answers[3 + at].top_two.lead
    assert not difference.explained
    assert not differ(model, other, text).explained


def test_only_answers_to_the_very_text_are_heard():
    recorder = Recorder(scripted())
    [reply] = run(scripted(), NgramProposer(3, 1), [ReplyRequest(PROMPTS[1], TOKENS, depth=4)])
    assert sorted(reply.answers) == list(range(len(PROMPTS[1]), len(reply.text)))
    assert not find_answers(reply.steps, reply.slot + 1, reply.text)
    changed = [*reply.text[:9], (reply.text[9] + 1) % 7, *reply.text[10:]]
    assert sorted(find_answers(reply.steps, reply.slot, changed)) == [7, 8, 9]
    assert recorder.slots == 4


@pytest.mark.parametrize("recurrent", [False, True], ids=["attention", "recurrent"])
def test_refeeding_takes_nothing_back_but_whole_slots_and_keeps_every_width(recurrent):
    model = scripted(recurrent=recurrent)
    requests = [ReplyRequest(prompt, TOKENS, depth=3) for prompt in PROMPTS[:4]]
    replies = run(model, DraftModelProposer(scripted(9), floor=0), requests)

    widths = []

    def says(rows, logits):
        widths.append(sum(len(row.tokens) for row in rows))
        assert all(row.tentative == 0 for row in rows)
        for row in rows:
            held = model.held[row.slot]
            if row.slot < 4:  # the others are for what was taken back, and for one batch only
                text = next(each.text for each in replies if each.slot == row.slot)
                last = len(widths) == len([step for step in steps if step.rows])
                assert last or held == text[: len(held)]
            else:
                assert held == row.tokens.tolist()

    def forgets(slot, length):
        assert length == 0

    for reply in replies:
        widths.clear()
        place = reply.answers[len(reply.text) - 1]
        steps = reply.steps[: place.step + 1]
        logits = refeed(Altered(model, says, forgets), steps, reply.slot)
        assert top_two(logits[place.output]) == place.top_two
        fed = [sum(len(row.tokens) for row in step.rows) for step in steps[1:]]
        # What a recurrent model took back as a whole need not be fed.
        assert set(widths) <= set(fed) if recurrent else widths == fed
        assert not any(model.held.values())


@pytest.mark.parametrize(
    "name", ["llama", "qwen35", "mamba2", "lfm2", "gemma3", *engines.there("mlx llama", "mlx lfm2")]
)
@pytest.mark.parametrize("slots", [1, 4])
def test_real_engines_write_the_plain_texts(name, slots):
    model, draft = engines.target(name, slots=slots), engines.draft(slots=slots)
    texts = [model.tokenizer.encode(text) for text in ("the code is the code", "if it is not on")]
    replies = list(plain(model, texts, 24))
    proposers = {**usual_proposers(Pair(model, draft)), "slips": lambda: Slips(replies)}
    listed = list(compare(model, replies, proposers, 24))
    assert len(listed) == 5 * 2 * len(sizes(model, 2))
    assert sum(each.accepted for each in listed) > 10
    assert all(each.difference is None or each.difference.explained for each in listed)
    model.close()
    draft.close()


def test_the_engines_error_is_the_proofs():
    def says(rows, logits):
        raise BackendError("no memory")

    with pytest.raises(BackendError, match="no memory"):
        list(plain(Altered(says=says), PROMPTS, 3))


def test_drafts_are_not_foretold_where_the_text_is_another():
    replies = list(plain(scripted(), PROMPTS[:1], 9))
    [reply] = run(scripted(2), Slips(replies), [ReplyRequest(PROMPTS[0], 9, depth=3)])
    assert reply.drafted < 9
