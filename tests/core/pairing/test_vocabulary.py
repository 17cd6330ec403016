"""Pairs with the same tokens, with others, and with too few in common."""

from __future__ import annotations

import pytest

from localspec.base.errors import PairError
from localspec.core.pairing.translated import Translated
from localspec.core.pairing.vocabulary import match
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from localspec.interfaces.testing import Alphabet, ScriptedModel, hashed_logits
from tests.runs import LETTERS, STRANGE_LETTERS, Want, replies, said, scripted


def alphabet(text, ends=(6,)):
    return Alphabet([letter.encode() for letter in text], ends)


def test_the_same_tokens_are_the_same_vocabulary_whatever_the_padding():
    padded = alphabet("abcdefgxyz")
    for target, draft in ((LETTERS, padded), (padded, LETTERS)):
        matched = match(target, draft)
        assert matched.difference is None
        assert matched.draft_ids.tolist() == matched.target_ids.tolist() == list(range(7))
    assert match(padded, LETTERS).share == 0.7


@pytest.mark.parametrize(
    ("draft", "difference"),
    [
        (alphabet("abcdXfg"), "token 4 is 'X', the target's 'e'"),
        (alphabet("abcdefg", ends=(5,)), "end tokens are [5], the target's [6]"),
    ],
)
def test_what_differs_is_named(draft, difference):
    assert match(LETTERS, draft).difference == difference


def test_tokens_are_matched_by_what_they_say():
    matched = match(LETTERS, STRANGE_LETTERS)
    pairs = dict(zip(matched.target_ids.tolist(), matched.draft_ids.tolist(), strict=True))
    assert pairs == {0: 1, 1: 3, 2: 0, 4: 4, 5: 5, 6: 6}
    assert matched.share == pytest.approx(6 / 7)


def test_a_vocabulary_with_too_little_in_common_is_refused_with_the_reason():
    with pytest.raises(PairError, match=r"token 0 is 'p'.*14%"):
        match(LETTERS, alphabet("pqrsatu"))


def test_a_draft_model_with_longer_tokens_still_drafts_for_the_target():
    """A token of the target may be several of the draft's, and the other way round."""
    syllables = Alphabet([b"ab", b"c", b"de", b"a", b"b", b"d", b"e", b"f", b"abc"])
    letters = Alphabet([b"a", b"b", b"c", b"d", b"e", b"f", b"fde"])
    draft = ScriptedModel(hashed_logits(4, vocabulary=9), syllables)
    matched = match(letters, syllables)
    model = Translated(draft, letters, matched, letters.size)
    wants = [Want([6, 0, 1, 6, 2], Settings(max_tokens=40, seed=1))]
    plain = replies(ScriptedModel(hashed_logits(1), letters), Silent(), wants)
    fast = replies(
        ScriptedModel(hashed_logits(1), letters), DraftModelProposer(model, floor=0), wants
    )
    assert said(fast) == said(plain)
    assert fast[0].speculation.drafted > 0


def test_a_draft_model_that_has_no_room_for_the_text_drafts_by_its_latest_tokens():
    draft = scripted(9)
    draft.context = 48
    small = Translated(draft, LETTERS, match(LETTERS, LETTERS), LETTERS.size)
    for model in (draft, small):
        wants = [Want([1, 2, 3], Settings(max_tokens=80, ignore_end=True))]
        [fast] = replies(scripted(), DraftModelProposer(model, floor=0), wants)
        assert said([fast]) == said(replies(scripted(), Silent(), wants))
        assert fast.speculation.drafted > 3 * fast.speculation.rounds
