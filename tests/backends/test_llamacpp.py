"""The whole engine on real GGUF models: speculation never changes a token."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing, nullcontext
from dataclasses import replace

import numpy as np
import pytest

import localspec_llamacpp
from localspec.backend import Row
from localspec.engine import Engine
from localspec.errors import ModelFileError, UsageError
from localspec.sampling import Sampling
from localspec.settings import Settings
from localspec.tokens import tokens_of
from localspec_llamacpp.loading import granted_cores
from tests import engines
from tests.runs import Want, converse, replies, said
from tests.statistics import chi_square, limit
from tests.tiny import write_vocabulary

PROPOSERS = ["ngram", "llama", "mamba2", "translated", "llama first-of"]
TEXTS = (
    "the code is the code, and the return is the return of the code",
    "def add(a, b):\n    return a + b\n\ndef add",
    "it was not on the other side; it was on this side of the sea",
    "naïve café 😀 naïve café 😀",
)
ENDINGS = {
    "length": Settings(max_tokens=48, ignore_end=True),
    "end token": Settings(max_tokens=48),
    "stop text": Settings(max_tokens=48, ignore_end=True, stop=("th", "e ", "é")),
}


def wants(model, settings, count):
    return [
        Want(model.tokenizer.encode(text).tolist(), replace(settings, seed=at))
        for at, text in enumerate(TEXTS[:count])
    ]


def run(architecture, name, settings, count, **options):
    """Plain replies one after the other on a fresh model, and speculative ones together."""
    with ExitStack() as stack:
        target = engines.target(architecture, **options)
        stack.callback(target.close)
        requests = wants(target, settings, count)
        silent, _ = engines.proposer("silent", target)
        plain = [replies(target, silent, [want])[0] for want in requests]
        target.close()
        target = engines.target(architecture, **options)
        stack.callback(target.close)
        proposer, models = engines.proposer(name, target)
        for model in models:
            stack.callback(model.close)
        return plain, replies(target, proposer, requests)


@pytest.mark.parametrize("name", PROPOSERS)
@pytest.mark.parametrize("architecture", engines.ARCHITECTURES)
@pytest.mark.parametrize(("count", "slots"), [(1, 1), (2, 1), (4, 4)])
def test_greedy_text_is_the_plain_text(architecture, name, count, slots):
    plain, fast = run(architecture, name, ENDINGS["length"], count, slots=slots)
    assert said(fast) == said(plain)
    assert sum(result.speculation.drafted for result in fast) > 0


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("batch", [10, 64])
@pytest.mark.parametrize("architecture", ["llama", "qwen35", "mamba2"])
def test_every_ending_is_the_plain_ending_in_prompt_chunks_of_any_size(architecture, batch, ending):
    plain, fast = run(architecture, "llama first-of", ENDINGS[ending], 3, batch=batch)
    assert said(fast) == said(plain)


@pytest.mark.parametrize("architecture", ["gemma3", "lfm2"])
def test_a_long_text_that_outgrows_its_windows_stays_the_plain_text(architecture):
    settings = Settings(max_tokens=350, ignore_end=True)
    plain, fast = run(architecture, "llama first-of", settings, 2)
    assert said(fast) == said(plain)


@pytest.mark.parametrize("kv_type", ["q8_0", "q4_0"])
def test_quantised_keys_and_values_give_their_own_plain_text(kv_type):
    plain, fast = run("llama", "ngram", ENDINGS["length"], 1, kv_type=kv_type)
    assert said(fast) == said(plain)


@pytest.mark.parametrize("architecture", engines.ARCHITECTURES)
def test_a_seeded_text_is_the_plain_text_when_drafts_are_looked_up(architecture):
    settings = Settings(max_tokens=40, sampling=Sampling(temperature=1.0, top_p=0.9))
    plain, fast = run(architecture, "ngram", settings, 4)
    assert said(fast) == said(plain)


@pytest.mark.parametrize("architecture", engines.ARCHITECTURES)
@pytest.mark.parametrize("slots", [1, 4])
def test_a_conversation_goes_on_from_what_its_slot_holds(architecture, slots):
    target = engines.target(architecture, slots=slots)
    proposer, _ = engines.proposer("ngram", target)
    engine = Engine(target, proposer)
    prompt = target.tokenizer.encode(TEXTS[0]).tolist()
    for turn in range(3):
        want = Want(prompt, Settings(max_tokens=12))
        [result] = converse(engine, [want])
        with closing(engines.target(architecture)) as fresh:
            [alone] = replies(fresh, proposer, [want])
        assert said([result]) == said([alone])
        assert (result.usage.cached_tokens > 0) == (turn > 0)
        prompt = [*prompt, *result.tokens, *target.tokenizer.encode(" and").tolist()]
    target.close()


NARROW = Sampling(temperature=1.0, top_k=6, top_p=0.8)


def texts_law(model, prompt, length):
    """The law of every text of a few tokens, from the model's own logits."""
    laws = {(): 1.0}
    for _ in range(length):
        longer = {}
        for text, p in laws.items():
            model.truncate(0, 0)
            [logits] = model.forward([Row(0, tokens_of([*prompt, *text]))])
            law = NARROW.distribution(logits[0])
            longer |= {
                (*text, t): p * q for t, q in zip(law.ids.tolist(), law.probs.tolist(), strict=True)
            }
        laws = longer
    model.truncate(0, 0)
    return laws


@pytest.mark.parametrize("name", ["ngram", "llama", "translated"])
def test_sampled_texts_follow_the_targets_law(name):
    target = engines.target("llama")
    prompt = target.tokenizer.encode(TEXTS[0]).tolist()
    law = texts_law(target, prompt, 3)
    proposer, models = engines.proposer(name, target)
    total = 3000
    settings = Settings(max_tokens=3, sampling=NARROW, ignore_end=True)
    results = replies(
        target, proposer, [Want(prompt, replace(settings, seed=seed)) for seed in range(total)]
    )
    counts = Counter(result.tokens for result in results)
    assert sum(result.speculation.drafted for result in results) > 500
    statistic, freedom = chi_square(counts, law, total)
    assert statistic < limit(freedom)
    for model in (target, *models):
        model.close()


def test_a_vocabulary_without_weights_is_not_loaded(tmp_path):
    path = write_vocabulary(tmp_path / "words.gguf")
    with pytest.raises(ModelFileError, match="vocabulary"):
        localspec_llamacpp.load(path, engines.OPTIONS)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"kv_type": "q9"}, "q9"),
        ({"slots": 0}, "slots"),
        ({"threads": 0}, "threads"),
        ({"threads": 100_000}, "threads"),
        ({"gpu_layers": -3}, "gpu_layers"),
        ({"context": 2_000_000_000}, "context"),
        ({"slots": 1000}, "slots"),
        ({"batch": 8, "tentative": 8}, "batch"),
    ],
)
def test_options_that_make_no_sense_are_refused_by_name(options, message):
    with pytest.raises(UsageError, match=message):
        engines.target("llama", **options)


def test_layers_go_to_a_gpu_or_it_is_said_that_there_is_none():
    seen = any("gpu" in device.kind for device in localspec_llamacpp.probe())
    with nullcontext() if seen else pytest.raises(UsageError, match="sees no GPU"):
        engines.target("llama", gpu_layers=3).close()


def test_the_devices_include_the_processor_with_its_memory():
    kinds = {device.kind: device for device in localspec_llamacpp.probe()}
    assert 0 < kinds["cpu"].free_bytes <= kinds["cpu"].total_bytes


def test_tokens_give_back_the_text_whatever_its_script():
    model = engines.target("llama")
    for text in (*TEXTS, "", "Ω≈ç√ 漢字 \u202e \x00 end", "\r\n\t  ", "a" * 3000):
        tokens = model.tokenizer.encode(text)
        assert b"".join(map(model.tokenizer.token_bytes, tokens.tolist())) == text.encode()
    model.close()


def test_control_tokens_are_read_only_where_they_are_meant():
    model = engines.target("llama")
    [end] = model.tokenizer.encode("<|im_end|>", special=True).tolist()
    assert end in model.tokenizer.ends
    assert model.tokenizer.token_bytes(end) == b""
    assert model.tokenizer.token_text(end) == "<|im_end|>"
    assert end not in model.tokenizer.encode("<|im_end|>").tolist()
    model.close()


def test_logits_are_views_of_the_engines_own_memory():
    model = engines.target("llama")
    [first] = model.forward([Row(0, tokens_of([1, 2, 3]))])
    before = first.copy()
    [second] = model.forward([Row(0, tokens_of([4]))])
    assert not first.flags.owndata
    assert np.shares_memory(first, second)
    assert not np.array_equal(before, second)
    model.close()


def test_a_draft_model_is_not_asked_beyond_what_it_was_trained_for():
    with closing(engines.draft("llama", context=5000, slots=1)) as model:
        assert model.context == 4096
    with closing(engines.target("llama", context=5000, slots=1)) as model:
        assert model.context == 5000


def test_a_draft_model_that_agrees_saves_forwards():
    plain, fast = run("llama", "llama", ENDINGS["length"], 1)
    assert fast[0].speculation.rounds < 0.7 * plain[0].speculation.rounds


@pytest.mark.parametrize(
    ("files", "cores"),
    [
        ({"cpu.max": "200000 100000"}, 2),
        ({"cpu.max": "50000 100000"}, 1),
        ({"cpu.max": "max 100000"}, 1 << 16),
        ({"cpu/cpu.cfs_quota_us": "350000", "cpu/cpu.cfs_period_us": "100000"}, 3),
        ({"cpu/cpu.cfs_quota_us": "-1", "cpu/cpu.cfs_period_us": "100000"}, 1 << 16),
        ({"cpu.max": "nonsense"}, 1 << 16),
        ({}, 1 << 16),
    ],
)
def test_a_container_gets_no_more_threads_than_it_was_granted_cores(tmp_path, files, cores):
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    assert granted_cores(tmp_path) == cores
