"""Drafts as long as a piece of a prompt on MLX: exact wherever they break off, planned for."""

from __future__ import annotations

import sys
from contextlib import closing
from functools import cache

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx

from localspec.base.errors import BackendError
from localspec.base.tokens import tokens_of
from localspec.core.proposers.head import HeadProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.interfaces.backend import Options, Row
from localspec.interfaces.draft import Draft
from localspec_mlx import backend as mlx
from localspec_mlx.host import Host
from localspec_mlx.outputs import BLOCK, DeviceLogits
from localspec_mlx.runner import WIDE
from tests import engines, tiny_mlx
from tests.backends.test_mlx import cost, recorded
from tests.backends.test_mlx_heads_memory import active
from tests.runs import Want, replies, said

DRAFTED = 300
LONG = {"context": 1024, "batch": 514, "tentative": 512}
PROMPT = [(at * at + at // 7) % 97 + 260 for at in range(90)]
SAMPLINGS = {"greedy": GREEDY, "sampled": Sampling(temperature=0.9, top_k=40)}
# Attention, windows of 16 tokens, a cache in 8 bits, and a hybrid, which goes back to before the
# draft and reads again.
KINDS = {
    "llama": {},
    "gemma3_text": {},
    "llama in 8 bits": {"kv_type": "q8_0"},
    "qwen3_5": {},
}


def loaded(kind, **options):
    return engines.target(f"mlx {kind.split()[0]}", **{**LONG, **KINDS[kind], **options})


class Repeated:
    """A proposer that drafts what texts are known to go on with, but for one token of each."""

    def __init__(self, replies_by_first_token, wrong):
        self.replies = {first: tokens_of(r) for first, r in replies_by_first_token.items()}
        for reply in self.replies.values():
            reply[wrong : wrong + 1] = (reply[wrong : wrong + 1] + 1) % 300
        self.lengths = []

    def propose(self, asks):
        drafts = []
        for ask in asks:
            reply = self.replies[int(ask.history[0])]
            drafts.append(reply[len(ask.history) - ask.prompt :][: ask.limit])
        self.lengths += map(len, drafts)
        return [Draft(tokens, "repeated") for tokens in drafts]

    def release(self, slot):
        pass


def request(sampling, depth=None, tokens=DRAFTED + 2, prompt=PROMPT):
    settings = Settings(
        sampling=SAMPLINGS[sampling], seed=7, max_tokens=tokens, ignore_end=True, depth=depth
    )
    return Want(prompt, settings)


@cache
def plain(kind, sampling):
    with closing(loaded(kind, slots=1)) as model:
        return said(replies(model, Silent(), [request(sampling)]))


@pytest.mark.parametrize(
    ("kind", "sampling"),
    [
        ("llama", "greedy"),
        ("llama", "sampled"),
        ("gemma3_text", "greedy"),
        ("qwen3_5", "sampled"),
        pytest.param("gemma3_text", "sampled", marks=pytest.mark.long),
        pytest.param("qwen3_5", "greedy", marks=pytest.mark.long),
        pytest.param("llama in 8 bits", "greedy", marks=pytest.mark.long),
    ],
)
def test_a_draft_of_300_tokens_changes_nothing_wherever_it_is_rejected(kind, sampling):
    [(_, reply, _)] = plain(kind, sampling)
    with closing(loaded(kind, slots=1)) as model:
        for right in (0, 1, 63, 64, 65, 299, 300):
            drafts = Repeated({PROMPT[0]: reply}, 1 + right)  # the first comes with the prompt
            fast = replies(model, drafts, [request(sampling, DRAFTED)])
            assert said(fast) == plain(kind, sampling)
            assert drafts.lengths[0] == DRAFTED
            assert fast[0].speculation.accepted >= DRAFTED - 1


@pytest.mark.parametrize(
    ("kind", "sampling"), [("llama", "sampled"), ("gemma3_text", "greedy"), ("qwen3_5", "greedy")]
)
def test_long_drafts_of_unequal_lengths_share_a_round(kind, sampling):
    """One slot drafts 300 tokens, others 150, 20 and none; each says what it says alone."""
    wants = [
        request(sampling, depth, tokens=60 + depth, prompt=[first, *PROMPT])
        for first, depth in ((270, 300), (271, 150), (272, 20), (273, 0))
    ]
    with closing(loaded(kind, slots=1)) as model:
        alone = replies(model, Silent(), wants)
    with closing(loaded(kind, slots=4)) as model:
        drafts = Repeated({270 + at: result.tokens for at, result in enumerate(alone)}, 45)
        together = replies(model, drafts, wants)
    assert said(together) == said(alone)
    assert max(drafts.lengths) == 300


@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "qwen3_5"])
def test_a_long_draft_ends_where_the_context_does(kind):
    want = request("greedy", DRAFTED, tokens=DRAFTED + 90)
    fields = {"slots": 1, "context": len(PROMPT) + DRAFTED}
    with closing(loaded(kind, **fields)) as model:
        [full] = replies(model, Silent(), [want])
        drafts = Repeated({PROMPT[0]: full.tokens}, DRAFTED)
        assert said(replies(model, drafts, [want])) == said([full])
        assert len(full.tokens) > DRAFTED - 2
        assert drafts.lengths == [len(full.tokens) - 2]


@pytest.mark.parametrize("kind", ["llama", "gemma3_text", "qwen3_5"])
def test_slots_hold_what_they_were_left_whatever_was_drafted_and_taken_back(kind):
    """Windows of 16 tokens have room for one forward; each row runs beside others, or alone."""
    random = np.random.default_rng(1)
    with closing(loaded(kind, slots=4, context=2048, batch=126, tentative=120)) as model:
        held = {slot: tokens_of([]) for slot in range(3)}
        for _ in range(40):
            rows, left = [], model.batch
            for slot in random.permutation(3)[: random.integers(1, 4)].tolist():
                pending = len(held[slot]) - model.truncate(slot, 1 << 20)
                drafted = min(int(random.choice([0, 1, 7, 17, 120])), left - pending - 2)
                if drafted >= 0:
                    new = random.integers(300, 380, 1 + drafted).astype(np.int32)
                    held[slot] = np.concatenate((held[slot], new))
                    rows.append(
                        Row(slot, held[slot][-pending - 1 - drafted :], 1 + drafted, drafted)
                    )
                    left -= len(rows[-1].tokens)
            model.forward(rows)
            for row in rows:
                kept = len(held[row.slot]) - int(random.integers(row.tentative + 1))
                held[row.slot] = held[row.slot][:kept]
                remaining = model.truncate(row.slot, kept)
                assert remaining == kept or kind == "qwen3_5"
        for slot, text in held.items():
            pending = text[model.truncate(slot, 1 << 20) :]
            again = model.forward([Row(slot, np.append(pending, tokens_of([5])))])[0].copy()
            for start in range(0, len(text), 100):
                model.forward([Row(3, text[start : start + 100], 0)])
            assert np.allclose(again, model.forward([Row(3, tokens_of([5]))])[0], atol=1e-4)
            model.truncate(3, 0)


class InTurns:
    """A proposer that lets a head and others draft in turns."""

    def __init__(self, *proposers):
        self.proposers = proposers
        self.asked = 0

    def propose(self, asks):
        self.asked += 1
        return self.proposers[self.asked % len(self.proposers)].propose(asks)

    def release(self, slot):
        for proposer in self.proposers:
            proposer.release(slot)


@pytest.mark.parametrize("name", ["mlx qwen3_5-mtp", "mlx llama-eagle3", "mlx llama-layerskip"])
def test_a_head_drafts_on_behind_a_long_draft_of_another(name):
    want = request("greedy", 100, tokens=400)
    with closing(engines.target(name, **LONG, slots=1)) as model:
        reply = replies(model, Silent(), [want])
        drafts = Repeated({PROMPT[0]: reply[0].tokens}, 150)
        proposer = InTurns(HeadProposer(model.head, floor=0.0), drafts)
        assert said(replies(model, proposer, [want])) == said(reply)
        assert drafts.lengths[:2] == [100, 100]


def test_a_row_is_padded_by_few_tokens_and_runs_by_itself_beyond():
    model, recorder = recorded("mlx llama", **{**LONG, "batch": 1024})
    for slot in range(4):
        model.forward([Row(slot, tokens_of(PROMPT[:9]))])
    recorder.shapes.clear()
    widths = {0: 300, 1: 290, 2: 1 + WIDE, 3: 1}
    text = np.arange(300, dtype=np.int32)
    model.forward([Row(slot, text[:width], width, width - 1) for slot, width in widths.items()])
    assert recorder.shapes == [(2, 300), (2, 1 + WIDE)]


def on_device(logits):
    """Logits in 16 bits on the device, and the host that reads them."""
    host = Host()
    halves = mx.array(logits).astype(mx.bfloat16)
    kept = DeviceLogits(halves, host, mx.new_thread_local_stream(mx.default_device()))
    kept.finish()
    return kept, host


def test_the_likeliest_tokens_are_those_of_the_rows_and_the_first_of_equals():
    """In 16 bits many of 5,000 logits are equal."""
    logits = np.random.default_rng(0).normal(0, 3, (40, 5000))
    kept, host = on_device(logits)
    likeliest = [kept.best(at) for at in range(len(kept))]
    assert host.reads == 2
    assert likeliest == [int(row.argmax()) for row in kept]
    assert host.reads == 2 + -(-40 // BLOCK)
    assert any((row == row.max()).sum() > 1 for row in kept)
    assert np.array_equal(kept[-1], kept[39])
    assert kept[0].dtype == np.float32


@pytest.mark.parametrize("broken", [np.nan, np.inf])
def test_logits_that_are_no_numbers_are_an_error_of_their_row_alone(broken):
    logits = np.zeros((3, 50))
    logits[1, 7], logits[2, 9] = broken, 1
    kept, _ = on_device(logits)
    assert (kept.best(0), kept.best(2)) == (0, 9)
    with pytest.raises(BackendError, match="for token 7"):
        kept.best(1)


def test_a_forward_waits_for_a_long_draft_and_copies_no_more_than_is_looked_at():
    """So what goes wrong on the device is an error of the forward."""
    with closing(engines.target("mlx llama", **LONG)) as model:
        model.forward([Row(0, tokens_of(PROMPT))])
        row = Row(0, tokens_of([*PROMPT, *PROMPT, *PROMPT]), 270, 269)
        drafts = []
        assert cost(model, lambda: drafts.extend(model.forward([row]))) == (1, 3)
        [logits] = drafts
        assert cost(model, lambda: [logits.best(at) for at in range(270)]) == (0, 0)
        assert cost(model, lambda: [logits[at] for at in range(BLOCK)]) == (0, 1)


WIDE_VOCABULARY = 64_000


def growth(folder, options, width):
    """The most memory that a row takes behind 500 tokens, before its logits are looked at."""
    before, text = active(), np.arange(1024, dtype=np.int32) % 300
    with closing(mlx.load(folder, options)) as model:
        model.forward([Row(0, text[:500], 0)])
        mx.clear_cache()
        mx.reset_peak_memory()
        model.forward([Row(0, text[:width], min(width, options.tentative + 1))])
        return mx.get_peak_memory() - before


@pytest.mark.parametrize(
    "architecture", ["llama", pytest.param("gemma3_text", marks=pytest.mark.long)]
)
def test_the_longest_draft_takes_the_memory_that_was_planned_for_it(architecture, tmp_path):
    size = {"vocab_size": WIDE_VOCABULARY, "hidden_size": 128}
    folder = tiny_mlx.write(tmp_path / "made", architecture, **size)
    tiny_mlx.store_in_16_bits(folder)
    short, long = Options(context=1024), Options(context=1024, batch=514, tentative=512)
    with mlx.rehearse(folder) as rehearsal:
        planned = {options: rehearsal.needs(options).total for options in (short, long)}
    grown = {short: growth(folder, short, 512), long: growth(folder, long, 513)}
    assert grown[long] - grown[short] == pytest.approx(planned[long] - planned[short], 0.06)
    assert grown[long] < planned[long]
