"""Look-up in a corpus: long runs are followed through edits, and what is not there costs little."""

from __future__ import annotations

import pytest

from localspec.base.tokens import NONE, tokens_of
from localspec.core.proposers.corpus import LOST, CorpusProposer
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.proposer import ALWAYS_QUIET, Ask
from tests.runs import FixedCorpus

SAMPLER = Sampler(GREEDY, 0, NONE)
TEXT = list(range(100, 400))
VOCABULARY = 1000


def ask(history, limit=6, prompt=3, beside=0):
    return Ask(0, tokens_of(history), limit, SAMPLER, prompt, beside=beside)


def proposer(*texts):
    return CorpusProposer(FixedCorpus(*(texts or (TEXT,)), vocabulary=VOCABULARY), floor=0.1)


def guess(proposer, history, **options):
    return proposer.propose([ask(history, **options)])[0].tokens.tolist()


def test_what_followed_a_run_is_drafted():
    drafting = proposer()
    assert guess(drafting, [1, 2, 3, *TEXT[:7]]) == []
    assert guess(drafting, [1, 2, 3, *TEXT[:8]]) == TEXT[8:14]
    [draft] = drafting.propose([ask([1, 2, 3, *TEXT[:9]])])
    assert draft.by == "corpus"
    assert 0.8 < draft.confidences[0] < draft.confidences[-1] < 1


def test_a_reply_that_repeats_a_text_is_found_again_a_token_behind_an_edit():
    drafting, edited = proposer(), [1, 2, 3, *TEXT[:40], 7, 8, *TEXT[42:44]]
    for end in range(4, len(edited) + 1):
        drafted = guess(drafting, edited[:end])
    assert drafted == TEXT[44:50]


def test_it_is_the_same_whenever_it_was_asked():
    edited = [1, 2, 3, *TEXT[:40], 7, 8, *TEXT[42:60], *range(500, 520), *TEXT[200:240]]
    asked = proposer()
    for end in range(4, len(edited)):
        once = proposer()
        assert guess(asked, edited[:end]) == guess(once, edited[:end])


def test_another_text_is_followed_when_the_reply_goes_there():
    other = list(range(600, 700))
    drafting = proposer(TEXT, other)
    history = [1, 2, 3, *TEXT[:30], *other[:20]]
    assert guess(drafting, history) == other[20:26]
    history += [9] * (LOST + 1) + other[40:45]
    assert guess(drafting, history) == []  # too few to be found, and no text is followed any more
    history += other[45:50]
    assert guess(drafting, history) == other[50:56]


def test_a_reply_begins_like_one_that_followed_the_end_of_its_prompt():
    drafting, prompt = proposer(), [1, 2, 3, *TEXT[:20]]
    assert guess(drafting, prompt, prompt=len(prompt), beside=9) == TEXT[20:26]
    assert guess(drafting, prompt[:-6], prompt=len(prompt) - 6, beside=9) == []  # it is too short
    assert guess(drafting, prompt[:-6], prompt=len(prompt) - 6) == TEXT[14:20]


def test_it_is_quiet_until_something_recurs():
    drafting = proposer()
    guess(drafting, [1, 2, 3, 4])
    quiet = drafting.quiet(ask([1, 2, 3, 4]))
    assert quiet.rounds == 0
    history = [1, 2, 3, 4, *TEXT[:20], 9, 9]
    stirred = [quiet.until(tokens_of(history[:end])) for end in range(5, len(history) + 1)]
    assert stirred == [False] * 7 + [True] * 13 + [False] * 2


def test_an_empty_corpus_drafts_nothing_and_is_not_asked():
    corpus = FixedCorpus(TEXT)
    corpus.segments = ()
    drafting = CorpusProposer(corpus)
    assert guess(drafting, [1, 2, 3, *TEXT[:20]]) == []
    assert drafting.quiet(ask([1, 2, 3])) is ALWAYS_QUIET


def test_a_released_slot_follows_nothing():
    drafting = proposer()
    guess(drafting, [1, 2, 3, *TEXT[:40]])
    drafting.release(0)
    assert guess(drafting, [1, 2, 3, *TEXT[60:64]]) == []


@pytest.mark.parametrize("limit", [0, 1, 600])
def test_a_draft_keeps_to_its_limit_and_to_its_text(limit):
    assert guess(proposer(), [1, 2, 3, *TEXT[:20]], limit=limit) == TEXT[20 : 20 + limit]
