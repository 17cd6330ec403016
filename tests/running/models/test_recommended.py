"""The sampling that a model is asked with where nobody chose one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localspec.core.sampling.default_sampling import NOBODY, USUAL, UsualSampling, below
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.interfaces.footprint import Footprint
from localspec.running.models.recommended import base_of, usual_sampling

QWEN_CODER = Sampling(temperature=0.7, top_p=0.8, top_k=20, repetition=1.05)
COUNTS = dict.fromkeys(
    ("file_bytes", "weight_bytes", "layers", "heads", "kv_heads", "embedding", "vocabulary"), 1
)
PLAIN = Footprint(
    Path("a.gguf"), "qwen2", "Tiny", "Q8_0", context=4096, tokenizer="", chat_template="", **COUNTS
)


def test_a_file_by_path_takes_what_its_family_has_in_the_catalogue():
    for names in (
        {"basename": "Qwen2.5-Coder", "name": "whatever"},
        {"name": "Qwen2.5 Coder 0.5B Instruct AWQ"},
        {"name": "Qwen2.5-Coder-3B-Instruct-4bit"},  # a folder; that size is not listed
    ):
        usual = usual_sampling("", replace(PLAIN, **names))
        assert usual.sampling == QWEN_CODER
        assert usual.source == "as the makers of qwen2.5-coder-0.5b advise"


def test_a_named_model_takes_what_the_catalogue_says_of_it():
    usual = usual_sampling("gemma-3-4b:q4_0", replace(PLAIN, sampling={"top_k": 5}))
    assert usual.sampling == Sampling(temperature=1.0, top_p=0.95, top_k=64)


def test_what_files_advise_goes_before_their_family():
    footprint = replace(PLAIN, basename="Qwen2.5-Coder", sampling={"temperature": 0.3})
    usual = usual_sampling("", footprint)
    assert usual.sampling == replace(USUAL, temperature=0.3)
    assert usual.source == "as its files advise"


def test_an_order_of_samplers_in_a_file_is_heeded():
    order = "penalties;top_k;unheard_of;top_p;min_p;temperature;top_k"
    usual = usual_sampling("", replace(PLAIN, samplers=order, sampling={"temperature": 0.3}))
    expected = replace(USUAL, temperature=0.3)
    names = ("penalties", "top_k", "top_p", "min_p", "temperature")
    assert usual.sampling == replace(expected, samplers=names)
    assert usual_sampling("", replace(PLAIN, samplers="kpt")).sampling.samplers == (
        "top_k",
        "top_p",
        "temperature",
    )
    assert usual_sampling("", replace(PLAIN, samplers="unheard_of")) == NOBODY


@pytest.mark.parametrize("values", [{"top_p": 7.0}, {"top_k": float("nan")}, {"colour": 1.0}, {}])
def test_files_that_advise_nonsense_are_not_heeded(values):
    assert usual_sampling("", replace(PLAIN, sampling=values)) == NOBODY


def test_a_model_that_nobody_knows_is_asked_as_by_ollama_and_llama_cpp():
    assert usual_sampling("", PLAIN) == NOBODY
    assert NOBODY.sampling == Sampling(temperature=0.8, top_k=40, top_p=0.95, min_p=0.05)
    listed_without = usual_sampling("smolvlm2-500m", PLAIN)
    assert listed_without == NOBODY


def test_one_that_does_not_reason_takes_nothing_from_a_family_that_does():
    instruct = replace(PLAIN, basename="Qwen3", chat_template="{{ messages }}")
    assert usual_sampling("", instruct) == NOBODY
    thinker = replace(instruct, chat_template="{% if enable_thinking %}<think>{% endif %}")
    assert usual_sampling("", thinker).sampling.temperature == 0.6


def test_names_are_compared_without_sizes():
    assert base_of("Meta Llama 3.1 8B Instruct") == base_of("Llama-3.1") == "llama-3.1"
    assert base_of("google/gemma-4-E4B-it") == "gemma-4"
    assert base_of("Mixtral-8x7B-v0.1") == "mixtral"
    assert base_of("Qwen3.5-4B") != base_of("Qwen3-4B")
    assert base_of("") == ""


def test_greedy_text_is_the_models_own_without_penalties_of_its_makers():
    assert below(QWEN_CODER, 0) is GREEDY
    assert below(QWEN_CODER, None) is below(QWEN_CODER, 0.5) is QWEN_CODER


def test_the_sampling_is_told_in_one_line():
    described = (
        "temperature 0.7, top-k 20, top-p 0.8, repetition-penalty 1.05 (as its makers advise)"
    )
    assert str(UsualSampling(QWEN_CODER, "as its makers advise")) == described
    assert str(UsualSampling(GREEDY, "by hand")) == "greedy (by hand)"
