"""A draft model reads a window of a long text: its first tokens and the latest."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.base.errors import ContextFull
from localspec.base.tokens import NONE, tokens_of
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.pairing.translated import Translated
from localspec.core.pairing.vocabulary import match
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.core.proposers.silent import Silent
from localspec.core.proposers.window import MIN_WINDOW, SINKS, window
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.costs import Costs
from localspec.interfaces.proposer import Ask, Hints
from localspec.interfaces.testing import ScriptedModel
from tests.runs import LETTERS, Want, replies, said, scripted

TEXT = tokens_of(np.random.default_rng(3).integers(0, 5, 900).tolist())
SIZE = 64
CONTEXT = SIZE + 16  # tokens with those of a draft


def adding(context):
    """Make logits that depend on all tokens of a text, and on their number."""
    logits = np.zeros(7, np.float32)
    logits[(7 * len(context) + sum(context)) % 5] = 6.0
    return logits


def model(*, recurrent=False) -> ScriptedModel:
    return ScriptedModel(adding, LETTERS, recurrent=recurrent)


def ask(history, limit=4, slot=0, prompt=0, hints=None):
    sampler = Sampler(GREEDY, 0, NONE)
    return Ask(slot, history, limit, sampler, prompt)._replace(hints=hints or Hints())


def proposer(draft=None):
    return DraftModelProposer(draft or model(), floor=0, context=CONTEXT)


def drafted(by, history, **options):
    return by.propose([ask(history, **options)])[0].tokens.tolist()


def fresh(tokens):
    """Draft with a model that reads these tokens alone, for the first time."""
    return drafted(DraftModelProposer(model(), floor=0), tokens)


def test_a_text_that_is_no_longer_is_read_as_it_is():
    for length in (0, 1, SIZE):
        text = TEXT[:length]
        assert window(text, length, SIZE) is text


@given(st.integers(SIZE + 1, len(TEXT)), st.integers(MIN_WINDOW, SIZE))
def test_of_a_longer_text_the_first_tokens_and_at_least_half_a_window_are_read(length, size):
    read = window(TEXT[:length], length, size)
    assert size // 2 < len(read) <= size
    assert read[:SINKS].tolist() == TEXT[:SINKS].tolist()
    latest = len(read) - SINKS
    assert read[SINKS:].tolist() == TEXT[length - latest : length].tolist()


def test_a_window_moves_by_half_and_rarely():
    read = [window(TEXT[:length], length, SIZE) for length in range(SIZE, len(TEXT) + 1)]
    moves = sum(len(later) <= len(sooner) for sooner, later in pairwise(read))
    assert moves == -(-(len(TEXT) - SIZE) // ((SIZE - SINKS) // 2))


def test_the_beginning_of_a_text_has_what_its_window_will_have():
    whole = window(TEXT, len(TEXT), SIZE)
    for length in range(0, len(TEXT), 50):
        read = window(TEXT[:length], len(TEXT), SIZE)
        assert read.tolist() == whole[: len(read)].tolist()


@pytest.mark.parametrize("recurrent", [False, True])
def test_a_draft_is_that_of_a_model_that_reads_the_window_alone(recurrent):
    """A window that moves without reading again would draft by tokens at wrong places."""
    draft = model(recurrent=recurrent)
    by = proposer(draft)
    for length in range(1, 400):
        text = TEXT[:length]
        assert drafted(by, text) == fresh(window(text, length, SIZE)), length
        assert len(draft.held[0]) <= CONTEXT


def test_what_a_slot_held_of_another_text_does_not_matter():
    by = proposer()
    drafted(by, TEXT[:300])
    by.release(0)
    other = np.concatenate((TEXT[:200], TEXT[:300]))
    assert drafted(by, other, slot=0) == fresh(window(other, len(other), SIZE))
    assert drafted(by, TEXT[:300], slot=1) == fresh(window(TEXT[:300], 300, SIZE))


def test_several_texts_have_windows_of_their_own():
    by = proposer()
    texts = [TEXT[:300], TEXT[100:170], TEXT[5:20]]
    for grown in range(40):
        asks = [ask(np.append(t, TEXT[:grown]), slot=slot) for slot, t in enumerate(texts)]
        drafts = [draft.tokens.tolist() for draft in by.propose(asks)]
        assert drafts == [fresh(window(a.history, len(a.history), SIZE)) for a in asks]


def counted(draft):
    """Count the tokens that a model reads from now on."""
    read, forward = [], draft.forward

    def counting(rows):
        read.append(sum(len(row.tokens) for row in rows))
        return forward(rows)

    draft.forward = counting
    return read


def test_of_a_long_prompt_no_more_than_a_window_is_read():
    prompt = np.resize(TEXT, 20_000)
    for pieces in ([20_000], range(512, 20_001, 512), range(512, 20_513, 512)):
        draft = model()
        read, by = counted(draft), proposer(draft)
        for length in pieces:
            by.propose([ask(prompt[:length], limit=0, prompt=20_000)])
        assert by.unread(ask(prompt, prompt=20_000)) <= max(20_000 - min(pieces[-1], 20_000), 0)
        drafted(by, prompt, prompt=20_000)
        assert sum(read) <= CONTEXT


def test_the_pieces_of_a_window_are_read_once_each():
    """A piece must not be the window of a shorter text, which begins elsewhere."""
    draft, now = model(), [0.0]
    draft.batch = 512
    read, forward = counted(draft), draft.forward

    def clocked(rows):
        now[0] += 1e-6 + 1e-5 * sum(len(row.tokens) for row in rows)
        return forward(rows)

    draft.forward = clocked
    by = DraftModelProposer(draft, floor=0, context=300 + 16)
    depth = Depth(
        Costs({1: 0.001, 9: 0.0011}, {"draft-model": {1: 5e-5, 4: 2e-4}}, {"draft-model": 1e-5})
    )
    best = Best({"draft-model": by}, depth, lambda: now[0])
    for _ in range(40):
        [draft_tokens] = best.propose([ask(TEXT[:700], prompt=100)])
        if len(draft_tokens):
            break
    assert len(draft_tokens)
    assert len([tokens for tokens in read if tokens > 30]) > 1
    assert sum(read) < 300 + 16


def test_positions_of_pictures_take_no_place_in_a_window():
    pictured = np.concatenate((TEXT[:100], np.arange(-1024, -1324, -1), TEXT[100:130]))
    by, plain = proposer(), window(TEXT[:130], 130, SIZE)
    options = {"prompt": 420, "hints": Hints(media=300)}
    assert by.unread(ask(pictured, **options)) == len(plain) - 2
    by.propose([ask(pictured, limit=0, **options)])
    assert by.unread(ask(pictured, **options)) == 0
    assert drafted(by, pictured, **options) == fresh(plain)


def test_tokens_are_drawn_for_their_places_in_the_whole_text():
    starts, draft = [], model()
    roll = draft.roll
    draft.roll = lambda rolls: starts.extend(each.start for each in rolls) or roll(rolls)
    by = proposer(draft)
    drafted(by, TEXT[:30])
    drafted(by, TEXT[:500])
    assert starts == [30, 500]


def test_a_long_draft_ends_where_the_context_does():
    draft = model()
    assert len(drafted(proposer(draft), TEXT[:SIZE], limit=40)) == CONTEXT - SIZE
    assert len(draft.held[0]) < CONTEXT


def translated(inner, *, doubled):
    """Wrap a model for which these tokens of the target are two each."""
    inner.context, inner.batch = CONTEXT, 16
    model = Translated(inner, LETTERS, match(LETTERS, LETTERS), LETTERS.size)
    model._words = {token: tokens_of([token, 5][: 1 + (token in doubled)]) for token in range(7)}
    return model


@pytest.mark.parametrize("doubled", [(), (1, 3), (0, 1, 2, 3, 4)])
def test_a_window_fits_a_draft_model_that_takes_more_tokens_for_a_text(doubled):
    inner = model()
    read, by = counted(inner), proposer(translated(inner, doubled=doubled))
    assert drafted(by, TEXT[:303], limit=2)
    assert by.unread(ask(TEXT[:304])) == 0
    assert CONTEXT // 4 < len(inner.held[0]) <= CONTEXT
    assert sum(read) <= CONTEXT or len(doubled) > 2  # too many: half as much is read again


def test_a_text_for_which_there_is_no_room_at_all_is_left_to_the_target():
    draft = model()

    def full(rows):
        raise ContextFull(rows[0].slot, 0)

    forward, draft.forward = draft.forward, full
    by = proposer(draft)
    assert drafted(by, TEXT[:300]) == []
    assert by.unread(ask(TEXT[:300])) == 0
    draft.forward = forward
    assert drafted(by, TEXT[:300]) == []
    by.release(0)
    assert drafted(by, TEXT[:300]) != []


def test_texts_beyond_a_window_are_the_plain_ones():
    settings = Settings(max_tokens=200, ignore_end=True)
    wants = [Want(TEXT[:n].tolist(), settings) for n in (30, 150, 400)]
    fast = replies(scripted(), DraftModelProposer(scripted(9), 0, CONTEXT), wants)
    assert said(fast) == said(replies(scripted(), Silent(), wants))
    assert all(reply.speculation.accepted > 10 for reply in fast)
    [twin] = replies(scripted(), DraftModelProposer(scripted(1), 0, CONTEXT), wants[2:])
    assert twin.speculation.acceptance_rate > 0.95  # its logits depend on the last three tokens
