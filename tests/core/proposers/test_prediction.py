"""A predicted reply: followed from its beginning, lost at an edit, found again behind it."""

from __future__ import annotations

import time
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.base.tokens import NONE, tokens_of
from localspec.core.proposers.alignment import confidence
from localspec.core.proposers.prediction import PredictionProposer
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.proposer import ALWAYS_QUIET, Ask, Hints

SAMPLER = Sampler(GREEDY, 0, NONE)
PROMPT = [900, 901]
TEXT = list(range(100, 200))


def ask(reply, prediction=TEXT, limit=4, prompt=PROMPT, slot=0):
    history = tokens_of([*prompt, *reply])
    hints = Hints(tokens_of(prediction))
    return Ask(slot, history, limit, SAMPLER, len(prompt), hints)


def draft(reply, prediction=TEXT, limit=4, floor=0.0):
    return PredictionProposer(floor).propose([ask(reply, prediction, limit)])[0]


def guess(reply, prediction=TEXT, limit=4):
    return draft(reply, prediction, limit).tokens.tolist()


def rounds(reply, prediction, limit=8):
    """Count the rounds that a reply takes."""
    proposer, hints = PredictionProposer(), Hints(tokens_of(prediction))
    right, count = 0, 0
    while right < len(reply):
        history = tokens_of(PROMPT + reply[:right])
        [draft] = proposer.propose([Ask(0, history, limit, SAMPLER, len(PROMPT), hints)])
        for token in draft.tokens.tolist():
            if reply[right : right + 1] != [token]:
                break
            right += 1
        right += 1
        count += 1
    return count


@pytest.mark.parametrize("said", [0, 1, 2, 50, 98])
def test_a_reply_that_repeats_its_prediction_is_drafted_all_along(said):
    assert guess(TEXT[:said]) == TEXT[said : said + 4]


def test_nothing_follows_the_end_of_the_prediction():
    assert guess(TEXT) == []
    assert guess([*TEXT, 5, 6]) == []
    assert guess(TEXT[:97], limit=9) == TEXT[97:]


def test_without_a_prediction_there_is_no_draft():
    assert guess([1, 2], prediction=[]) == []


def test_the_prompt_is_no_part_of_the_reply():
    history = ask([], prompt=TEXT[:8])
    assert PredictionProposer(0.0).propose([history])[0].tokens.tolist() == TEXT[:4]


@pytest.mark.parametrize(
    "reply",
    [
        [5, *TEXT[1:3]],  # another first token
        [5, *TEXT[0:3]],
        [5, 6, 7, 8, *TEXT[:3]],  # words before it
        [5, *TEXT[6:9]],  # its beginning left out
        [*TEXT[:30], 5, 6, 7, *TEXT[30:32]],  # an insertion
        [*TEXT[:30], *TEXT[50:52]],  # a deletion
        [*TEXT[:30], *TEXT[80:84]],  # a long one
        [*TEXT[:30], 5, 6, *TEXT[35:37]],  # a replacement
        [*TEXT[:30], TEXT[33]],  # a few tokens left out
        [*TEXT[:30], 5, *TEXT[31:40], 5, 6, TEXT[41]],  # two edits
        [*TEXT[:60], *TEXT[20:26]],  # back
    ],
)
def test_the_place_is_found_again_after_an_edit(reply):
    following = TEXT.index(reply[-1]) + 1
    assert guess(reply) == TEXT[following : following + 4]


@pytest.mark.parametrize(
    "reply",
    [
        [*TEXT[:30], 5],
        [*TEXT[:30], TEXT[40]],  # one token agrees further on
        [*TEXT[:30], *TEXT[80:83]],  # three, and far
        [*TEXT[:60], *TEXT[20:25]],  # five, and back
        [*TEXT[:30], *TEXT[24:29]],
        [5, 6, 7],
    ],
)
def test_too_little_agreement_is_no_place(reply):
    assert guess(reply) == []


def test_of_equal_places_the_nearest_is_taken():
    line = [1, 2, 3, 4]
    text = [*line, 10, *line, 11, *line, 12, *line, 13]
    assert guess([*line, 10, 99, *line], text)[:1] == [11]
    assert guess([*line, 10, *line, 11, 99, *line], text)[:1] == [12]
    assert guess([*TEXT[:9], 99, 7], [*TEXT[:9], 7, 8, 7, 9])[:1] == [8]
    far = [*TEXT[:10], *TEXT[20:60], *line, 11, *TEXT[60:], *line, 12]
    assert guess([*TEXT[:10], 99, *line], far)[:1] == [11]
    assert guess([*far[:100], 99, 10, *line], [*far[:100], 8, 9, *line, 13, *far[102:]])[:1] == [13]


def test_more_agreement_beats_a_nearer_place():
    text = [*TEXT[:10], 7, 50, *TEXT[10:15], 1, 2, 7, 60, *TEXT[15:]]
    assert guess([*TEXT[:10], 1, 2, 7], text)[:1] == [60]


def test_a_place_that_was_no_place_is_left_for_the_right_one():
    """A token of an insertion that happens to come soon must not lead beyond the text."""
    reply = [*TEXT[:30], 5, TEXT[32], 6, *TEXT[30:32]]
    assert guess(reply) == TEXT[32:36]


def test_what_was_said_long_ago_is_found_by_its_latest_place():
    text = [*TEXT[:10]] * 30
    assert guess([*text[:150], 5, *TEXT[:4]], text)[0] == TEXT[4]


def test_an_edited_text_takes_few_rounds():
    reply = [*TEXT[:20], 5, *TEXT[21:40], 6, 7, 8, *TEXT[40:60], *TEXT[70:]]
    # Plain decoding takes 92; drafts of eight without a miss 11.
    assert rounds(reply, TEXT) <= 23
    assert rounds(TEXT, TEXT) <= 14


def test_an_edit_that_was_made_once_is_expected_again():
    name, other = [7, 8], [9]
    text = [*TEXT[:8], *name, *TEXT[8:16], *name, *TEXT[16:24], *name, *TEXT[24:30]]
    reply = [*TEXT[:8], *other, *TEXT[8:16]]
    assert guess(reply, text, limit=20) == [*other, *TEXT[16:24], *other, *TEXT[24:30]]
    longer = [*reply, *other, *TEXT[16:20]]
    assert guess(longer, text, limit=20) == [*TEXT[20:24], *other, *TEXT[24:30]]


def test_an_edit_is_followed_from_its_middle():
    text = [*TEXT[:8], 7, *TEXT[8:16], 7, *TEXT[16:30]]
    reply = [*TEXT[:8], 1, 2, 3, *TEXT[8:16], 1]
    assert guess(reply, text, limit=4) == [2, 3, *TEXT[16:18]]
    assert guess([*reply, 2, 5], text) == []
    assert guess([*reply, 2, 5, TEXT[16]], text) == TEXT[17:21]


def test_an_edit_that_was_not_made_again_is_not_expected_any_more():
    text = [*TEXT[:8], 7, *TEXT[8:16], 7, *TEXT[16:24], 7, *TEXT[24:40]]
    reply = [*TEXT[:8], 9, *TEXT[8:16], 7, *TEXT[16:24]]
    assert guess(reply, text) == [7, *TEXT[24:27]]


def test_an_edit_that_was_made_once_is_not_as_sure_as_one_made_again_and_again():
    text = [*TEXT[:8]] + [token for at in range(8, 80, 8) for token in (7, *TEXT[at : at + 8])]
    edited = [9 if token == 7 else token for token in text]
    once, often = draft(edited[:17], text), draft(edited[:71], text)
    assert (once.tokens[0], often.tokens[0]) == (9, 9)
    assert 0.5 < once.confidences[0] < 0.6
    assert 0.85 < often.confidences[0] < 0.95 < often.confidences[1]


def test_places_are_not_near_any_more_once_a_reply_has_gone_astray():
    """A word that it shares with the next line is no sign that it is back in the text."""
    stray = list(range(2000, 2000 + 32))
    assert guess([*TEXT[:30], *stray[:31], TEXT[31]]) == TEXT[32:36]
    assert guess([*TEXT[:30], *stray, TEXT[31]]) == []
    assert guess([*TEXT[:30], *stray, *TEXT[31:35]]) == TEXT[35:39]


def test_a_long_draft_takes_little_time():
    text = np.random.default_rng(0).integers(0, 50_000, 5_000).astype(np.int32)
    edited = text.copy()
    edited[::50] = text[1]
    text[::50] = text[0]
    proposer, hints = PredictionProposer(), Hints(text)
    seconds = []
    for size in range(500, 4_500, 500):
        ask = Ask(0, edited[:size], 512, SAMPLER, 0, hints, pays=lambda sure: sure[-1] > 0.1)
        proposer.propose([ask._replace(limit=1)])
        start = time.perf_counter()
        [draft] = proposer.propose([ask])
        seconds.append(time.perf_counter() - start)
        assert draft.tokens.tolist() == edited[size : size + 512].tolist()
    assert np.median(seconds) < 0.002  # about 0.3 ms


def test_confidence_grows_with_the_agreement_and_starts_low_after_an_edit():
    long = draft(TEXT[:60]).confidences
    short = draft([*TEXT[:30], 5, TEXT[31]]).confidences
    assert list(short) == sorted(short)
    assert 0.7 < short[0] < 0.8
    assert 0.99 < long[0] < long[-1] < 1
    assert draft([5, TEXT[1]]).confidences == pytest.approx(short)


def test_no_agreement_however_long_is_taken_for_sure():
    assert confidence(60) < confidence(200) < confidence(10_000) < 0.998


def test_a_draft_ends_where_it_would_hardly_be_right_in_whole():
    reply = [*TEXT[:30], 5, *TEXT[31:33]]
    whole = draft(reply, limit=32)
    cut = draft(reply, limit=32, floor=0.4)
    assert 0 < len(cut) < len(whole) == 32
    assert np.prod(cut.confidences) >= 0.4 > np.prod(whole.confidences[: len(cut) + 1])
    assert len(draft(TEXT[:60], limit=16, floor=0.7)) == 16


edited = st.lists(st.integers(0, 3), max_size=40)


@given(edited, edited, st.integers(1, 7))
def test_a_draft_does_not_depend_on_the_asks_before_it(prediction, reply, step):
    proposer, hints = PredictionProposer(0.0), Hints(tokens_of(prediction))
    for size in range(0, len(reply) + 1, step):
        history = tokens_of(PROMPT + reply[:size])
        [used] = proposer.propose([Ask(0, history, 5, SAMPLER, len(PROMPT), hints)])
        assert used.tokens.tolist() == guess(reply[:size], prediction, limit=5)


def test_another_reply_in_the_slot_is_read_anew():
    proposer, hints = PredictionProposer(0.0), Hints(tokens_of(TEXT))
    for reply in (TEXT[:30], TEXT[:10], [5, *TEXT[1:12]], [*TEXT[:11], 6, TEXT[12]], TEXT[:60]):
        history = tokens_of(PROMPT + reply)
        [used] = proposer.propose([Ask(0, history, 4, SAMPLER, len(PROMPT), hints)])
        assert used.tokens.tolist() == guess(reply)


def test_another_prediction_in_the_slot_is_taken_up():
    proposer = PredictionProposer(0.0)
    proposer.propose([ask(TEXT[:3])])
    [used] = proposer.propose([ask(TEXT[:3], [*TEXT[:3], 7, 8])])
    assert used.tokens.tolist() == [7, 8]


def test_a_released_slot_keeps_nothing():
    proposer, prediction = PredictionProposer(), tokens_of(TEXT)
    proposer.propose([Ask(0, tokens_of(TEXT[:3]), 4, SAMPLER, 0, Hints(prediction))])
    kept = weakref.ref(prediction)
    del prediction
    assert kept() is not None
    proposer.release(0)
    assert kept() is None
    proposer.release(0)


def test_a_long_prediction_is_no_pause():
    """Neither where it is followed nor where the reply's words are everywhere in it."""
    text = np.random.default_rng(0).integers(0, 50_000, 50_000).astype(np.int32)
    text[:40_000] = 7
    reply = np.concatenate((text[-2000:-1000], [1, 7, 7, 7, 7, 2] * 20)).astype(np.int32)
    proposer, hints = PredictionProposer(), Hints(text)
    seconds = []
    for size in range(len(reply)):
        start = time.perf_counter()
        proposer.propose([Ask(0, reply[:size], 4, SAMPLER, 0, hints)])
        seconds.append(time.perf_counter() - start)
    assert np.median(seconds[1:1000]) < 0.0005  # about 15 us
    assert np.median(seconds[1000:]) < 0.001  # about 0.1 ms; to compare at all sevens takes 7 ms


def test_it_is_quiet_until_a_text_agrees_with_its_prediction():
    proposer = PredictionProposer()
    assert proposer.quiet(ask([], prediction=[])) is ALWAYS_QUIET
    quiet = proposer.quiet(ask([]))
    assert quiet.rounds == 0
    assert quiet.until(ask([]).history)  # nothing is known of a text that was not asked about
    draft_again = proposer.propose([ask([])])[0]
    assert len(draft_again)
    assert quiet.until(ask(TEXT[:3]).history)
    assert not quiet.until(ask([*TEXT[:3], 9999]).history)
    assert not quiet.until(ask([*TEXT[:3], 9999, 9998]).history)
