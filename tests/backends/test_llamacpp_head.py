"""A head drafts by what its trunk holds, however the trunk came to hold it."""

from __future__ import annotations

import threading
from contextlib import closing
from functools import cache
from itertools import product
from types import SimpleNamespace

import numpy as np
import pytest
from gguf import GGUFReader

from localspec.base.errors import ContextFull, ModelFileError
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import MAX_HEAD_LAG, Roll, Row
from localspec.running.runtime.calibration import calibrate
from localspec_llamacpp.bindings.context import Context
from localspec_llamacpp.blocks import OneBlock
from localspec_llamacpp.head import LlamaHead
from tests import engines
from tests.arrangements import Running
from tests.backends.gguf_copies import copied

DEPTH = Running.now.compared
TEXT = np.random.default_rng(3).integers(300, 380, 200).astype(np.int32)
OTHER = TEXT[::-1].copy()
LONG = MAX_HEAD_LAG + 50  # so long a text is read by the head before it drafts

NAMES = [name for name in engines.HEADS if "soft" not in name]
GGUF = [name for name in NAMES if name not in engines.MLX_HEADS]


def roll(model, slot, text):
    """What the head says follows a text whose newest token the trunk has not read."""
    newest = Row(slot, text[-1:])
    [draft] = model.head.roll([Roll(newest, DEPTH, Sampler(GREEDY, 0, text), len(text))])
    return draft.tokens.tolist()


def reach(model):
    """How many tokens the head drafts when asked for so many."""
    return min(DEPTH, model.head._blocks.limit) if type(model.head) is LlamaHead else DEPTH


def feed(model, slot, text, *, start=0, piece=60):
    for at in range(start, len(text), piece):
        model.forward([Row(slot, text[at : at + piece])])


@cache
def kept_loaded(name):
    """A model of MLX, where loading takes longer than what is tested."""
    return engines.target(name)


@pytest.fixture(params=NAMES)
def model(request):
    if request.param not in engines.MLX_HEADS:
        with closing(engines.target(request.param)) as made:
            yield made
        return
    made = kept_loaded(request.param)
    yield made
    for slot in range(made.slots):
        made.truncate(slot, 0)


@pytest.fixture
def fresh(model):
    """Drafts of a slot that has read a text at once and nothing else."""

    def drafts(text):
        model.truncate(3, 0)
        feed(model, 3, text[:-1])
        draft = roll(model, 3, text)
        model.truncate(3, 0)
        assert len(draft) == reach(model)
        return draft

    return drafts


# A fresh slot reads 60 tokens at once.
@pytest.mark.parametrize(
    ("piece", "length"),
    [(60, 2), *product((1, 7), (9, LONG)), (7, MAX_HEAD_LAG), (7, MAX_HEAD_LAG + 2)],
)
def test_the_size_of_pieces_does_not_matter(model, fresh, length, piece):
    feed(model, 0, TEXT[: length - 1], piece=piece)
    assert roll(model, 0, TEXT[:length]) == fresh(TEXT[:length])
    assert roll(model, 0, TEXT[:length]) == fresh(TEXT[:length])  # the first left nothing behind


@pytest.mark.parametrize("length", [9, LONG])
@pytest.mark.parametrize("piece", [1, 7])
def test_it_does_not_matter_when_the_head_catches_up(model, fresh, length, piece):
    for at in range(0, length - 1, piece):
        model.forward([Row(0, TEXT[at : min(at + piece, length - 1)])])
        if at % 3 == 0:
            model.head.catch_up([0])
            assert model.head.behind(0) == 0
    assert roll(model, 0, TEXT[:length]) == fresh(TEXT[:length])


@pytest.mark.parametrize("model", GGUF, indirect=True)  # one of MLX follows on
@pytest.mark.parametrize("kept", [0, 20])
def test_a_text_that_was_left_is_followed_again_from_what_was_read(model, fresh, kept):
    feed(model, 0, TEXT[:50])
    model.head.catch_up([0])
    feed(model, 0, TEXT[:60], start=50)
    model.head.leave(0)
    assert model.head.behind(0) is None
    feed(model, 0, TEXT[:LONG], start=60)
    assert roll(model, 0, TEXT[: LONG + 1]) == []
    feed(model, 0, TEXT[:55], start=model.truncate(0, 55))
    held = model.truncate(0, kept)
    text = np.concatenate((TEXT[:kept], OTHER[:LONG]))
    feed(model, 0, text[:-1], start=held)
    assert roll(model, 0, text) == fresh(text)


def test_the_hidden_states_count(model, fresh):
    texts = [np.concatenate((TEXT[at : at + 8], TEXT[50:52])) for at in range(0, 40, 8)]
    assert len({tuple(fresh(text)) for text in texts}) > 1


@pytest.mark.parametrize("accepted", range(4))
@pytest.mark.parametrize("length", [6, LONG])
def test_rejected_drafts_leave_no_trace(model, fresh, length, accepted):
    feed(model, 0, TEXT[: length - 1])
    roll(model, 0, TEXT[:length])
    wrong = np.concatenate((TEXT[length - 1 : length + accepted], OTHER[:3]))
    model.forward([Row(0, wrong, len(wrong), len(wrong) - 1)])
    held = model.truncate(0, length + accepted)
    longer = TEXT[: length + accepted + 1]
    feed(model, 0, longer[:-1], start=held)
    assert roll(model, 0, longer) == fresh(longer)


@pytest.mark.parametrize("kept", [1, 20, MAX_HEAD_LAG + 10])
def test_a_text_that_goes_another_way_is_followed(model, fresh, kept):
    feed(model, 0, TEXT[:LONG])
    roll(model, 0, TEXT[: LONG + 1])
    held = model.truncate(0, kept)
    assert held <= kept
    text = np.concatenate((TEXT[:kept], OTHER[:30]))
    feed(model, 0, text[:-1], start=held)
    assert roll(model, 0, text) == fresh(text)


@pytest.mark.parametrize("kept", [5, MAX_HEAD_LAG + 10])
def test_the_first_draft_after_a_rollback_reads_the_right_state(model, fresh, kept):
    feed(model, 0, TEXT[:LONG])
    held = model.truncate(0, kept)
    feed(model, 0, TEXT[:kept], start=held)
    text = np.append(TEXT[:kept], OTHER[7])
    assert roll(model, 0, text) == fresh(text)


@pytest.mark.parametrize("piece", [1, 7])
def test_a_text_may_be_read_again_in_pieces(model, fresh, piece):
    feed(model, 0, TEXT[:90])
    model.forward([Row(0, TEXT[90:94], 4, 3)])  # a recurrent trunk goes back to here
    feed(model, 0, TEXT[:LONG], start=94)
    roll(model, 0, TEXT[: LONG + 1])
    feed(model, 0, TEXT[:LONG], start=model.truncate(0, LONG - 5), piece=piece)
    assert roll(model, 0, TEXT[: LONG + 1]) == fresh(TEXT[: LONG + 1])


def test_a_state_of_a_text_that_was_left_serves_no_other(model, fresh):
    feed(model, 0, TEXT[:50])
    text = np.concatenate((TEXT[:20], OTHER[:40]))
    feed(model, 0, text, start=model.truncate(0, 20), piece=1)
    roll(model, 0, np.append(text, TEXT[3]))
    held = model.truncate(0, 49)
    feed(model, 0, text[:49], start=held, piece=1)
    assert roll(model, 0, text[:50]) == fresh(text[:50])


@pytest.mark.parametrize("kept", [20, MAX_HEAD_LAG + 10])
def test_a_text_that_is_not_the_one_promised_is_followed(model, fresh, kept):
    feed(model, 0, TEXT[:LONG])
    model.forward([Row(0, TEXT[LONG : LONG + 4], 4, 3)])
    held = model.truncate(0, min(kept, LONG + 2))
    text = np.concatenate((TEXT[:held], OTHER[:12]))
    feed(model, 0, text[:-1], start=held)
    assert len(roll(model, 0, text)) == reach(model)
    if not held or held == LONG + 2 or type(model.head) is not LlamaHead:
        assert roll(model, 0, text) == fresh(text)


def test_tokens_that_may_be_taken_back_are_not_read_early():
    with closing(engines.target("glm4moe-mtp")) as model:
        feed(model, 0, TEXT[: MAX_HEAD_LAG - 4])
        model.forward([Row(0, TEXT[MAX_HEAD_LAG - 4 : MAX_HEAD_LAG + 5], 9, 8)])
        assert model.truncate(0, MAX_HEAD_LAG - 2) == MAX_HEAD_LAG - 2


class Refusing:
    """A context that has no memory for another copy, and none for a batch."""

    hidden_width = 8

    def __init__(self):
        self.memory = self

    def decode(self, parts):
        raise ContextFull(0, 16)

    def copy(self, source, target, length):
        return False

    def clear(self, sequence):
        pass

    def remove(self, sequence, start):
        return True


class Reading(Refusing):
    """A context that reads whatever it is given."""

    def decode(self, parts):
        pass


def test_a_copy_that_its_context_refuses_is_not_drafted_for():
    head = LlamaHead(OneBlock(Refusing()), slots=2, batch=16)
    head.note([Row(0, TEXT[:4])], [0], np.zeros((4, 8), np.float32))
    head._texts[0].advance(4)  # as if its context held them
    head.copy(0, 1)
    head.note([Row(1, TEXT[4:7])], [4], np.zeros((3, 8), np.float32))
    assert roll(SimpleNamespace(head=head), 1, TEXT[:8]) == []


def test_a_head_that_fails_ends_no_request():
    head = LlamaHead(OneBlock(Refusing()), slots=2, batch=16)
    head.note([Row(0, TEXT[:4])], [0], np.zeros((4, 8), np.float32))
    assert roll(SimpleNamespace(head=head), 0, TEXT[:5]) == []
    head.note([Row(1, TEXT[:LONG])], [0], np.zeros((LONG, 8), np.float32))
    assert roll(SimpleNamespace(head=head), 1, TEXT[: LONG + 1]) == []


@pytest.mark.parametrize("kept", [5, 20, LONG])
@pytest.mark.parametrize("read", [30, LONG])
def test_a_copy_is_followed(model, fresh, read, kept):
    kept = min(read, kept)
    feed(model, 0, TEXT[:read])
    feed(model, 1, OTHER[:40])
    held = model.copy(0, 1, kept)
    text = np.concatenate((TEXT[:kept], OTHER[:10]))
    feed(model, 1, text[:-1], start=held)
    assert roll(model, 1, text) == fresh(text)
    assert roll(model, 0, TEXT[: read + 1]) == fresh(TEXT[: read + 1])


@pytest.mark.parametrize("read", [30, LONG])
def test_what_was_saved_is_followed(model, fresh, read):
    feed(model, 0, TEXT[:read])
    saved = model.save(0, 1 << 30)
    feed(model, 1, OTHER[:40])
    assert model.restore(1, saved.data, read) == read
    feed(model, 1, TEXT[: read + 5], start=read)
    assert roll(model, 1, TEXT[: read + 6]) == fresh(TEXT[: read + 6])
    assert model.save(0, len(saved.data) - 1) is None


@pytest.mark.parametrize(
    "name", ["glm4moe-mtp", "qwen35-eagle3", "llama-dflash", *engines.MLX_HEADS[:1]]
)
def test_a_head_that_was_freed_leaves_texts_and_what_was_saved(name):
    with closing(engines.target(name)) as model:
        feed(model, 0, TEXT[:30])
        roll(model, 0, TEXT[:31])
        saved = model.save(0, 1 << 30)
        [expected] = model.forward([Row(0, TEXT[30:31])])
        model.truncate(0, 20)
        model.free_head()
        model.free_head()
        assert model.head is None
        assert model.restore(1, saved.data, 30) == 30
        feed(model, 2, TEXT[:30], start=model.copy(1, 2, 30))
        again = model.save(2, 1 << 30)
        assert model.restore(3, again.data, 30) == 30
        feed(model, 0, TEXT[:30], start=model.truncate(0, 20))
        for slot in range(4):
            [logit] = model.forward([Row(slot, TEXT[30:31])])
            assert np.abs(logit - expected).max() < 0.1


def test_the_states_of_a_prompt_are_never_copied_all_at_once():
    widest = []

    class States:
        def __getitem__(self, rows):
            widest.append(rows.stop - rows.start)
            return np.zeros((widest[-1], 8), np.float32)

    head = LlamaHead(OneBlock(Reading()), slots=2, batch=16)
    head.note([Row(0, TEXT[:3]), Row(1, TEXT[:LONG])], [0, 0], States())
    assert max(widest) == 16
    assert head._texts[1].read > LONG - MAX_HEAD_LAG - 16
    _rows = head._texts[1].states._rows
    assert _rows.base is None  # a view would keep all that it was cut from
    assert len(_rows) <= 2 * MAX_HEAD_LAG + 16


def test_slots_draft_together_and_apart_from_each_other(model, fresh):
    texts = [TEXT[:5], OTHER[:LONG], TEXT[30:60]]
    for slot, text in enumerate(texts):
        feed(model, slot, text[:-1])
    rolls = [
        Roll(Row(slot, text[-1:]), depth, Sampler(GREEDY, 0, text), len(text))
        for slot, (text, depth) in enumerate(zip(texts, (4, 2, 3), strict=True))
    ]
    drafts = [draft.tokens.tolist()[:DEPTH] for draft in model.head.roll(rolls)]
    assert drafts == [fresh(text)[:depth] for text, depth in zip(texts, (4, 2, 3), strict=True)]


def test_a_head_that_does_not_follow_drafts_nothing(model):
    feed(model, 0, TEXT[:10])
    assert roll(model, 0, TEXT[:15]) == []  # the trunk holds less than that
    assert len(roll(model, 0, TEXT[:11])) == reach(model)


@pytest.mark.parametrize("name", NAMES)
def test_without_its_head_a_model_has_none(name):
    with closing(engines.target(name, head=None)) as model:
        assert model.head is None


@pytest.mark.parametrize("name", GGUF)
def test_the_thread_that_loads_runs_nothing(name, monkeypatch):
    """OpenMP would keep threads for it, and those of the engine would spin less for good."""
    ran, run = set(), Context._run

    def noted(*arguments):
        ran.add(threading.current_thread())
        return run(*arguments)

    monkeypatch.setattr(Context, "_run", noted)
    engines.target(name).close()
    assert threading.current_thread() not in ran


@pytest.mark.parametrize("name", ["hy_v3-chain-mtp", "step35-chain-mtp", "mimo2-chain-mtp"])
def test_short_drafts_keep_all_blocks_of_a_chain_in_step(name):
    with closing(engines.target(name)) as model:
        feed(model, 1, TEXT[:60])
        for end in range(3, 60):
            feed(model, 0, TEXT[:end], start=end - 1 if end > 3 else 0)
            newest = Row(0, TEXT[end : end + 1])
            model.head.roll([Roll(newest, 1, Sampler(GREEDY, 0, TEXT[:end]), end + 1)])
        feed(model, 0, TEXT[:60], start=59)
        sampler = Sampler(GREEDY, 0, TEXT[:61])
        one, other = (
            model.head.roll([Roll(Row(slot, TEXT[60:61]), DEPTH, sampler, 61)])[0].confidences
            for slot in (0, 1)
        )
        assert one == pytest.approx(other, rel=0.02)


@pytest.mark.parametrize("name", ["qwen35-mtp", "hy_v3-chain-mtp"])
def test_blocks_in_a_file_of_their_own_draft_as_inside(name, tmp_path):
    whole = engines.tiny(name)
    trunk = {
        tensor.name: None
        for tensor in GGUFReader(whole).tensors
        if tensor.name.startswith(("blk.0.", "blk.1.", "blk.2."))
    }
    beside = copied(whole, tmp_path / "mtp-blocks.gguf", tensors=trunk)
    drafts = []
    for head in (whole, beside):
        with closing(engines.target(name, head=head)) as model:
            feed(model, 0, TEXT[:LONG])
            drafts.append(roll(model, 0, TEXT[: LONG + 1]))
    assert drafts[0] == drafts[1] != []


def test_blocks_of_another_architecture_are_refused(tmp_path):
    whole = engines.tiny("hy_v3-chain-mtp")
    trunk = {"blk.0.attn_norm.weight": None}
    beside = copied(whole, tmp_path / "mtp-blocks.gguf", tensors=trunk)
    with pytest.raises(ModelFileError, match="hy_v3, not llama"):
        engines.target("llama", head=beside)


def test_a_head_is_measured_with_its_model(model):
    calibration = calibrate(model, seconds=0.2)
    by = model.head.proposer
    assert set(calibration.drafting) == {by}
    assert all(seconds > 0 for seconds in calibration.drafting[by].values())
    assert set(calibration.reading) == {by}
    assert model.truncate(0, 99) == 0
