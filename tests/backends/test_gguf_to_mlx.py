"""A GGUF and the MLX folder made of it are the same model, for tests and benchmarks to compare."""

from __future__ import annotations

import ctypes
import random
from collections.abc import Sequence
from contextlib import closing
from itertools import takewhile
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("mlx_lm")

import llama_cpp.llama_cpp as lib
import mlx.core as mx
from gguf import GGUFReader
from mlx_lm import load as load_folder
from mlx_lm.models.cache import make_prompt_cache, trim_prompt_cache

from localspec.formats.templates.chat_template import ChatTemplate
from localspec.interfaces.backend import Options
from localspec.running.models.locate import locate
from localspec_llamacpp import backend as llamacpp
from localspec_llamacpp.bindings.placement import HOST
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_mlx.folder.tokenizer import load_tokenizer
from tests import engines
from tests.backends.gguf_copies import stored_as
from tests.gguf_to_mlx import Header, convert, write_tokenizer

TEXT = "the code is the code, and the return is the return of the code\n"
PROMPTS = (
    "What is the capital of Portugal?",
    "Why is the sky blue?",
    "Write a Python function that adds two numbers.",
)
# Signs that are case, space, number or letter to one tokenizer and not to the next.
SIGNS = """
    's 'S 't 'll 'LL 'Ve 're '\u017f ' '' " a b The the THE camelCase HTTPServer É e\u0301
    ß İ ǅ \u0131 \u212a 漢字 かな 한국어 العربية हिन्दी ไทย 😀 🇵🇹 👨\u200d👧 € ▁ 1 12 1234567 3.14 ½
    ² ٣ Ⅷ ! !?... _ -- == => // \\ ( ) { } < > <| |> $ + ^ ~ | & % @ # 、 ¿ Ġ Ċ <s>
    <|im_end|>
"""
BLANKS = ["", " ", "  ", "\t", "\n", "\n\n", "\r\n", "\xa0", "\u2028", "\u3000"]
F32 = 0  # of keys and values
CELLS, BATCH = 512, 256
VOCABULARY_ONLY = Options(context=64, batch=16, threads=1, gpu_layers=0)


class ExactEngine:
    """llama.cpp with keys and values in 32 bits and without flash attention, which rounds them."""

    def __init__(self, path: Path) -> None:
        self.weights = ModelWeights(path, HOST)
        params = lib.llama_context_default_params()
        params.n_ctx, params.n_batch, params.n_ubatch = CELLS, BATCH, BATCH
        params.n_threads = params.n_threads_batch = 1
        params.type_k, params.type_v, params.flash_attn_type = F32, F32, 0
        self.context = lib.llama_init_from_model(self.weights.pointer, params)

    def feed(self, tokens: Sequence[int]) -> np.ndarray:
        """Append tokens; return the logits after the last one."""
        array = (ctypes.c_int32 * len(tokens))(*tokens)
        assert lib.llama_decode(self.context, lib.llama_batch_get_one(array, len(tokens))) == 0
        pointer = lib.llama_get_logits_ith(self.context, -1)
        return np.ctypeslib.as_array(pointer, (self.weights.vocabulary,)).copy()

    def close(self) -> None:
        lib.llama_free(self.context)
        self.weights.close()


def greedy(path: Path, prompt: Sequence[int], length: int) -> tuple[list[int], np.ndarray]:
    """Continue a prompt by llama.cpp; return the tokens, and the logits before and after each."""
    with closing(ExactEngine(path)) as engine:
        rows, tokens = [engine.feed(prompt)], []
        for _ in range(length):
            tokens.append(int(rows[-1].argmax()))
            rows.append(engine.feed(tokens[-1:]))
    return tokens, np.array(rows)


def log_probabilities(logits: np.ndarray) -> np.ndarray:
    shifted = logits.astype(np.float64) - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def encoded(source):
    with closing(llamacpp.load(source, engines.OPTIONS)) as model:
        return model.tokenizer.encode(TEXT).tolist()


@pytest.mark.parametrize("name", ["llama", "qwen3", "q8_0"])
def test_both_engines_say_the_same_with_the_same_certainty(name, tmp_path):
    """Compute in 32 bits: llama.cpp's 16-bit keys and values alone move this by 0.015."""
    source = exact = engines.tiny("llama" if name == "q8_0" else name)
    if name == "q8_0":
        source = stored_as("q8_0", source, tmp_path / "packed.gguf")
        exact = stored_as("f32", source, tmp_path / "unpacked.gguf")
    prompt = encoded(source)
    tokens, expected = greedy(exact, prompt, 64)
    model, _ = load_folder(str(convert(source, tmp_path / "folder")))
    logits = np.array(model(mx.array([prompt + tokens]))[0])[len(prompt) - 1 :]
    assert np.abs(log_probabilities(logits) - log_probabilities(expected)).max() < 1e-3
    assert logits.argmax(-1)[:-1].tolist() == tokens


def texts():
    dice = random.Random(1)
    signs = [*SIGNS.split(), *BLANKS * 4]
    return [*signs, *("".join(dice.choices(signs, k=dice.randint(2, 8))) for _ in range(600))]


@pytest.mark.parametrize("name", ["tiny llama", "smollm2-135m"])
def test_texts_are_split_as_llama_cpp_splits_them(name, tmp_path):
    tiny = name == "tiny llama"
    source = engines.tiny("llama") if tiny else locate(name, "llamacpp").path
    write_tokenizer(Header(GGUFReader(source)), tmp_path)
    with closing(llamacpp.load(source, VOCABULARY_ONLY)) as model:
        theirs, ours = model.tokenizer, load_tokenizer(tmp_path, model.vocabulary)
        assert (ours.eos, ours.starts) == (theirs.eos, theirs.starts)
        for token in range(theirs.size):
            if shown := theirs.token_bytes(token):  # nothing of tokens that it does not use
                assert ours.token_bytes(token) == shown
        for text in texts():
            assert ours.encode(text).tolist() == theirs.encode(text).tolist()
            tokens = theirs.encode(text, special=True).tolist()
            assert ours.encode(text, special=True).tolist() == tokens


@pytest.fixture(scope="module")
def starter(tmp_path_factory):
    """The starter model as llama.cpp unpacks it, and as a folder, both in 32 bits.

    On its own file llama.cpp rounds activations to 8 bits, which moves log-probabilities by 1.4.
    """
    source = locate("smollm2-135m", "llamacpp").path
    folder = tmp_path_factory.mktemp("starter")
    exact = stored_as("f32", source, folder / "exact.gguf")
    return exact, load_folder(str(convert(source, folder / "folder")))


@pytest.mark.long
def test_the_starter_reads_and_says_the_same_on_both_engines(starter):
    exact, (model, tokenizer) = starter
    with closing(llamacpp.load(exact, engines.OPTIONS)) as loaded:
        theirs = loaded.tokenizer
        prompts = [rendered(prompt, theirs, tokenizer) for prompt in PROMPTS]
        replies = [greedy(exact, prompt, 32) for prompt in prompts]
        for tokens, _ in replies:
            text = b"".join(map(theirs.token_bytes, tokens)).decode()
            assert tokenizer.decode(tokens) == text
    # All tokens of a reply at once are the greedy reply if each is the likeliest after the others.
    start = len(list(takewhile(lambda row: len(set(row)) == 1, zip(*prompts, strict=False))))
    cache = make_prompt_cache(model)
    model.model(mx.array([prompts[0][:start]]), cache=cache)
    for prompt, (tokens, expected) in zip(prompts, replies, strict=True):
        following = prompt[start:] + tokens
        hidden = model.model(mx.array([following]), cache=cache)[:, -len(tokens) - 1 :]
        logits = np.array(model.model.embed_tokens.as_linear(hidden)[0])
        trim_prompt_cache(cache, len(following))
        assert np.abs(log_probabilities(logits) - log_probabilities(expected)).max() < 1e-3
        assert logits.argmax(-1)[:-1].tolist() == tokens


def rendered(prompt, theirs, ours):
    """The tokens that ask for a reply: the same whichever engine's tokenizer writes them."""
    messages = [{"role": "user", "content": prompt}]
    text = ChatTemplate(theirs).render(messages)
    options = {"add_generation_prompt": True, "return_dict": False}
    assert ours.apply_chat_template(messages, tokenize=False, **options) == text
    tokens = theirs.encode(text, special=True).tolist()
    assert list(ours.apply_chat_template(messages, **options)) == tokens
    return tokens
