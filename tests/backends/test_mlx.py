"""The parts that only MLX has: how often Python waits, caches of models, options and adapters."""

from __future__ import annotations

import os
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from functools import partial
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from localspec.base.errors import BackendError, ModelFileError, UsageError
from localspec.base.tokens import tokens_of
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.settings import Settings
from localspec.core.sampling.banned import Bans
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.core.sampling.sampler import Sampler, SamplerParts
from localspec.interfaces.adapter import Adapter
from localspec.interfaces.backend import Roll, Row
from localspec.interfaces.forward_loop import roll_by_forward
from localspec.interfaces.testing import Alphabet
from tests import engines
from tests.runs import TEXTS, Want, replies, said

pytestmark = pytest.mark.skipif(not engines.MLX, reason="there is no MLX for this system")
if engines.MLX:
    import mlx.core as mx
    from mlx_lm.utils import load_model

    from localspec_mlx import backend as mlx
    from localspec_mlx.loading import slack
    from localspec_mlx.model import MlxModel
    from localspec_mlx.predict import Choice, predict
    from localspec_mlx.slots import ANCHORS
    from localspec_mlx.trial import proven

PROMPT = tokens_of([5, 3, 1, 4, 1, 5, 2, 6])
SAMPLINGS = {
    "greedy": GREEDY,
    "everything": Sampling(temperature=0.9),
    "top-k": Sampling(temperature=1.2, top_k=20),
    "top-p": Sampling(temperature=1.0, top_p=0.8),
    "min-p": Sampling(temperature=1.5, min_p=0.05),
    "all of them": Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.02),
}
SHIFTED = {
    "repetition": Sampling(repetition=1.3),
    "Qwen2.5": Sampling(temperature=0.7, top_p=0.8, top_k=20, repetition=1.05),
    "presence and frequency": Sampling(temperature=0.9, presence=0.7, frequency=0.4),
    "window": Sampling(temperature=0.9, repetition=1.3, frequency=0.4, penalty_window=5),
    "bias": Sampling(bias={3: 4.0, 5: -100.0}),
}
ALL = SAMPLINGS | SHIFTED


class Recorder:
    """A network that keeps the shape of what it is given, and fails when told to."""

    def __init__(self, network):
        self.network = network
        self.shapes = []
        self.fails = False

    def __call__(self, tokens, cache):
        self.shapes.append(tokens.shape)
        if self.fails:
            raise RuntimeError("[metal::malloc] attempting to allocate 9 GB")
        return self.network(tokens, cache=cache)


def recorded(name, **options):
    """A model, and what its network is given."""
    wishes = replace(engines.OPTIONS, threads=None, **options)
    with closing(engines.target(name)) as model:
        tokenizer = model.tokenizer
    network, _ = load_model(engines.tiny_folder(name[4:]))
    fits = proven(network, slack(wishes), wishes.slots)
    recorder = Recorder(network)
    return MlxModel(replace(fits, model=recorder), tokenizer, wishes), recorder


def cost(model, work):
    """Evaluations and transfers that some work takes."""
    before = model.host.evaluations, model.host.reads
    work()
    return model.host.evaluations - before[0], model.host.reads - before[1]


class Diary:
    """A host that writes down in which order it is used."""

    def __init__(self, host):
        self.host, self.lines = host, []

    def start(self, *arrays):
        self.lines.append("start")
        self.host.start(*arrays)

    def read(self, array):
        self.lines.append("read")
        return self.host.read(array)


@pytest.mark.parametrize("name", engines.MLX)
@pytest.mark.parametrize("slots", [1, 4])
def test_a_verification_takes_one_evaluation_and_one_transfer(name, slots):
    with closing(engines.target(name)) as model:
        for slot in range(slots):
            model.forward([Row(slot, PROMPT[: 4 + slot])])
        rows = [Row(slot, PROMPT[: 5 - slot], 5 - slot, 4 - slot) for slot in range(slots)]
        assert cost(model, lambda: model.forward(rows)) == (1, 1)


@pytest.mark.parametrize("name", engines.there("mlx llama", "mlx qwen3_5"))
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(0.9, top_k=20), *SHIFTED.values()])
def test_each_drafted_token_is_looked_at_while_the_next_is_computed(name, sampling):
    with closing(engines.draft(name)) as model:
        for depth in (1, 4, 8):
            sampler = Sampler(sampling, 3, PROMPT)
            roll = Roll(Row(0, PROMPT), depth, sampler, len(PROMPT))
            model.host = Diary(model.host)
            model.roll([roll])
            reads = ["read", "read"]  # of logits and tokens
            assert model.host.lines == ["start", *(depth - 1) * ["start", *reads], *reads]
            model.truncate(0, 0)


@pytest.mark.parametrize("sampling", ALL.values(), ids=ALL)
@pytest.mark.parametrize("name", engines.there("mlx llama", "mlx qwen3_5"))
def test_plain_decoding_never_lets_the_device_wait(name, sampling):
    """Each token is asked for before the one before it is known."""
    with closing(engines.target(name)) as model:
        engine, heard = Engine(model, Silent(), 0), []
        settings = Settings(max_tokens=60, sampling=sampling, seed=5, ignore_end=True)
        engine.add(engine.prepare(PROMPT, settings, heard.append))
        engine.step()

        def finish():
            while engine.busy:
                engine.step()

        assert cost(model, finish) == (58, 118)
        assert len(heard[-1].tokens) == 60


@pytest.mark.parametrize("name", engines.there("mlx llama", "mlx qwen3_5", "mlx nemotron_h"))
@pytest.mark.parametrize("sampling", [GREEDY, Sampling(0.9), SHIFTED["Qwen2.5"]])
def test_what_is_begun_ahead_leaves_no_trace(name, sampling):
    """Texts end, others begin, and each says what it says alone."""
    settings = Settings(sampling=sampling, seed=7, ignore_end=True, depth=0)
    wants = [
        Want([at, *PROMPT.tolist()], replace(settings, max_tokens=4 + 4 * at)) for at in range(6)
    ]
    with closing(engines.target(name, slots=3)) as model:
        together = replies(model, Silent(), wants)
    unforeseen = [replace(want, settings=replace(want.settings, depth=1)) for want in wants]
    with closing(engines.target(name, slots=1)) as model:
        alone = replies(model, Silent(), unforeseen)
    assert said(together) == said(alone)


@pytest.mark.parametrize("sampling", SAMPLINGS.values(), ids=SAMPLINGS)
def test_the_token_foretold_is_the_token_chosen(sampling):
    rng = np.random.default_rng(1)
    logits = rng.normal(0, 3, (300, 700)).astype(np.float32)
    samplers = [Sampler(sampling, seed, PROMPT) for seed in range(300)]
    choices = [Choice(sampler, 11) for sampler in samplers]
    foretold = predict(mx.array(logits), choices).tolist()
    chosen = [
        sampler.distribution(row).draw(sampler.dice, 11)
        for sampler, row in zip(samplers, logits, strict=True)
    ]
    assert sum(a != b for a, b in zip(foretold, chosen, strict=True)) <= 1


@pytest.mark.parametrize("sampling", SHIFTED.values(), ids=SHIFTED)
@pytest.mark.parametrize("newer", [0, 1, 7])
def test_the_device_counts_tokens_that_nobody_else_has_seen(sampling, newer):
    """Few tokens, so that the drawn ones are those of the text, again and again."""
    rng = np.random.default_rng(newer)
    rows, words = 60, 12
    drawn = rng.integers(0, words, (rows, 10 + newer))
    logits = rng.normal(0, 1, (rows, words)).astype(np.float32)
    samplers = [Sampler(sampling, seed, PROMPT) for seed in range(rows)]
    choices, chosen = list[Choice](), list[int]()
    unknown = tuple(mx.array(column) for column in drawn[:, 10:].T)
    for at, (sampler, tokens) in enumerate(zip(samplers, drawn.tolist(), strict=True)):
        sampler.emit(tokens[:6])
        choices.append(Choice(sampler, 30 + newer, tokens[6:10], unknown, at))
        law = sampler.distribution(logits[at], tokens[6:])
        chosen.append(law.draw(sampler.dice, 30 + newer))
    assert predict(mx.array(logits), choices).tolist() == chosen


def test_the_device_draws_no_banned_token_and_no_end_too_soon():
    words = Alphabet([b"a", b"b", b"ab", b"c", b"ca", b"b", b" ", b""], ends=[7])
    rng = np.random.default_rng(4)
    logits = rng.normal(0, 1, (80, words.size)).astype(np.float32)
    ban = partial(Bans(words).ban, ("ab", "cc"))
    parts = [SamplerParts(ban=ban(), ends=words.ends, min_tokens=2 + at % 4) for at in range(80)]
    sampling = Sampling(temperature=1.2, bias={0: 1.5, 7: 2.0})
    samplers = [Sampler(sampling, at, PROMPT, part) for at, part in enumerate(parts)]
    for at, sampler in enumerate(samplers):
        sampler.emit([0, 3][at % 2 :])
    choices = [Choice(sampler, 9, [6, 3][at % 3 :]) for at, sampler in enumerate(samplers)]
    chosen = [
        choice.sampler.distribution(row, choice.drafted).draw(choice.sampler.dice, 9)
        for choice, row in zip(choices, logits, strict=True)
    ]
    assert predict(mx.array(logits), choices).tolist() == chosen
    assert {2, 7} <= {*logits.argmax(1).tolist()}


class Contrary(Sampler):
    """Samples the least likely token, which no draft contains."""

    def distribution(self, logits, drafted=()):
        return super().distribution(-logits, drafted)


@pytest.mark.parametrize("name", engines.there("mlx llama", "mlx qwen3_5"))
def test_tokens_foretold_wrongly_are_thrown_away(name):
    rolls = [Roll(Row(0, PROMPT), 5, Contrary(GREEDY, 3, PROMPT), len(PROMPT))]
    with closing(engines.draft(name)) as model:
        [rolled] = model.roll(rolls)
        assert model.truncate(0, 1 << 20) == len(PROMPT) + 4
        model.truncate(0, 0)
        [stepped] = roll_by_forward(model, rolls)
    assert rolled.tokens.tolist() == stepped.tokens.tolist()


@pytest.mark.parametrize("length", [8, 10, 17, 19])
def test_a_long_roll_can_be_taken_back_to_any_of_its_tokens(length):
    with closing(engines.draft("mlx qwen3_5", tentative=16)) as model:
        model.roll([Roll(Row(0, PROMPT), 12, Sampler(GREEDY, 3, PROMPT), len(PROMPT))])
        assert model.truncate(0, length) == length


def test_rows_run_together_and_idle_slots_do_not_run():
    model, recorder = recorded("mlx llama")
    for slot in range(4):
        model.forward([Row(slot, PROMPT)])
    recorder.shapes.clear()
    model.forward([Row(1, PROMPT[:5], 5, 4), Row(3, PROMPT[:1]), Row(0, PROMPT[:3], 3, 2)])
    model.forward([Row(2, PROMPT[:1])])
    assert recorder.shapes == [(3, 5), (1, 1)]


def test_a_prompt_is_read_by_itself_beside_replies():
    model, recorder = recorded("mlx llama")
    model.forward([Row(0, PROMPT)])
    recorder.shapes.clear()
    model.forward([Row(0, PROMPT[:1]), Row(1, tokens_of(list(range(40))))])
    assert recorder.shapes == [(1, 39), (2, 1)]


@pytest.mark.parametrize("name", engines.there("mlx llama", "mlx qwen3_5"))
def test_four_requests_at_once_take_fewer_runs_than_one_after_the_other(name):
    def run(slots):
        model, recorder = recorded(name, slots=slots)
        proposer, helpers = engines.proposer("mlx llama", model)
        wants = [
            Want(model.tokenizer.encode(text).tolist(), Settings(max_tokens=16, ignore_end=True))
            for text in TEXTS
        ]
        results = replies(model, proposer, wants)
        for each in (model, *helpers):
            each.close()
        return said(results), len(recorder.shapes)

    (one_by_one, turns), (together, runs) = run(1), run(4)
    assert together == one_by_one
    assert runs < 0.6 * turns


def test_padding_enters_no_state_even_where_a_definition_lets_it():
    """mlx-lm's nemotron_h masks padding in its convolution alone: unequal rows run apart."""
    model, recorder = recorded("mlx nemotron_h")
    for slot in range(3):
        model.forward([Row(slot, PROMPT)])
    recorder.shapes.clear()
    model.forward([Row(0, PROMPT[:2]), Row(1, PROMPT[:3]), Row(2, PROMPT[:2])])
    assert sorted(recorder.shapes) == [(1, 3), (2, 2)]


class Particular:
    """A network that is right with one kind of cache only."""

    def __init__(self, network):
        self.network = network
        self.make_cache = network.make_cache

    def __call__(self, tokens, cache):
        logits = self.network(tokens, cache=cache)
        return logits if type(cache[0]).__module__.startswith("mlx_lm") else -logits


def test_a_network_that_is_wrong_with_our_caches_runs_with_those_of_mlx_lm():
    network, _ = load_model(engines.tiny_folder("qwen3_5"))
    assert proven(network, 8, 2).own
    assert not proven(Particular(network), 8, 2).own


def test_a_failure_of_the_engine_is_an_error_and_costs_only_its_slots():
    model, recorder = recorded("mlx llama")
    expected = model.forward([Row(2, PROMPT)])[0].copy()
    model.truncate(2, 7)
    model.forward([Row(0, PROMPT)])
    recorder.fails = True
    with pytest.raises(BackendError, match="9 GB"):
        model.forward([Row(0, PROMPT[:1]), Row(1, PROMPT)])
    recorder.fails = False
    assert model.truncate(0, 8) == model.truncate(1, 8) == 0
    assert np.allclose(model.forward([Row(2, PROMPT[7:])])[0], expected, atol=1e-4)


@pytest.mark.parametrize("name", engines.there("mlx qwen3_5", "mlx mamba2"))
def test_a_recurrent_slot_goes_back_to_where_its_prompt_ended(name):
    long = tokens_of([at % 7 for at in range(60)])
    with closing(engines.target(name)) as model:
        model.forward([Row(0, long)])
        for token in range(30):
            model.forward([Row(0, tokens_of([token]))])
        assert model.copy(0, 1, 59) == 59
        assert model.truncate(0, 70) == 59
        again, copied = (model.forward([Row(slot, long[59:])])[0].copy() for slot in (0, 1))
        assert np.allclose(again, copied, atol=1e-5)


@pytest.mark.parametrize("length", [20, 25, 26, 30, 60])
def test_what_a_window_forgot_stays_forgotten_when_tokens_were_taken_back_since(length):
    """140 tokens were written over 128 cells; that the slot holds 131 by now brings none back."""
    text = tokens_of([(at * at + at // 7) % 6 for at in range(140)])
    with closing(engines.target("mlx gemma3_text")) as model:
        for start in range(0, 140, 35):
            model.forward([Row(0, text[start : start + 35], 0)])
        assert model.truncate(0, 130) == 130
        model.forward([Row(0, text[:1])])
        kept = model.truncate(0, length)
        assert kept in (0, length)
        again = model.forward([Row(0, text[kept : length + 1])])[0].copy()
        assert np.allclose(again, model.forward([Row(1, text[: length + 1])])[0], atol=1e-4)


@pytest.mark.parametrize("name", engines.there("mlx qwen3_5", "mlx mamba2", "mlx lfm2"))
def test_a_rejection_costs_a_recurrent_slot_its_last_row_and_no_more(name):
    with closing(engines.target(name)) as model:
        model.forward([Row(0, tokens_of(list(range(30))))])
        model.forward([Row(0, PROMPT[:5], 5, 4)])
        assert model.truncate(0, 33) == 30


def test_a_copy_of_a_window_knows_what_was_forgotten():
    text = tokens_of([at % 7 for at in range(140)])
    with closing(engines.target("mlx gemma3_text")) as model:
        for start in range(0, 140, 35):
            model.forward([Row(0, text[start : start + 35], 0)])
        assert model.copy(0, 1, 140) == 140
        assert [model.truncate(1, length) for length in (130, 20)] == [130, 0]


def continues_like_a_fresh_slot(model, text, length):
    """Tell whether slot 0 goes back to `length` and on as if nothing else had ever been there."""
    kept = model.truncate(0, length)
    assert 0 <= kept <= length
    again = model.forward([Row(0, text[kept : length + 1])])[0].copy()
    for start in range(0, length + 1, 16):
        [fresh] = model.forward([Row(1, text[start : min(start + 16, length + 1)])])
    return np.allclose(again, fresh, atol=1e-4)


@pytest.mark.parametrize("name", engines.there("mlx qwen3_5", "mlx mamba2"))
def test_a_mark_of_another_text_is_not_returned_to(name):
    with closing(engines.draft(name)) as model:
        sampler = Sampler(GREEDY, 0, PROMPT)
        model.roll([Roll(Row(0, PROMPT), 5, sampler, 8)])
        assert model.truncate(0, 9) == 9
        [draft] = model.roll([Roll(Row(1, PROMPT), 2, sampler, 8)])
        model.truncate(1, 0)
        text = np.concatenate((PROMPT, draft.tokens[:1], tokens_of([6, 5, 4, 3])))
        model.forward([Row(0, text[9:12])])
        assert continues_like_a_fresh_slot(model, text, 10)


@pytest.mark.parametrize("name", engines.there("mlx qwen3_5", "mlx mamba2"))
def test_an_anchor_of_another_text_is_not_returned_to(name):
    first, second = (tokens_of([(at * at + more) % 7 for at in range(60)]) for more in (0, 3))
    text = np.concatenate((first[:19], second[:41]))
    with closing(engines.target(name)) as model:
        model.forward([Row(0, first[:20])])
        model.forward([Row(0, first[20:40])])
        assert model.truncate(0, 19) == 19
        for at in range(19, 50):
            model.forward([Row(0, text[at : at + 1])])
        assert continues_like_a_fresh_slot(model, text, 42)


def test_marks_do_not_pile_up():
    with closing(engines.target("mlx qwen3_5", slots=1)) as model:
        sizes = []
        for _ in range(6):
            for _ in range(10):
                model.forward([Row(0, PROMPT[:3], 3, 2)])
                model.truncate(0, model.truncate(0, 1 << 20) - 1)
            model.truncate(0, 0)
            mx.clear_cache()
            sizes.append(mx.get_active_memory())
        assert sizes[-1] <= sizes[1] + (1 << 16)
        assert ANCHORS <= 4


def test_an_emptied_slot_gives_its_memory_back_though_it_ran_beside_others():
    with closing(engines.target("mlx llama")) as model:
        for start in range(0, 480, 15):
            tokens = tokens_of([(start + at) % 7 for at in range(15)])
            model.forward([Row(slot, tokens) for slot in range(4)])
        mx.clear_cache()
        full = mx.get_active_memory()
        model.forward([Row(0, PROMPT[:1])])
        for slot in (1, 2):
            model.truncate(slot, 0)
        model.forward([Row(0, PROMPT[:1])])
        of_two = 2 * 3 * 2 * 512 * 32 * 4  # layers, keys and values, cells, width, bytes
        assert mx.get_active_memory() < full - 0.8 * of_two


def test_memory_is_given_back_on_closing():
    before = mx.get_active_memory()
    model = engines.target("mlx llama")
    for slot in range(4):
        model.forward([Row(slot, PROMPT)])
    assert mx.get_active_memory() > before + (1 << 18)
    model.close()
    assert mx.get_active_memory() <= before + (1 << 16)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kv_type": "f16"}, "f16"),
        ({"gpu_layers": 3}, "gpu_layers"),
        ({"threads": 2}, "threads"),
        ({"threads_batch": 2}, "threads_batch"),
        ({"micro_batch": 2}, "micro_batch"),
        ({"split_mode": "row"}, "split_mode"),
        ({"mlock": True}, "mlock"),
        ({"direct_io": True}, "direct_io"),
        ({"flash_attention": True}, "flash_attention"),
        ({"adapters": (Adapter(Path("nowhere")),)}, "nowhere"),
        ({"projector": Path("mmproj.gguf")}, "sees by its own tower"),
        ({"projector_on_host": True}, "projector_on_host"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options, message):
    wishes = replace(engines.OPTIONS, **{"threads": None, **options})
    with pytest.raises((UsageError, ModelFileError), match=message):
        mlx.load(engines.tiny_folder("llama"), wishes)


def test_attention_with_sinks_says_that_it_cannot_be_quantised():
    with pytest.raises(UsageError, match="sinks"):
        engines.target("mlx gpt_oss", kv_type="q8_0")


def test_the_device_has_a_name_and_memory():
    [device] = mlx.probe()
    assert device.name
    assert 0 < device.free_bytes <= device.total_bytes


def test_what_was_chosen_is_told_on_request(capfd):
    engines.target("mlx nemotron_h", verbose=True).close()
    assert "even" in capfd.readouterr().err
    engines.target("mlx nemotron_h").close()
    assert capfd.readouterr().err == ""


def test_evaluations_of_many_kinds_do_not_end_a_program_on_cuda():
    """MLX counts them in the lifetime of a process, and raises where nobody can catch it."""
    assert os.environ["MLX_ENABLE_CACHE_THRASHING_CHECK"] == "0"


def test_lengths_are_told_without_waiting():
    with closing(engines.target("mlx llama")) as model:
        model.forward([Row(0, PROMPT)])
        held = [model.truncate(0, length) for length in (9, 8, 7, 6)]
        assert held == [8, 8, 7, 6]
        assert all(a >= b for a, b in pairwise(held))


def test_what_chooses_its_depth_pipelines_too_where_nothing_pays():
    with closing(engines.target("mlx llama", slots=1)) as model:
        best = Best({"silent": Silent()}, Depth())
        engine, heard = Engine(model, best, 8, parts=EngineParts(best.depth.costs)), []
        settings = Settings(max_tokens=60, ignore_end=True)
        engine.add(engine.prepare(PROMPT, settings, heard.append))
        while len(engine.jobs) == 0 or len(engine.jobs[0].generation.history) < 40:
            engine.step()
        assert cost(model, engine.step) == (1, 2)


@pytest.mark.long
def test_a_program_that_used_it_ends_as_it_should():
    """MLX ends a program with an error if a thread left its streams behind."""
    code = (
        "import sys; import localspec; from localspec import Loading, Options, Settings\n"
        "loading = Loading(Options(context=256), 'none', 0)\n"
        "with localspec.load(sys.argv[1], loading=loading) as model:\n"
        "    print(len(model.generate('the', Settings(max_tokens=2, ignore_end=True)).tokens))\n"
    )
    command = [sys.executable, "-c", code, str(engines.tiny_folder("llama"))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "2\n"), done.stderr


@pytest.mark.parametrize("name", engines.there("mlx qwen3_moe", "mlx gemma3_text", "mlx qwen3_5"))
def test_the_length_of_pieces_changes_no_logits_but_by_rounding(name):
    text = tokens_of(np.random.default_rng(1).integers(300, 380, 300).tolist())
    wide = replace(engines.OPTIONS, threads=None, batch=320, tentative=8)
    with closing(engines.mlx.load(engines.tiny_folder(name[4:]), wide)) as model:

        def last_logits(piece):
            model.truncate(0, 0)
            for at in range(0, len(text) - 1, piece):
                model.forward([Row(0, text[:-1][at : at + piece], outputs=0)])
            return model.forward([Row(0, text[-1:])])[0][0].copy()

        whole = last_logits(len(text))
        np.testing.assert_allclose(last_logits(96), whole, rtol=0, atol=1e-4 * whole.std())


@pytest.mark.parametrize("name", engines.there("mlx llama", "mlx qwen3_5"))
def test_a_piece_of_a_prompt_is_waited_for_and_a_token_is_not_twice(name):
    with closing(engines.target(name)) as model:
        long = tokens_of([300] * 30)
        assert cost(model, lambda: model.forward([Row(0, long, outputs=0)])) == (2, 1)
        assert cost(model, lambda: model.forward([Row(0, long)])) == (1, 1)
        assert cost(model, lambda: model.forward([Row(0, long, outputs=0), Row(1, long)])) == (1, 1)
