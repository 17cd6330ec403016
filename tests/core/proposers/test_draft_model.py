"""A draft model says how much of a text it has to read before it drafts."""

from __future__ import annotations

from localspec.base.tokens import NONE, tokens_of
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.draft import EMPTY
from localspec.interfaces.proposer import Ask, Hints
from tests.runs import scripted

TEXT = [at % 5 for at in range(40)]


def ask(history, limit=4, slot=0):
    return Ask(slot, tokens_of(history), limit, Sampler(GREEDY, 0, NONE))


def test_all_is_unread_at_first_but_the_newest_that_go_with_a_draft():
    proposer = DraftModelProposer(scripted())
    assert proposer.unread(ask(TEXT)) == len(TEXT) - 2
    assert proposer.unread(ask(TEXT[:1])) == 0


def test_a_piece_that_was_read_is_not_unread():
    proposer = DraftModelProposer(scripted())
    proposer.propose([ask(TEXT[:21], limit=0)])
    assert proposer.unread(ask(TEXT)) == len(TEXT) - 22


def test_nothing_is_unread_behind_a_draft_that_was_right_and_the_tokens_since_one_that_was_not():
    proposer = DraftModelProposer(scripted(), floor=0)
    [draft] = proposer.propose([ask(TEXT)])
    drafted = draft.tokens.tolist()
    assert len(drafted) == 4
    assert proposer.unread(ask([*TEXT, *drafted, 3])) == 0
    wrong = [*TEXT, drafted[0], (drafted[1] + 1) % 5]
    assert proposer.unread(ask(wrong)) == 0
    assert proposer.unread(ask([*wrong, *TEXT])) == len(TEXT) - 1


def test_what_another_text_left_counts_as_read_by_one_that_begins_alike():
    proposer = DraftModelProposer(scripted())
    proposer.propose([ask(TEXT, slot=1)])
    assert proposer.unread(ask(TEXT)) == 0
    assert proposer.unread(ask([*TEXT[:20], *[6] * 10])) == 30 - 20 - 2


def test_nothing_is_read_where_a_slot_has_no_room_for_a_window():
    model = scripted()
    model.context = model.tentative + 7
    assert DraftModelProposer(model).unread(ask(TEXT)) == 0
    assert DraftModelProposer(model).propose([ask(TEXT)]) == [EMPTY]
    model.context += 1
    assert DraftModelProposer(model).unread(ask(TEXT)) > 0


def test_positions_of_pictures_are_not_read_and_count_for_nothing():
    proposer = DraftModelProposer(scripted())
    pictured = [*TEXT[:10], *range(-1024, -1224, -1), *TEXT[10:]]
    seeing = ask(pictured)._replace(hints=Hints(media=200))
    assert proposer.unread(seeing) == len(TEXT) - 2
    proposer.propose([seeing._replace(limit=0)])
    assert proposer.unread(ask(TEXT)) == 0
    [draft] = proposer.propose([seeing])
    assert (
        draft.tokens.tolist()
        == DraftModelProposer(scripted()).propose([ask(TEXT)])[0].tokens.tolist()
    )


def test_the_model_hears_what_text_it_continues():
    model, texts = scripted(), []
    roll = model.roll
    model.roll = lambda rolls: texts.extend(one.text.tolist() for one in rolls) or roll(rolls)
    DraftModelProposer(model).propose([ask(TEXT), ask(TEXT[:9], slot=1)])
    assert texts == [TEXT, TEXT[:9]]
