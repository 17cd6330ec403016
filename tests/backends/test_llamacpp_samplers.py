"""Samplers beside llama.cpp's own, on the same logits and the same text."""

from __future__ import annotations

import ctypes
import random

import llama_cpp.llama_cpp as lib
import numpy as np
import pytest

from localspec.base.tokens import tokens_of
from localspec.core.sampling.parameters import Sampling
from localspec.core.sampling.sampler import Sampler, SamplerParts
from localspec_llamacpp import backend as llamacpp
from tests.tiny import write_vocabulary

SIZE = 384
FIRST = 300  # a prompt of one token, which does not come again
TEXT = [*b"ab\ncab", *b"abcabcaezqabcab"]  # tokens of one byte have its number
CUTS = ("top_n_sigma", "top_k", "typ_p", "top_p", "min_p", "xtc", "temperature")
USUAL = ("penalties", "dry", *CUTS)
COOLED = ("temperature", "mirostat")
NO_TEXTS = (ctypes.c_char_p * 1)()


@pytest.fixture(scope="module")
def vocabulary(tmp_path_factory):
    llamacpp.probe()
    path = write_vocabulary(tmp_path_factory.mktemp("vocabulary") / "vocabulary.gguf")
    params = lib.llama_model_default_params()
    params.vocab_only = True
    model = lib.llama_model_load_from_file(str(path).encode(), params)
    yield lib.llama_model_get_vocab(model)
    lib.llama_model_free(model)


def breakers(s):
    texts = [text.encode() for text in s.dry_breakers]
    return ((ctypes.c_char_p * len(texts))(*texts) if texts else NO_TEXTS), len(texts)


def theirs(name, s, vocabulary):
    """One of llama.cpp's samplers, with our parameters."""
    match name:
        case "penalties":
            numbers = (s.repetition, s.frequency, s.presence)
            return lib.llama_sampler_init_penalties(SIZE, s.penalty_window, *numbers)
        case "dry":
            numbers = (s.dry_multiplier, s.dry_base, s.dry_allowed_length, s.dry_window)
            return lib.llama_sampler_init_dry(vocabulary, *numbers, *breakers(s))
        case "top_n_sigma":
            return lib.llama_sampler_init_top_n_sigma(s.top_n_sigma)
        case "top_k":
            return lib.llama_sampler_init_top_k(s.top_k)
        case "typ_p":
            return lib.llama_sampler_init_typical(s.typical, 0)
        case "top_p":
            return lib.llama_sampler_init_top_p(s.top_p, 0)
        case "min_p":
            return lib.llama_sampler_init_min_p(s.min_p, 0)
        case "xtc":
            return lib.llama_sampler_init_xtc(s.xtc_probability, s.xtc_threshold, 0, 1)
        case "temperature":
            numbers = (s.temperature, s.dynatemp_range, s.dynatemp_exponent)
            return lib.llama_sampler_init_temp_ext(*numbers)
        case "mirostat":
            if s.mirostat == 1:
                return lib.llama_sampler_init_mirostat(SIZE, 1, s.mirostat_tau, s.mirostat_eta, 100)
            return lib.llama_sampler_init_mirostat_v2(1, s.mirostat_tau, s.mirostat_eta)
        case "adaptive_p":
            return lib.llama_sampler_init_adaptive_p(s.adaptive_target, s.adaptive_decay, 1)
        case "draw":
            return lib.llama_sampler_init_dist(1)
    raise AssertionError(name)


class TheirChain:
    """A chain of llama.cpp's samplers that has read a text."""

    def __init__(self, names, s, vocabulary, text):
        self._chain = lib.llama_sampler_chain_init(lib.llama_sampler_chain_default_params())
        for name in names:
            lib.llama_sampler_chain_add(self._chain, theirs(name, s, vocabulary))
        self.read(text)

    def read(self, text):
        for token in text:
            lib.llama_sampler_accept(self._chain, token)

    def distribution(self, logits):
        """What the chain leaves of the logits, and the token that it drew."""
        data = (lib.llama_token_data * SIZE)(
            *(lib.llama_token_data(token, logit, 0) for token, logit in enumerate(logits.tolist()))
        )
        left = lib.llama_token_data_array(data, SIZE, -1, False)
        lib.llama_sampler_apply(self._chain, ctypes.byref(left))
        probs = {left.data[at].id: left.data[at].p for at in range(left.size)}
        return {t: p for t, p in probs.items() if p > 0}, left.data[left.selected].id

    def close(self):
        lib.llama_sampler_free(self._chain)


def ours(s, text, logits):
    parts = SamplerParts(spell=lambda token: bytes([min(token, 255)]))
    sampler = Sampler(s, 1, tokens_of([FIRST]), parts)
    sampler.emit(text[:5])
    return as_dict(sampler.distribution(logits, text[5:]))


def as_dict(distribution):
    pairs = zip(distribution.ids.tolist(), distribution.probs.tolist(), strict=True)
    return {token: p for token, p in pairs if p > 1e-30}


def logits_of(seed):
    return (2.5 * np.random.default_rng(seed).normal(size=SIZE)).astype(np.float32)


def drawn_sampling(dice):
    """Random settings, but for what llama.cpp makes no numbers of: 0 log 0 behind a cut."""
    s = {
        "temperature": dice.choice((0.0, 0.5, 0.9, 1.0, 1.8)),
        "dynatemp_range": dice.choice((0.0, 0.0, 0.4, 1.2)),
        "dynatemp_exponent": dice.choice((0.5, 1.0, 2.0)),
        "top_k": dice.choice((0, 2, 20, 60)),
        "top_p": dice.choice((1.0, 0.95, 0.6)),
        "min_p": dice.choice((0.0, 0.02, 0.2)),
        "typical": dice.choice((1.0, 0.9, 0.4)),
        "top_n_sigma": dice.choice((0.0, 0.0, 1.2, 2.0)),
        "xtc_probability": dice.choice((0.0, 1.0)),
        "xtc_threshold": dice.choice((0.05, 0.1, 0.3)),
        "repetition": dice.choice((1.0, 1.3)),
        "presence": dice.choice((0.0, 0.5)),
        "frequency": dice.choice((0.0, 0.3)),
        "penalty_window": dice.choice((4, 12)),
        "dry_multiplier": dice.choice((0.0, 0.8, 3.0)),
        "dry_base": dice.choice((1.0, 1.2, 1.75)),
        "dry_allowed_length": dice.choice((0, 1, 2, 4)),
        "dry_window": dice.choice((0, 7, 64)),
        "dry_breakers": dice.choice((("\n",), ("\n", "zq"), ("e", "\n"))),
        "samplers": USUAL if dice.random() < 0.5 else tuple(dice.sample(USUAL, len(USUAL))),
    }
    if s["top_n_sigma"] or not s["temperature"]:
        s["typical"] = 1.0
    return Sampling(**s)


@pytest.mark.parametrize("seed", range(200))
def test_a_chain_leaves_what_llama_cpps_chain_leaves(vocabulary, seed):
    s, logits = drawn_sampling(random.Random(seed)), logits_of(seed)
    chain = TheirChain((*s.samplers, "draw"), s, vocabulary, [FIRST, *TEXT])
    expected, _ = chain.distribution(logits)
    chain.close()
    assert ours(s, TEXT, logits) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    ("names", "s"),
    [
        (("mirostat",), Sampling(1.0, mirostat=1)),
        (COOLED, Sampling(0.7, mirostat=1, mirostat_tau=3.0, mirostat_eta=0.3)),
        (("mirostat",), Sampling(1.0, mirostat=2)),
        (COOLED, Sampling(1.5, mirostat=2, mirostat_tau=2.0, mirostat_eta=0.4)),
        (("adaptive_p",), Sampling(1.0, adaptive_target=0.3)),
        (("min_p", "adaptive_p"), Sampling(1.0, min_p=0.05, adaptive_target=0.5)),
        (("top_k", "adaptive_p"), Sampling(1.0, 9, adaptive_target=0.1, adaptive_decay=0.5)),
    ],
)
def test_a_state_goes_on_as_llama_cpps(vocabulary, names, s):
    chain = TheirChain(names, s, vocabulary, [])
    sampler = Sampler(s, 1, tokens_of([FIRST]))
    for at in range(100):
        logits = logits_of([7, at])
        expected, token = chain.distribution(logits)
        assert as_dict(sampler.distribution(logits)) == pytest.approx(expected, rel=2e-3)
        chain.read([token])
        sampler.emit([token])
    chain.close()
