"""Suffix look-up: the longest run, its most frequent continuation, as far as it is worth it."""

from __future__ import annotations

import time
import tracemalloc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.base.errors import UsageError
from localspec.base.tokens import NONE, tokens_of
from localspec.core.pairing.pair import Pair
from localspec.core.proposers import registry
from localspec.core.proposers.automaton import Automaton
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.replies import Replies
from localspec.core.proposers.silent import Silent
from localspec.core.proposers.suffix import SuffixProposer
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.draft_stopping import likely
from localspec.interfaces.proposer import NOT_QUIET, Ask
from tests.runs import Want, replies, said, scripted

SAMPLER = Sampler(GREEDY, 0, NONE)


def ask(history, limit=4, slot=0, prompt=0):
    return Ask(slot, tokens_of(history), limit, SAMPLER, prompt)


def until(proposer, history, run, slot=0, prompt=0):
    """Return what ends the quiet where a draft pays behind so many tokens that occurred before."""
    pays = likely({2: 0.5, 3: 0.6}[run])
    quiet = proposer.quiet(ask(history, slot=slot, prompt=prompt)._replace(pays=pays))
    assert quiet.rounds == 0
    return quiet.until


def propose(proposer, history, limit=4, slot=0, prompt=0):
    return proposer.propose([ask(history, limit, slot, prompt)])[0]


def draft(history, limit=4, floor=0.0):
    return propose(SuffixProposer(floor=floor), history, limit)


def guess(history, limit=4):
    return draft(history, limit).tokens.tolist()


def searched(history, limit):
    """Find the same by brute force: tokens, the length of the run, how often any token followed.

    A run that reaches the end of the text goes round in it, and is as long as if it were there.
    """
    run, followers, length = history, [], 0
    while len(followers) < limit:
        ends = []
        while run and not ends:
            size = len(run)
            ends = [end for end in range(size, len(history)) if history[end - size : end] == run]
            run = run if ends else run[1:]
        if not run:
            break
        nexts = [history[end] for end in ends]
        best = max(nexts, key=lambda token: (nexts.count(token), history_last(nexts, token)))
        length = length + 1 if followers else len(run)
        followers.append((best, length, len(ends)))
        run = [*run, best]
    return followers


def history_last(tokens, token):
    return max(at for at, each in enumerate(tokens) if each == token)


@pytest.mark.parametrize(
    ("history", "expected"),
    [
        ([1, 2, 3, 4, 5, 1, 2], [3, 4, 5, 1]),
        ([1, 2, 8, 5, 2, 9, 1, 2], [8, 5, 2, 9]),  # two tokens match further back than one
        ([1, 2, 8, 6, 1, 2, 8, 7, 1, 2, 9, 1, 2], [8, 7, 1, 2]),  # twice beats once and later
        ([1, 8, 1, 9, 1], [9, 1, 9, 1]),  # of equally frequent ones the latest
        ([1, 8, 1, 9, 1, 9, 1, 8, 2, 1], [8]),
        ([5, 5], [5, 5, 5, 5]),
        ([1, 2, 3], []),
        ([7], []),
    ],
)
def test_the_most_frequent_continuation_of_the_longest_run_is_drafted(history, expected):
    assert guess(history)[: len(expected)] == expected
    assert bool(guess(history)) == bool(expected)


@given(st.lists(st.integers(0, 2), min_size=1, max_size=17), st.integers(1, 6))
def test_it_finds_what_a_search_through_the_whole_text_finds(history, limit):
    automaton = Automaton()
    automaton.extend(history)
    steps = [step for step, _ in zip(automaton.steps(automaton.end), range(limit), strict=False)]
    assert [(token, length, total) for token, length, _, total in steps] == searched(history, limit)
    assert [step[0] for step in steps] == guess(history, limit)
    assert all(0 < seen <= total for _, _, seen, total in steps)


@pytest.mark.parametrize("seed", range(40))
def test_longer_texts_are_counted_as_well(seed):
    history = np.random.default_rng(seed).integers(0, 3, 70).tolist()
    for size in range(50, 70):
        automaton = Automaton()
        automaton.extend(history[:size])
        steps = zip(automaton.steps(automaton.end), range(9), strict=False)
        continued = [(token, length, total) for (token, length, _, total), _ in steps]
        assert continued == searched(history[:size], 9)


def test_nothing_was_seen_more_often_than_all_that_was():
    """Though a text that loops is not counted in whole."""
    automaton = Automaton()
    automaton.extend([0, 2] * 2 + [2] * 18 + [2, 0, 1, 2])
    steps = automaton.steps(automaton.end)
    assert all(seen <= total for (_, _, seen, total), _ in zip(steps, range(12), strict=False))


@given(st.lists(st.integers(0, 2), max_size=40), st.lists(st.integers(0, 3), max_size=12))
def test_a_run_is_located_wherever_it_occurred(text, run):
    automaton = Automaton()
    automaton.extend(text)
    lengths = [
        size
        for size in range(len(run) + 1)
        if any(text[at : at + size] == run[len(run) - size :] for at in range(len(text) + 1))
    ]
    assert automaton.locate(run).length == max(lengths)
    assert len(automaton) == len(text)


looping = st.lists(st.integers(0, 3), min_size=1, max_size=6).flatmap(
    lambda loop: st.integers(1, 12).map(lambda times: loop * times)
)


@given(st.lists(looping, min_size=1, max_size=4), st.integers(1, 20))
def test_growing_in_any_steps_gives_the_same_draft(loops, step):
    history = [token for loop in loops for token in loop]
    proposer = SuffixProposer(floor=0.0)
    for size in range(1, len(history), step):
        propose(proposer, history[:size], size % 4)
    used, new = propose(proposer, history, 9), draft(history, 9)
    assert used.tokens.tolist() == new.tokens.tolist()
    assert used.confidences == new.confidences
    assert all(0 < confidence < 1 for confidence in new.confidences)


def test_a_history_that_is_no_longer_version_is_read_anew():
    proposer = SuffixProposer(floor=0.0)
    for history in ([1, 2, 3, 1, 2], [1, 2], [1, 4, 1], [1, 4, 2, 4, 1, 4], [9, 4, 1, 4, 2, 1, 4]):
        assert propose(proposer, history).tokens.tolist() == guess(history)


def test_a_longer_run_is_surer_and_so_is_a_continuation_that_was_seen_more_often():
    def surety(history):
        return draft(history, limit=1).confidences[0]

    once = surety([1, 2, 3, 9, 2])
    longer = surety([1, 2, 3, 9, 1, 2])
    twice = surety([2, 3, 8, 2, 3, 9, 2])
    divided = surety([2, 4, 8, 2, 3, 9, 2])
    assert divided < once < longer
    assert once < twice
    assert once == pytest.approx(0.25)
    assert surety([*range(60), 99, *range(50)]) > 0.96


def test_a_loop_is_surer_the_longer_it_lasts():
    short, long = (draft([1, 2, 3] * times, 9).confidences for times in (3, 6))
    assert list(short) == sorted(short)
    assert all(one < other for one, other in zip(short, long, strict=True))
    assert short[0] == pytest.approx(1 - 1.5 / (6 + 1))


def test_short_runs_are_counted_within_long_ones():
    """Each text ends the next: all that they share are contexts of the token that follows."""
    history = []
    for size in range(1, 11):
        history += [*range(size, 0, -1), 20 if size < 4 else 21, 100 + size]
    assert guess([*history, 50, 1], 1) == [21]


def test_a_run_that_occurred_once_makes_n_grams_as_sure():
    history = [*range(100, 150), 7, *range(110, 113)]
    [ngrams] = NgramProposer(3, 1).propose([ask(history, 5)])
    assert ngrams.tokens.tolist() == guess(history, 5)
    assert ngrams.confidences == pytest.approx(draft(history, 5).confidences)


def test_a_longer_run_warrants_a_longer_draft():
    text = list(range(100, 200))
    lengths = [len(draft([*text, *text[20 : 20 + run]], 16, 0.4)) for run in (1, 2, 3, 6, 12, 40)]
    assert lengths[0] == 0
    assert 0 < lengths[1] < lengths[3] < lengths[4] <= lengths[5] == 16


def test_a_draft_ends_before_its_chance_falls_below_the_floor():
    history = [*range(100, 150), *range(110, 114)]
    cut, whole = draft(history, 16, 0.4), draft(history, 16)
    assert cut.by == whole.by == "suffix"
    assert np.prod(cut.confidences) >= 0.4 > np.prod(whole.confidences[: len(cut) + 1])


def remembering(*texts, tokens=4000, prompt=1):
    """A proposer that heard replies to a prompt of one token, in the given order."""
    proposer = SuffixProposer(Replies(tokens), floor=0.0)
    for text in texts:
        hear(proposer, text, prompt)
    return proposer


def hear(proposer, text, prompt=1):
    propose(proposer, text, prompt=prompt)
    proposer.release(0)


def test_an_earlier_reply_is_drafted_from():
    proposer = remembering([0, 11, 12, 13, 14, 15])
    assert propose(proposer, [1, 11, 12]).tokens.tolist() == [13, 14, 15]
    assert propose(proposer, [1, 11, 12], limit=2).tokens.tolist() == [13, 14]


def test_the_usual_one_remembers():
    [proposer] = registry.make_proposers(("suffix",), Pair(scripted())).values()
    hear(proposer, [0, 11, 12, 13, 14, 15])
    assert propose(proposer, [1, 11, 12], limit=1).tokens.tolist() == [13]


def test_nothing_is_remembered_unless_there_is_a_store():
    proposer = SuffixProposer(floor=0.0)
    hear(proposer, [0, 11, 12, 13])
    assert not len(propose(proposer, [1, 11, 12]))


def test_a_store_serves_every_slot_and_proposer_but_only_once_a_reply_is_over():
    store = Replies(4000)
    one, other = SuffixProposer(store, floor=0.0), SuffixProposer(store, floor=0.0)
    propose(one, [0, 11, 12, 13], prompt=1)
    assert not len(propose(one, [1, 11, 12], slot=1))
    one.release(0)
    assert propose(one, [1, 11, 12], slot=1).tokens.tolist() == [13]
    assert propose(other, [1, 11, 12], slot=2).tokens.tolist() == [13]


def test_all_that_agrees_with_an_earlier_reply_makes_its_draft_surer():
    proposer = remembering([0, *range(11, 30), 5], [0, 28, 29, 6])
    drafts = [propose(proposer, [1, *range(first, 30)], limit=1) for first in (11, 20, 28)]
    assert [draft.tokens.tolist() for draft in drafts] == [[5], [5], [6]]
    assert drafts[0].confidences > drafts[1].confidences > drafts[2].confidences


def test_the_longest_run_on_all_shelves_decides():
    store = Replies(400)
    proposer = SuffixProposer(store, floor=0.0)
    for reply in ([21, 22, 23, 5], [22, 23, 6], [20, 23, 7]):
        hear(proposer, [0, *reply, *range(1000 * reply[-1], 1000 * reply[-1] + 80)])
    for first, expected in ((21, 5), (22, 6), (20, 7), (21, 5)):
        newest = [20, 23] if first == 20 else list(range(first, 24))
        assert propose(proposer, [1, *newest], 1, prompt=9).tokens.tolist() == [expected]


def test_prompts_are_not_remembered_but_for_their_end():
    proposer = remembering(list(range(100, 170)), prompt=60)
    assert len(propose(proposer, [1, *range(110, 120)])) == 0
    assert propose(proposer, [1, *range(150, 160)]).tokens.tolist() == [160, 161, 162, 163]
    silent = remembering(list(range(100, 160)), prompt=60)
    assert len(propose(silent, [1, *range(150, 155)])) == 0


def test_the_longer_run_decides_between_text_and_store():
    proposer = remembering([0, 21, 22, 23, 5])
    assert propose(proposer, [21, 22, 23, 6, 22, 23], limit=1).tokens.tolist() == [6]
    assert propose(proposer, [1, 22, 23, 6, 21, 22, 23], limit=1).tokens.tolist() == [5]


def test_replies_do_not_run_into_each_other():
    proposer = remembering([0, 11, 12, 13], [0, 14, 15, 16])
    assert propose(proposer, [1, 12, 13]).tokens.tolist() == []


def test_a_reply_that_was_cut_short_does_not_hide_how_another_went_on():
    whole, short, other = [0, 11, 12, 13, 14], [9, 11, 12], [0, 15]
    for texts in ([whole, short], [short, [8, 11, 12], other, whole], [short, whole, other]):
        drafted = propose(remembering(*texts), [9, 11, 12])
        assert drafted.tokens.tolist() == [13, 14]
        assert drafted.confidences[0] < propose(remembering(whole), [1, 11, 12]).confidences[0]


def test_where_a_reply_ended_a_shorter_run_is_looked_up_and_is_as_sure_as_that():
    drafted = propose(remembering([9, 5, 6, 11, 12], [0, 12, 13]), [1, 5, 6, 11, 12])
    assert drafted.tokens.tolist() == [13]
    assert drafted.confidences == pytest.approx((1 / 2 * (1 - 1.5 / 2),))


@given(st.lists(st.integers(0, 2), min_size=1, max_size=30))
def test_the_place_where_a_run_first_ended_is_known(tokens):
    automaton = Automaton()
    automaton.extend(tokens)
    run = automaton.end
    newest = tokens[len(tokens) - run.length :]
    starts = range(len(tokens) - run.length + 1)
    start = next(at for at in starts if tokens[at : at + run.length] == newest)
    assert automaton.first_end(run) == start + run.length


def test_of_several_replies_the_most_frequent_continuation_is_taken():
    proposer = remembering([0, 11, 5, 7], [0, 11, 5, 8], [0, 11, 6, 9])
    assert propose(proposer, [1, 11], limit=1).tokens.tolist() == [5]


def test_a_store_keeps_to_its_room_and_drops_what_was_not_used():
    store = Replies(400)
    proposer = SuffixProposer(store, floor=0.0)
    texts = [[0, *range(1000 * n, 1000 * n + 60)] for n in range(1, 9)]
    for text in texts:
        hear(proposer, text)
        assert len(store) <= 400
        assert propose(proposer, [1, 1001, 1002], 1, prompt=3).tokens.tolist() == [1003]
        proposer.release(0)
    lengths = [len(propose(proposer, [1, text[2], text[3]], 1, slot=1)) for text in texts]
    assert lengths == [1, 0, 0, 0, 0, 1, 1, 1]


def test_replies_that_fill_a_shelf_to_the_brim_are_within_the_room():
    store = Replies(400)
    for at in range(12):
        store.add(tokens_of(range(1000 * at, 1000 * at + 50 - at % 2)))
        assert len(store) <= 400


def test_a_reply_said_again_is_kept_once():
    store = Replies(4000)
    proposer = SuffixProposer(store, floor=0.0)
    for _ in range(3):
        hear(proposer, [0, 11, 12, 13, 14])
    assert len(store) == 6
    hear(proposer, [0, 11, 12, 13, 15])
    assert len(store) == 12


def test_of_a_reply_too_long_for_the_store_the_end_is_kept():
    store = Replies(400)
    proposer = SuffixProposer(store, floor=0.0)
    hear(proposer, list(range(1000, 2000)))
    assert len(store) <= 100
    assert propose(proposer, [1, 1990, 1991], 1).tokens.tolist() == [1992]


def test_a_store_too_small_to_hold_anything_is_refused():
    with pytest.raises(UsageError, match="12 tokens; give them 64"):
        Replies(12)


def test_earlier_replies_change_the_speed_and_not_the_text():
    wants = [Want([1, 2, at], Settings(max_tokens=50, ignore_end=True, seed=3)) for at in (3, 4, 3)]
    proposer = SuffixProposer(Replies(4000))
    for want in wants:
        [plain] = replies(scripted(), Silent(), [want])
        [fast] = replies(scripted(), proposer, [want])
        assert said([fast]) == said([plain])
    assert fast.speculation.rounds < 0.5 * plain.speculation.rounds


LINE = [1, 2, 3]  # which a text has all over
CODE = [token for at in range(20) for token in (*LINE, *range(100 + 10 * at, 108 + 10 * at))]


def copying(reply, limit=4, prompt=CODE):
    return propose(SuffixProposer(floor=0.0), [*prompt, *reply], limit, prompt=len(prompt))


@pytest.mark.parametrize(
    ("reply", "place"),
    [
        ([*CODE[:40], 9, 9, CODE[40]], 41),  # an insertion
        ([*CODE[:47], 9, CODE[48]], 49),  # a replacement
        ([*CODE[:44], CODE[46]], 47),  # a few tokens left out
        ([*CODE[:44], 9, *CODE[58:60]], 60),  # a line left out
        ([*CODE[:47], 9, *CODE[99:107]], 107),  # far
        ([*CODE[99:130], 9, *CODE[22:30]], 30),  # back
    ],
)
def test_a_copy_of_the_prompt_is_found_again_after_an_edit(reply, place):
    assert copying(reply).tokens.tolist() == CODE[place : place + 4]


def test_an_edit_of_the_prompt_that_was_made_once_is_expected_again():
    prompt = [*CODE[:30], 7, *CODE[30:60], 7, *CODE[60:]]
    assert copying([*CODE[:30], 8, 9, *CODE[30:58]], 6, prompt).tokens.tolist() == [
        *CODE[58:60],
        *(8, 9),
        *CODE[60:62],
    ]


def test_a_copy_that_was_just_left_is_looked_for_after_each_token():
    proposer, copied = SuffixProposer(), CODE[:40]
    propose(proposer, [*CODE, *copied], prompt=len(CODE))
    strange = list(range(3000, 3009))
    history = [*CODE, *copied, *strange]
    recurs = until(proposer, history, 3, prompt=len(CODE))
    assert [recurs(tokens_of(history[: len(history) - 9 + at])) for at in (1, 8, 9)] == [
        *(True, True),
        False,
    ]
    other = SuffixProposer()
    propose(other, [*CODE, 3000], prompt=len(CODE))
    assert not until(other, history, 3, prompt=len(CODE))(tokens_of([*CODE, 3000, 3001]))


def test_a_reply_is_no_copy_of_the_prompt_because_a_line_recurs():
    assert copying([*CODE[31:46], 9, CODE[46]]).tokens.tolist() != CODE[47:51]
    assert copying([*CODE[30:46], 9, CODE[46]]).tokens.tolist() == CODE[47:51]


def test_where_the_text_of_a_longer_run_goes_on_otherwise_that_is_drafted():
    edited = [*CODE[:47], 9, *CODE[48:]]
    proposer = remembering([*CODE[-16:], *edited])
    reply = [*CODE[:47], 9, CODE[48]]
    drafted = propose(proposer, [*CODE, *reply], 4, prompt=len(CODE))
    assert drafted.tokens.tolist() == CODE[49:53]
    assert drafted.confidences[0] > copying(reply).confidences[0]


copied = st.lists(st.integers(0, 3), max_size=60)


@given(copied, copied, st.integers(1, 7))
def test_a_draft_from_the_prompt_does_not_depend_on_the_asks_before_it(prompt, reply, step):
    seasoned, reply = SuffixProposer(floor=0.0), [*prompt[5:40], *reply]
    for size in range(0, len(reply) + 1, step):
        history = [*prompt, *reply[:size]]
        used = propose(seasoned, history, 5, prompt=len(prompt)).tokens.tolist()
        assert used == copying(reply[:size], 5, prompt).tokens.tolist()


def begin(proposer, prompt, limit=4):
    history = tokens_of(prompt)
    return proposer.propose([Ask(0, history, limit, SAMPLER, len(prompt), beside=len(prompt))])[0]


def test_a_reply_to_a_prompt_that_was_answered_before_begins_like_that_answer():
    proposer = SuffixProposer(Replies(4000), floor=0.0)
    propose(proposer, [*CODE, 7, 8, 9], prompt=len(CODE))
    proposer.release(0)
    drafted = begin(proposer, [5, *CODE[100:]])
    assert drafted.tokens.tolist() == [7, 8, 9]
    assert drafted.confidences[0] > 0.9
    assert begin(proposer, [5, *CODE[-15:]]).tokens.tolist() == []


def test_a_reply_to_a_prompt_that_ends_like_a_long_part_of_it_begins_as_that_went_on():
    assert begin(SuffixProposer(), [*CODE, *CODE[40:56]]).tokens.tolist() == CODE[56:60]
    assert begin(SuffixProposer(), [*CODE, *CODE[40:55]]).tokens.tolist() == []
    assert begin(SuffixProposer(), [7] * 20).tokens.tolist() == [7]
    assert begin(SuffixProposer(), [7]).tokens.tolist() == []


def test_a_prompt_is_not_indexed_before_its_first_token():
    prompt = np.random.default_rng(0).integers(0, 50_000, 100_000).astype(np.int32)
    proposer = SuffixProposer(Replies())
    start = time.thread_time()
    begin(proposer, prompt)
    assert time.thread_time() - start < 0.05  # about 0.3 ms; an index of it takes 0.4 s


def test_a_long_draft_takes_little_time():
    prompt = np.random.default_rng(0).integers(0, 50_000, 4_000).astype(np.int32)
    history = np.concatenate((prompt, prompt))
    proposer, seconds = SuffixProposer(), []
    for size in range(4_500, 7_000, 250):
        far = Ask(0, history[:size], 512, SAMPLER, 4_000, pays=lambda sure: sure[-1] > 0.1)
        proposer.propose([far._replace(limit=1)])
        start = time.perf_counter()
        [draft] = proposer.propose([far])
        seconds.append(time.perf_counter() - start)
        assert draft.tokens.tolist() == history[size : size + 512].tolist()
    assert np.median(seconds) < 0.002  # about 0.3 ms


def test_a_released_slot_keeps_nothing():
    proposer, history = SuffixProposer(), tokens_of([1, 2, 1])
    proposer.propose([Ask(0, history, 4, SAMPLER)])
    kept = weakref.ref(history)
    del history
    assert kept() is not None
    proposer.release(0)
    assert kept() is None
    proposer.release(0)


def test_a_long_history_is_no_pause():
    history = np.random.default_rng(0).integers(0, 2000, 10_000).astype(np.int32)
    history[9_000:] = history[4_000:5_000]
    proposer = SuffixProposer(floor=0.0)
    start = time.thread_time()
    proposer.propose([Ask(0, history[:9_500], 0, SAMPLER)])
    assert time.thread_time() - start < 0.5  # about 40 ms
    seconds = []
    for size in range(9_501, 9_901):
        start = time.perf_counter()
        [draft] = proposer.propose([Ask(0, history[:size], 16, SAMPLER)])
        seconds.append(time.perf_counter() - start)
        assert draft.tokens.tolist() == history[size : size + 16].tolist()
    assert np.median(seconds) < 0.0005  # about 30 us


@pytest.mark.parametrize("loop", [[1], [1, 2, 3]])
def test_a_looping_text_takes_no_longer_than_another(loop):
    start = time.thread_time()
    automaton = Automaton()
    automaton.extend(loop * (30_000 // len(loop)))
    assert time.thread_time() - start < 2  # about 0.1 s; all contexts of each token take minutes


def test_a_token_takes_less_than_half_a_kilobyte():
    tokens = np.random.default_rng(0).integers(0, 4, 5_000).tolist()
    tracemalloc.start()
    try:
        automaton = Automaton()
        automaton.extend(tokens)
        taken, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert taken / len(automaton) < 500


@pytest.mark.parametrize(
    ("history", "repeated"),
    [
        ([1, 2, 3, 4, 1, 2, 3], 3),
        ([1, 2, 3, 4, 9, 2, 3], 2),
        ([1, 2, 3, 4, 9, 1, 3], 0),
        ([1, 2, 9, 2], 0),
        ([7, 7, 7, 7], 3),
        ([7, 7, 7], 2),
        ([7, 7], 0),
        ([1, 2], 0),
        ([], 0),
    ],
)
@pytest.mark.parametrize("step", [1, 3])
def test_a_draft_is_worth_asking_for_where_the_newest_tokens_occurred_before(
    history, repeated, step
):
    for run in (2, 3):
        check_watched(history, run, repeated >= run, step)


def check_watched(history, run, expected, step):
    proposer = SuffixProposer()
    recurs = until(proposer, history, run)
    propose(proposer, [])
    for end in range(0, len(history), step):
        recurs(tokens_of(history[:end]))
    assert recurs(tokens_of(history)) is expected
    assert recurs(tokens_of(history)) is expected


def test_tokens_of_an_earlier_reply_are_worth_asking_for():
    proposer = remembering([0, 11, 12, 13, 14, 15])
    history = [1, 12, 13, 14]
    propose(proposer, history[:1])
    assert until(proposer, history, 3)(tokens_of(history))
    other = SuffixProposer()
    propose(other, history[:1])
    assert not until(other, history, 3)(tokens_of(history))
    short = [1, 99, 13, 14]
    propose(proposer, short[:1], slot=1)
    recurring = [until(proposer, short, run, slot=1)(tokens_of(short)) for run in (2, 3)]
    assert recurring == [True, False]


def test_it_is_never_quiet_where_any_draft_pays():
    assert SuffixProposer().quiet(ask([1, 2, 3])) is NOT_QUIET
    assert SuffixProposer().quiet(ask([1, 2, 3])._replace(pays=likely(0.2))) is NOT_QUIET


def test_a_dropped_store_is_no_longer_watched_for():
    store = Replies(400)
    proposer = SuffixProposer(store, floor=0.0)
    for first in range(0, 800, 80):
        hear(proposer, [5, *range(1000 + first, 1080 + first)])
    watched = [[1, *range(first, first + 3)] for first in (1000, 1700)]
    for slot, history in enumerate(watched):
        propose(proposer, [1], slot=slot)
        recurs = until(proposer, history, 3, slot)(tokens_of(history))
        assert recurs is (slot == 1)


def test_all_of_a_reply_that_was_only_watched_is_remembered():
    proposer = remembering()
    propose(proposer, [0, 11], prompt=1)
    until(proposer, [0, 11], 3)(tokens_of([0, 11, 12, 13, 14]))
    proposer.release(0)
    assert propose(proposer, [1, 12, 13]).tokens.tolist() == [14]


def test_watching_a_long_text_is_no_pause():
    history = np.random.default_rng(0).integers(0, 2000, 20_000).astype(np.int32)
    proposer = SuffixProposer()
    propose(proposer, history[:1])
    recurs = until(proposer, history, 3)
    start = time.thread_time()
    recurs(history[:10_000])
    assert time.thread_time() - start < 0.1  # about 5 ms
    seconds = []
    for size in range(10_001, 10_401):
        start = time.perf_counter()
        recurs(history[:size])
        seconds.append(time.perf_counter() - start)
    assert np.median(seconds) < 0.0001  # about 2 us
