import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.base.tokens import History, tokens_of
from localspec.core.decoding.generation import Ending, Generation
from localspec.core.decoding.scheduler import AGEING_TOKENS, Scheduler, piece
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.media import RunName
from localspec.interfaces.media_positions import Stretch
from localspec.interfaces.testing import ScriptedRun, ScriptedSight

PIECE = 96
SCHEDULER = Scheduler(batch=512, tentative=4)


def text(length, said=0):
    """Make a text with a prompt of this length, all of which was read if something was said."""
    prompt = tokens_of([1] * length)
    made = Generation(
        History(prompt), Sampler(GREEDY, 0, prompt), Ending(1 << 20), lambda token: b"x"
    )
    if said:
        made.history.extend([2] * said)
        made.cached = length + said - 1
    return made


def read(texts, rounds=1, allowance=PIECE):
    """Run rounds beside replies, in which texts are read; tell who had a turn in each."""
    feeds = []
    for _ in range(rounds):
        turns = SCHEDULER.plan(texts, allowance)
        for each in texts:
            each.waited += 1
            each.age += 1
        for turn in turns:
            turn.generation.waited = 0
            turn.generation.cached += turn.feed
            if turn.emits:
                turn.generation.history.extend([2])
        feeds.append([texts.index(turn.generation) for turn in turns])
    return feeds


def test_prompts_are_read_one_after_the_other():
    rounds = read([text(5, said=1), text(250), text(250)], rounds=5)
    assert [sorted(set(each) - {0}) for each in rounds] == [[1], [1], [1], [1, 2], [1, 2]]


@pytest.mark.parametrize("allowance", [PIECE, 600])  # the latter is more than a batch
def test_replies_have_a_turn_in_every_round(allowance):
    prompts = [text(900), text(40), text(900), text(900)]
    rounds = read([text(5, said=1), *prompts, text(9, said=3)], 12, allowance)
    assert all({0, 5} <= set(each) for each in rounds)


def test_a_short_prompt_does_not_wait_for_a_long_one():
    texts = [text(5, said=1), text(4000)]
    read(texts, rounds=3)
    texts.append(text(60))
    read(texts)
    assert not texts[2].reads


@pytest.mark.parametrize("length", [1000, 4000])
def test_a_long_prompt_is_read_though_short_ones_keep_coming(length):
    texts = [text(5, said=1), text(length)]
    rounds = 0
    while texts[1].reads and rounds < 1000:
        texts.append(text(PIECE))  # as much as a round can read
        read(texts)
        rounds += 1
    assert rounds <= length / AGEING_TOKENS + length / PIECE + 2


@pytest.mark.parametrize(
    ("length", "pieces"),
    [
        (96, [96]),
        (97, [32, 65]),
        (159, [80, 79]),
        (160, [96, 64]),
        (250, [96, 80, 74]),
        (288, [96] * 3),
        (289, [96, 96, 32, 65]),
    ],
)
def test_a_prompt_is_read_in_large_pieces_of_which_the_last_is_not_short(length, pieces):
    texts = [text(5, said=1), text(length)]
    shares = []
    while texts[1].reads:
        shares += [turn.feed for turn in SCHEDULER.plan(texts, PIECE) if turn.generation.reads]
        read(texts)
    assert shares == pieces


@pytest.mark.parametrize(("length", "first"), [(512, 512), (513, 448), (682, 512), (1100, 512)])
def test_without_replies_a_piece_is_at_most_a_batch(length, first):
    assert SCHEDULER.plan([text(length)])[0].feed == first
    assert SCHEDULER.plan([text(length), text(9_000)])[0].feed == first


@pytest.mark.parametrize(
    ("lengths", "feeds"), [((250, 150), [150]), ((250, 20), [20, 76]), ((30, 20), [30, 20])]
)
def test_without_replies_the_first_prompt_is_read_whole_and_others_as_the_allowance_lets(
    lengths, feeds
):
    turns = SCHEDULER.plan([text(length) for length in lengths], PIECE)
    assert [turn.feed for turn in turns] == feeds


@pytest.mark.parametrize(("parting", "edge"), [(100, 200), (200, 100), (0, 100), (100, 0)])
def test_a_turn_ends_wherever_others_go_on_differently(parting, edge):
    prompt = text(500)
    prompt.parting, prompt.edge = parting, edge
    places = sorted({parting, edge} - {0})
    for place in places:
        read([prompt])
        assert prompt.cached == place
    read([prompt])
    assert not prompt.reads


def test_what_is_left_of_a_round_begins_no_prompt_unless_it_is_much():
    feeds = [
        [turn.feed for turn in SCHEDULER.plan([text(5, said=1), text(size), text(250)], PIECE)]
        for size in (10, 30, 40, 200)
    ]
    assert feeds == [[1, 10, 86], [1, 30, 66], [1, 40], [1, 96]]


@given(
    prompts=st.lists(st.integers(1, 700), min_size=1, max_size=6),
    replies=st.integers(0, 3),
    allowance=st.integers(1, 600),
)
def test_every_token_is_fed_once(prompts, replies, allowance):
    texts = [*[text(7, said=1) for _ in range(replies)], *map(text, prompts)]
    rounds = 0
    while any(each.reads for each in texts):
        turns = SCHEDULER.plan(texts, allowance)
        assert sum(turn.feed + turn.limit for turn in turns) <= SCHEDULER.batch
        for turn in turns:
            g = turn.generation
            assert 0 < turn.feed <= g.history.size - g.cached
            assert turn.emits == (turn.feed == g.history.size - g.cached)
            g.cached += turn.feed
            if turn.emits:
                g.history.extend([2])
        for each in texts:
            each.waited += 1
            each.age += 1
        for turn in turns:
            turn.generation.waited = 0
        rounds += 1
        assert rounds <= 10_000


@pytest.mark.parametrize("most", [-1, 0])
def test_nothing_is_read_where_there_is_no_room(most):
    assert piece(text(30), most) == 0


def with_pictures(length, *places, whole=True):
    """A text with pictures at these places."""
    made, sight = text(length), ScriptedSight(1, 1)
    made.media = tuple(
        Stretch(start, end, ScriptedRun(RunName(b"", 0, end - start), -1024, whole, sight))
        for start, end in places
    )
    return made


def pieces(texts, rounds=12):
    """Run rounds; return what each text was fed, as places in it."""
    fed = {id(g): [] for g in texts}
    for _ in range(rounds):
        turns = SCHEDULER.plan(texts, PIECE)
        for g in texts:
            g.waited += 1
        for turn in turns:
            g = turn.generation
            fed[id(g)].append((g.cached, g.cached + turn.feed))
            g.cached += turn.feed
            g.waited = 0
            if turn.emits:
                g.history.extend([2])
    return [fed[id(g)] for g in texts]


def test_no_piece_cuts_a_picture_that_is_read_at_once():
    [fed] = pieces([with_pictures(1000, (500, 700), (700, 720))], rounds=3)
    assert fed == [(0, 500), (500, 1000), (1000, 1001)]
    [fed] = pieces([with_pictures(1000, (500, 700), whole=False)], rounds=2)
    assert fed == [(0, 512), (512, 1000)]


def test_a_picture_that_is_read_at_once_is_read_beside_replies_though_it_is_longer_than_a_piece():
    reply, fed = pieces([text(9, said=1), with_pictures(400, (10, 310))], rounds=4)
    assert fed[:2] == [(0, 10), (10, 310)]
    assert len(reply) == 4


def test_a_picture_that_fills_a_batch_is_read_alone_and_replies_wait_a_round():
    reply, fed = pieces([text(9, said=1), with_pictures(700, (10, 610))], rounds=6)
    assert (10, 610) in fed
    assert len(reply) == 5


def test_a_prompt_that_ends_in_a_picture_begins_its_reply_behind_it():
    _, fed = pieces([text(9, said=1), with_pictures(310, (10, 310))], rounds=3)
    assert fed == [(0, 10), (10, 310), (310, 311)]
