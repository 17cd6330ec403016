"""The contract of every model, whichever engine it runs on."""

from __future__ import annotations

import numpy as np
import pytest

from localspec.base.errors import BackendError
from localspec.base.tokens import tokens_of
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Next, Roll, Row
from localspec.interfaces.draft_stopping import likely
from localspec.interfaces.forward_loop import roll_by_forward
from localspec.interfaces.testing import ScriptedModel, hashed_logits
from tests import engines
from tests.arrangements import Running
from tests.runs import translated

TEXT = [5, 3, 1, 4, 1, 5, 2, 6, 5, 3, 5, 0, 2, 3, 1, 4, 6, 2, 6, 4, 3, 3, 5, 2, 1, 0]


def scripted(recurrent):
    return ScriptedModel(hashed_logits(1), recurrent=recurrent)


MODELS = {
    "scripted": lambda: scripted(False),
    "scripted recurrent": lambda: scripted(True),
    "translated": translated,
    **{
        name: lambda name=name: engines.target(name)
        for name in (*engines.ARCHITECTURES, *engines.SOME_HEADS, *engines.MLX)
    },
    **{
        f"{name} drafting": lambda name=name: engines.draft(name)
        for name in ("qwen35", "mamba2", "lfm2")
    },
    **{
        f"{name} {kv_type} cache": lambda name=name, kv_type=kv_type: engines.target(
            name, kv_type=kv_type
        )
        for name, kv_type in zip(
            engines.there("mlx llama", "mlx gemma3_text"), ("q8_0", "q4_0"), strict=False
        )
    },
    "llama q8_0 cache": lambda: engines.target("llama", kv_type="q8_0"),
    "llama f16 cache": lambda: engines.target("llama", kv_type="f16"),
    "translated gguf": lambda: engines.strange_draft(engines.target("llama")),
}


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(name, marks=[pytest.mark.long] if name in engines.LATER else [])
        for name in MODELS
    ],
)
def loaded(request):
    made = MODELS[request.param]()
    yield made
    made.close()


@pytest.fixture
def model(loaded):
    """A model whose slots are empty, as other tests left it."""
    yield loaded
    for slot in range(loaded.slots):
        assert loaded.truncate(slot, 0) == 0


@pytest.fixture
def close():
    """Tell whether two rows of logits are the same but for the rounding of another batch shape."""
    return lambda a, b: np.allclose(a, b, atol=Running.now.rounding, rtol=1e-3)


def longer(*lengths):
    return [pytest.param(length, marks=pytest.mark.long) for length in lengths]


def feed(model, slot, tokens, outputs=1, tentative=0):
    [logits] = model.forward([Row(slot, tokens_of(tokens), outputs, tentative)])
    return logits.copy()


def one_by_one(model, slot, tokens):
    return np.concatenate([feed(model, slot, [token]) for token in tokens])


def test_one_batch_gives_the_logits_of_one_token_at_a_time(model, close):
    batched = feed(model, 0, TEXT[:9], outputs=9)
    assert batched.shape == (9, model.vocabulary)
    assert batched.dtype == np.float32
    assert close(batched, one_by_one(model, 1, TEXT[:9]))


def test_only_the_wanted_outputs_come_back(model, close):
    whole = feed(model, 0, TEXT[:6], outputs=6)
    assert close(feed(model, 1, TEXT[:6], outputs=2), whole[-2:])
    assert feed(model, 2, TEXT[:6], outputs=0).shape == (0, model.vocabulary)


def test_rows_of_different_widths_share_a_batch(model, close):
    feed(model, 1, TEXT[:3])
    rows = [
        Row(0, tokens_of(TEXT[:8]), outputs=0),
        Row(1, tokens_of(TEXT[3:4])),
        Row(2, tokens_of(TEXT[:5]), outputs=3, tentative=2),
    ]
    prompt, single, verified = (logits.copy() for logits in model.forward(rows))
    assert len(prompt) == 0
    assert close(single, feed(model, 3, TEXT[:4]))
    assert model.truncate(3, 0) == 0
    assert close(verified, feed(model, 3, TEXT[:5], outputs=3))


@pytest.mark.parametrize("taken", [1, 2, 3, 4])
@pytest.mark.parametrize("known", [1, 2, 7, 20])
def test_what_is_taken_back_leaves_no_trace(model, close, taken, known):
    feed(model, 0, TEXT[:2])
    following = TEXT[2 : 2 + known]
    feed(model, 0, [*following, 6, 6, 6, 6], outputs=5, tentative=4)
    expected = 2 + known + 4 - taken
    kept = model.truncate(0, expected)
    assert 0 <= kept <= expected
    text = [*TEXT[:2], *following, 6, 6, 6, 6][:expected]
    text += [1, 2]
    assert close(feed(model, 0, text[kept:]), feed(model, 1, text))


def test_attention_keeps_exactly_what_is_asked_for():
    for name in ("llama", "qwen3", "gemma3", *engines.there("mlx llama", "mlx gpt_oss")):
        model = engines.target(name)
        feed(model, 0, TEXT)
        feed(model, 0, [1, 2, 3, 4], outputs=4, tentative=3)
        assert [model.truncate(0, len(TEXT) + at) for at in (4, 3, 2, 1)] == [
            len(TEXT) + at for at in (4, 3, 2, 1)
        ]
        model.close()


def test_snapshots_keep_exactly_what_is_asked_for():
    for name in ("qwen35", "lfm2"):
        model = engines.target(name, slots=1)
        feed(model, 0, TEXT)
        feed(model, 0, [1, 2, 3, 4], outputs=4, tentative=3)
        assert model.truncate(0, len(TEXT) + 2) == len(TEXT) + 2
        model.close()


@pytest.mark.parametrize("name", ["qwen35", "lfm2"])
@pytest.mark.parametrize("back", [1, 2, 3])
def test_snapshots_of_an_earlier_batch_are_not_taken_for_this_ones(name, back, close):
    """llama.cpp restores something else then, and says it went well."""
    model, fresh = engines.target(name, slots=1), engines.target(name, slots=1)
    feed(model, 0, TEXT)
    feed(model, 0, [1, 2, 3])
    feed(model, 0, [4])
    expected = len(TEXT) + 4 - back
    kept = model.truncate(0, expected)
    text = [*[*TEXT, 1, 2, 3, 4][:expected], 5, 5]
    assert close(feed(model, 0, text[kept:]), feed(fresh, 0, text))
    model.close()
    fresh.close()


@pytest.mark.parametrize("name", ["qwen35", "lfm2"])
def test_snapshots_serve_once_and_going_back_again_is_still_safe(name, close):
    model, fresh = engines.target(name, slots=1), engines.target(name, slots=1)
    feed(model, 0, TEXT)
    feed(model, 0, [1, 2, 3, 4], outputs=4, tentative=3)
    assert model.truncate(0, len(TEXT) + 3) == len(TEXT) + 3
    kept = model.truncate(0, len(TEXT) + 2)
    text = [*TEXT, 1, 2, 5, 5]
    assert close(feed(model, 0, text[kept:]), feed(fresh, 0, text))
    model.close()
    fresh.close()


def test_a_checkpoint_loses_only_the_tentative_row():
    model = engines.target("mamba2")
    feed(model, 0, TEXT)
    feed(model, 0, [1, 2, 3, 4], outputs=4, tentative=3)
    assert model.truncate(0, len(TEXT) + 2) == len(TEXT)
    model.close()


def test_round_after_round_of_rejections_changes_nothing(model, close):
    """Pending tokens pile up where a model only goes back to checkpoints."""
    text, held = TEXT[:3], 0
    for token in [*TEXT, *TEXT]:
        feed(model, 0, [*text[held:], 6, 5, 6], outputs=4, tentative=3)
        text = [*text, token]
        held = model.truncate(0, len(text) - 1)
        assert held <= len(text) - 1
    assert close(feed(model, 0, text[held:]), feed(model, 1, text))


def test_a_slot_is_emptied_by_truncating_to_nothing(model, close):
    feed(model, 0, TEXT[:9])
    assert model.truncate(0, 0) == 0
    assert model.truncate(0, 0) == 0
    assert close(feed(model, 0, TEXT[4:9]), feed(model, 1, TEXT[4:9]))


def test_truncating_to_what_is_held_or_more_keeps_everything(model):
    feed(model, 0, TEXT[:5])
    assert model.truncate(0, 5) == model.truncate(0, 9) == 5


def test_any_shorter_length_is_safe_to_ask_for(model, close):
    for length in (24, 20, 11, 3):
        feed(model, 0, TEXT)
        kept = model.truncate(0, length)
        assert 0 <= kept <= length
        assert close(feed(model, 0, TEXT[kept : length + 1]), feed(model, 1, TEXT[: length + 1]))
        assert model.truncate(0, 0) == model.truncate(1, 0) == 0


@pytest.mark.parametrize("length", [300, *longer(395, 120, 20)])
def test_going_far_back_in_a_long_text_is_safe(model, close, length):
    """A window may have moved on; what is gone must be fed again, not be taken for there."""
    long = [(at * at + at // 7) % 6 for at in range(400)]
    for start in range(0, 400, 40):
        feed(model, 0, long[start : start + 40], outputs=0)
    kept = model.truncate(0, length)
    assert 0 <= kept <= length
    following = long[kept:length]
    for start in range(0, len(following), 40):
        feed(model, 0, following[start : start + 40], outputs=0)
    for start in range(0, length, 40):
        feed(model, 1, long[start : min(start + 40, length)], outputs=0)
    assert close(feed(model, 0, [3]), feed(model, 1, [3]))


@pytest.mark.parametrize("length", [200, *longer(398, 1)])
def test_the_beginning_of_a_long_text_is_copied_rightly_or_not_at_all(model, close, length):
    long = [(at * at + at // 7) % 6 for at in range(400)]
    for start in range(0, 400, 40):
        feed(model, 0, long[start : start + 40], outputs=0)
    feed(model, 2, TEXT)
    copied = model.copy(0, 2, length)
    assert copied in (0, length - 1, length)
    for slot, kept in ((1, 0), (2, copied)):
        for start in range(kept, length, 40):
            feed(model, slot, long[start : min(start + 40, length)], outputs=0)
    assert close(feed(model, 2, [3]), feed(model, 1, [3]))


def test_a_copied_beginning_goes_on_like_the_original(model, close):
    feed(model, 0, TEXT[:9])
    feed(model, 2, TEXT[10:20])
    for length in (9, 4):
        copied = model.copy(0, 2, length)
        assert copied in (0, length - 1, length)
        fresh = feed(model, 3, [*TEXT[:length], 6, 2])
        assert close(feed(model, 2, [*TEXT[copied:length], 6, 2]), fresh)
        assert model.truncate(3, 0) == 0
    assert close(feed(model, 0, [6, 2]), feed(model, 3, [*TEXT[:9], 6, 2]))


def test_slots_do_not_hear_of_each_other(model, close):
    alone = [feed(model, 0, TEXT[:4]), feed(model, 0, TEXT[4:6])]
    assert model.truncate(0, 0) == 0
    shared = [feed(model, 0, TEXT[:4])]
    feed(model, 1, [1, 1, 1, 1], outputs=3, tentative=2)
    model.truncate(1, 2)
    feed(model, 2, TEXT)
    model.truncate(2, 0)
    shared.append(feed(model, 0, TEXT[4:6]))
    assert all(close(a, b) for a, b in zip(alone, shared, strict=True))


@pytest.mark.parametrize("sampling", [GREEDY, Sampling(temperature=1.0)], ids=["greedy", "sampled"])
def test_rolling_is_feeding_its_own_tokens(model, sampling):
    def rolls():
        sampler = Sampler(sampling, 3, tokens_of(TEXT[:4]))
        return [
            Roll(Row(0, tokens_of(TEXT[:4])), 5, sampler, 4),
            Roll(Row(1, tokens_of(TEXT[:7])), 2, sampler, 7),
        ]

    rolled = model.roll(rolls())
    for slot in (0, 1):
        assert model.truncate(slot, 0) == 0
    stepped = roll_by_forward(model, rolls())
    assert [len(draft) for draft in rolled] == [5, 2]
    assert [d.tokens.tolist() for d in rolled] == [d.tokens.tolist() for d in stepped]


def test_a_roll_stops_where_it_is_no_longer_likely_to_be_right(model):
    sampler = Sampler(GREEDY, 3, tokens_of(TEXT[:4]))
    [draft] = model.roll([Roll(Row(0, tokens_of(TEXT[:4])), 8, sampler, 4, likely(0.999999))])
    assert len(draft) < 8


@pytest.mark.parametrize("floor", [0.0, 0.05, 0.999999])
def test_after_a_roll_only_the_token_drawn_last_is_missing(model, floor):
    sampler = Sampler(GREEDY, 3, tokens_of(TEXT[:4]))
    [draft] = model.roll([Roll(Row(0, tokens_of(TEXT[:4])), 8, sampler, 4, likely(floor))])
    assert model.truncate(0, 1 << 20) == 4 + len(draft) - 1


def test_what_was_rolled_can_be_taken_back(model, close):
    sampler = Sampler(GREEDY, 3, tokens_of(TEXT[:4]))
    [draft] = model.roll([Roll(Row(0, tokens_of(TEXT[:4])), 5, sampler, 4)])
    kept = model.truncate(0, 6)
    text = [*TEXT[:4], *draft.tokens.tolist()[:2], 1]
    assert close(feed(model, 0, text[kept:]), feed(model, 1, text))


def hinted(model, slots=(0,)):
    """Each slot has read four tokens, and was told that its likeliest next comes alone."""
    sampler = Sampler(GREEDY, 3, tokens_of(TEXT[:4]))
    rows = [Row(slot, tokens_of(TEXT[:4]), next=Next(sampler, 4)) for slot in slots]
    return [int(logits[-1].argmax()) for logits in model.forward(rows)]


@pytest.mark.parametrize("width", [1, 3])
def test_what_was_said_to_come_next_need_not_come(model, close, width):
    [likely] = hinted(model)
    other = [(likely + 1) % 7, 1, 2][:width]
    assert close(feed(model, 0, other), feed(model, 1, [*TEXT[:4], *other]))
    kept = model.truncate(0, 4 + width)
    assert close(feed(model, 0, [*TEXT[:4], *other, 3][kept:]), feed(model, 1, [3]))


def test_what_was_said_to_come_next_may_come_and_then_no_more(model, close):
    [likely] = hinted(model)
    assert close(feed(model, 0, [likely]), feed(model, 1, [*TEXT[:4], likely]))
    assert model.truncate(0, 1 << 20) == 5
    assert close(feed(model, 0, [likely]), feed(model, 1, [likely]))


def test_what_was_said_to_come_next_may_come_in_other_company(model, close):
    likely, _ = hinted(model, (0, 1))
    feed(model, 2, TEXT[:7])
    rows = [Row(2, tokens_of([1])), Row(0, tokens_of([likely]))]
    beside, logits_again = (logits.copy() for logits in model.forward(rows))
    assert close(logits_again, feed(model, 3, [*TEXT[:4], likely]))
    assert model.truncate(3, 0) == 0
    assert close(beside, feed(model, 3, [*TEXT[:7], 1]))
    assert model.truncate(1, 1 << 20) == 4


@pytest.mark.parametrize("length", [4, 3])
def test_what_was_said_to_come_next_is_not_copied(model, close, length):
    hinted(model, (0, 1))
    copied = model.copy(0, 1, length)
    assert copied in (0, length - 1, length)
    fresh = feed(model, 2, [*TEXT[:length], 6])
    for slot, kept in ((1, copied), (0, model.truncate(0, length))):
        assert close(feed(model, slot, [*TEXT[:length], 6][kept:]), fresh)


@pytest.mark.parametrize("name", engines.ARCHITECTURES)
@pytest.mark.parametrize("slots", [(0,), (2, 0), (1, 3, 0, 2)])
def test_several_steps_are_forwards_of_one_token(name, close, slots):
    model = engines.target(name)
    plans = {slot: [*TEXT[slot : slot + 6], slot] for slot in slots}
    for slot in slots:
        feed(model, slot, TEXT[: 3 + slot])
    model.forward([Row(slot, tokens_of([1])) for slot in slots])
    rows_read = []

    def choose(logits):
        rows_read.append([each.copy() for each in logits])
        return [plans[slot][len(rows_read)] for slot in slots] if len(rows_read) < 6 else None

    model.multi_step(slots, [plans[slot][0] for slot in slots], choose)
    texts = {slot: [*TEXT[: 3 + slot], 1, *plans[slot][:6]] for slot in slots}
    assert {slot: model.truncate(slot, 1 << 20) for slot in slots} == {
        slot: len(text) for slot, text in texts.items()
    }
    after = {slot: feed(model, slot, [6]).copy() for slot in slots}
    for at, (slot, text) in enumerate(texts.items()):
        model.truncate(slot, 0)
        again = feed(model, slot, [*text, 6], outputs=7)
        assert close(np.array([step[at] for step in rows_read]), again[:6])
        assert close(after[slot], again[6:])
    model.close()


@pytest.mark.parametrize("name", ["qwen35", "lfm2"])
@pytest.mark.parametrize("back", [1, 2, 3, 4])
def test_snapshots_from_before_several_steps_are_not_taken_for_theirs(name, back, close):
    model, fresh = engines.target(name, slots=1), engines.target(name, slots=1)
    feed(model, 0, TEXT)
    feed(model, 0, [1, 2, 3])
    left = iter([[5], [6], None])
    model.multi_step([0], [4], lambda _: next(left))
    text = [*TEXT, 1, 2, 3, 4, 5, 6]
    text = text[: len(text) - back]
    kept = model.truncate(0, len(text))
    assert close(feed(model, 0, [*text, 2][kept:]), feed(fresh, 0, [*text, 2]))
    model.close()
    fresh.close()


@pytest.mark.parametrize("name", engines.ARCHITECTURES)
@pytest.mark.parametrize("error", [BackendError, KeyError])
def test_an_error_between_two_steps_leaves_what_was_fed(name, close, error):
    model = engines.target(name)
    feed(model, 0, TEXT[:5])
    seen = []

    def choose(logits):
        seen.append(logits)
        if len(seen) == 3:
            raise error("of ours")
        return [2]

    with pytest.raises(error):
        model.multi_step([0], [2], choose)
    text = [*TEXT[:5], 2, 2, 2]
    kept = model.truncate(0, len(text))
    assert close(feed(model, 0, [*text, 6][kept:]), feed(model, 1, [*text, 6]))
    model.close()


def test_steps_into_a_full_context_are_an_error_with_its_size():
    model = engines.target("llama")
    for _ in range(model.context // 64):
        feed(model, 0, [1] * 64)
    model.truncate(0, model.context - 2)
    steps = []
    with pytest.raises(BackendError, match=f"{model.context:,}"):
        model.multi_step([0], [1], lambda _: steps.append(1) or [1])
    assert len(steps) == 2
    assert model.truncate(0, 1 << 20) == model.context
    model.close()


def test_a_batch_that_cannot_be_run_is_an_error_that_leaves_the_slots_usable(close):
    for name in (*engines.ARCHITECTURES, *engines.MLX):
        model = engines.target(name)
        feed(model, 0, TEXT)
        for bad in (
            [Row(0, tokens_of([1] * 65))],
            [Row(0, tokens_of([]), outputs=0)],
            [Row(0, tokens_of([]), outputs=0), Row(1, tokens_of([1]))],
            [Row(0, tokens_of([1, 999_999]))],
            [Row(0, tokens_of([1, -5]))],
            [Row(0, tokens_of([1] * 20), outputs=20)],
        ):
            with pytest.raises(BackendError):
                model.forward(bad)
        kept = model.truncate(0, len(TEXT))
        assert close(feed(model, 0, [*TEXT, 1][kept:]), feed(model, 1, [*TEXT, 1]))
        model.close()


def test_a_full_context_is_an_error_with_its_size():
    for name in ("llama", *engines.there("mlx llama")):
        model = engines.target(name)
        for _ in range(model.context // 64):
            feed(model, 0, [1] * 64)
        with pytest.raises(BackendError, match=f"{model.context:,}"):
            feed(model, 0, [1])
        model.close()


@pytest.mark.parametrize("name", [name for name in MODELS if name not in engines.LATER])
def test_closing_twice_is_safe(name):
    model = MODELS[name]()
    model.close()
    model.close()
