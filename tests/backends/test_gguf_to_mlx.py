"""A GGUF and the MLX folder made of it are the same model, or there is no folder."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import sys
import time
from contextlib import closing
from itertools import takewhile

import numpy as np
import pytest

pytest.importorskip("mlx_lm")

import mlx.core as mx
from mlx_lm import load as load_folder
from mlx_lm.models.cache import make_prompt_cache, trim_prompt_cache

from localspec.errors import UsageError
from localspec.models.locate import locate
from localspec.templates.chat_template import ChatTemplate
from localspec_llamacpp import backend as llamacpp
from mlx_conversion.convert import OutputFormat
from mlx_conversion.gguf_file import read
from mlx_conversion.shape import read_shape
from mlx_conversion.weights import parts, plan
from tests import engines
from tests.backends.gguf_copies import (
    ENVIRONMENT,
    FREQUENCIES,
    SCRIPT,
    Stop,
    biases,
    copied,
    greedy,
    log_probabilities,
    made,
    numbers,
    stop,
    stored_as,
)

TEXT = "the code is the code, and the return is the return of the code\n"
PROMPTS = (
    "What is the capital of Portugal?",
    "Why is the sky blue?",
    "Write a Python function that adds two numbers.",
)


def wide_heads():
    shapes = {"attn_q": (96, 64), "attn_k": (48, 64), "attn_v": (48, 64), "attn_output": (64, 96)}
    return {
        f"blk.{layer}.{name}.weight": numbers(*shape, seed=layer) / 8
        for layer in range(3)
        for name, shape in shapes.items()
    }


def llama3_divisors(factor=8.0):
    """Waves beyond 8192 tokens are stretched, those up to 2048 are not, others in part."""
    divisors = []
    for at in range(0, 32, 2):
        wave = 2 * math.pi * 500_000.0 ** (at / 32)
        part = (8192 / wave - 1) / 3
        divisors.append(
            1.0 if part > 1 else factor if part < 0 else 1 / ((1 - part) / factor + part)
        )
    assert sum(1 < divisor < factor for divisor in divisors) >= 1
    return np.array(divisors, np.float32)


WIDE = {f"llama.attention.{name}_length": 48 for name in ("key", "value")}
VARIANTS = {
    "tied": ({}, {"output.weight": None}),
    "biased": (
        {},
        biases(*("attn_q", "attn_k", "attn_v", "attn_output", "ffn_gate", "ffn_up", "ffn_down")),
    ),
    "qwen2": ({"general.architecture": "qwen2"}, biases("attn_q", "attn_k", "attn_v")),
    "wide heads": ({**WIDE, "llama.rope.dimension_count": 48}, wide_heads()),
    "coarse": ({"llama.attention.layer_norm_rms_epsilon": 0.5}, {}),
    "linear": ({"llama.rope.scaling.type": "linear", "llama.rope.scaling.factor": 4.0}, {}),
    "llama3": ({"llama.rope.freq_base": 500_000.0}, {FREQUENCIES: llama3_divisors()}),
    "unstretched": ({}, {FREQUENCIES: np.ones(16, np.float32)}),
}


def variant(name, folder):
    """A file to convert, and one that llama.cpp computes with in 32 bits."""
    if name in ("llama", "qwen3"):
        return (engines.tiny(name),) * 2
    tiny = engines.tiny("llama")
    if name in VARIANTS:
        return (copied(tiny, folder / "variant.gguf", *VARIANTS[name]),) * 2
    source = stored_as(name, tiny, folder / f"{name}.gguf")
    return source, stored_as("f32", source, folder / "unpacked.gguf")


def logits(folder, tokens):
    model, _ = load_folder(str(folder))
    return np.array(model(mx.array([tokens]))[0])


def encoded(source):
    with closing(llamacpp.load(source, engines.OPTIONS)) as model:
        return model.tokenizer.encode(TEXT).tolist()


@pytest.mark.parametrize("name", ["llama", "qwen3", *VARIANTS, "q4_0", "q8_0", "bf16"])
def test_both_engines_say_the_same_with_the_same_certainty(name, tmp_path):
    """Compute in 32 bits: llama.cpp's 16-bit keys and values alone move this by 0.015."""
    source, exact = variant(name, tmp_path)
    prompt = encoded(source)
    said, expected = greedy(exact, prompt, 64)
    found = logits(made(source, tmp_path / "folder"), prompt + said)[len(prompt) - 1 :]
    assert np.abs(log_probabilities(found) - log_probabilities(expected)).max() < 1e-3
    assert found.argmax(-1)[:-1].tolist() == said


@pytest.mark.parametrize(("most", "counts"), [(1, (2, 32, 64, 96, 384)), (3000, (2, 3, 9))])
def test_weights_are_the_same_in_parts_of_any_size(most, counts):
    """Whole rows, and of queries and keys whole heads, two and one in the tiny model."""
    file = read(engines.tiny("llama"))
    seen = {1}
    for weight in plan(file, read_shape(file)):
        [whole] = parts(file, weight)
        cut = list(parts(file, weight, most))
        assert np.array_equal(np.concatenate(cut), whole)
        seen.add(len(cut))
    assert sorted(seen) == [1, *counts]


@pytest.mark.parametrize(("bits", "steps"), [(4, 15), (8, 255)])
def test_quantised_weights_are_within_one_step_of_what_they_were(bits, steps, tmp_path):
    source = engines.tiny("llama")
    exact, _ = load_folder(str(made(source, tmp_path / "exact")))
    wishes = OutputFormat("float32", bits, 32)
    quantised, _ = load_folder(str(made(source, tmp_path / "quantised", wishes)))
    for whole, packed in (
        (exact.model.embed_tokens, quantised.model.embed_tokens),
        (exact.model.layers[2].mlp.down_proj, quantised.model.layers[2].mlp.down_proj),
    ):
        assert packed.bits == bits
        values = mx.dequantize(packed.weight, packed.scales, packed.biases, 32, bits)
        groups = np.array(whole.weight).reshape(-1, 32)
        error = np.abs(np.array(values).reshape(-1, 32) - groups).max(-1)
        assert (error <= 1.1 * np.ptp(groups, -1) / steps).all()


@pytest.mark.parametrize(("kind", "dtype"), [("f32", mx.float16), ("bf16", mx.bfloat16)])
def test_weights_are_kept_in_the_sixteen_bits_that_suit_the_file(kind, dtype, tmp_path):
    source = stored_as(kind, engines.tiny("llama"), tmp_path / "source.gguf")
    made(source, tmp_path / "folder", OutputFormat())
    weights = mx.load(str(tmp_path / "folder" / "model.safetensors"))
    assert {array.dtype for array in weights.values()} == {dtype}


def test_a_folder_that_holds_something_is_left_alone(tmp_path):
    (tmp_path / "note").write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        made(engines.tiny("llama"), tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["note"]


def test_an_empty_folder_is_filled(tmp_path):
    load_folder(str(made(engines.tiny("llama"), tmp_path)))


def test_what_another_conversion_is_writing_is_left_alone(tmp_path):
    (tmp_path / "folder.partial").mkdir()
    (tmp_path / "folder.partial" / "config.json").write_text("{}")
    with pytest.raises(UsageError, match=r"folder\.partial is left of another"):
        made(engines.tiny("llama"), tmp_path / "folder")
    assert (tmp_path / "folder.partial" / "config.json").exists()
    assert not (tmp_path / "folder").exists()


def test_nothing_is_left_where_the_check_or_the_user_ends_it(tmp_path):
    def interrupt(done, total):
        assert not (tmp_path / "folder.partial" / "config.json").exists()
        if done == total:
            raise KeyboardInterrupt

    for ends in ({"check": stop}, {"progress": interrupt}):
        with pytest.raises((Stop, KeyboardInterrupt)):
            made(engines.tiny("llama"), tmp_path / "folder", **ends)
        assert list(tmp_path.iterdir()) == []


def script(*arguments, limit_bytes=None):
    """Start the script, which may be kept from writing files of more than so many bytes."""
    limit = (
        f"resource.setrlimit(resource.RLIMIT_FSIZE, ({limit_bytes},) * 2)" if limit_bytes else ""
    )
    code = (
        f"import resource, runpy\n{limit}\nrunpy.run_module('mlx_conversion', run_name='__main__')"
    )
    command = [sys.executable, "-c", code, *arguments]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    return subprocess.Popen(list(map(str, command)), env=ENVIRONMENT, **pipes)


def test_the_script_converts_and_says_so(tmp_path):
    wishes = ("--bits", 8, "--group-size", 32)
    child = script(engines.tiny("llama"), tmp_path / "folder", *wishes)
    out, err = child.communicate()
    assert (child.returncode, err) == (0, "")
    assert "folder is ready" in out
    quantisation = json.loads((tmp_path / "folder" / "config.json").read_text())["quantization"]
    assert quantisation == {"bits": 8, "group_size": 32}


@pytest.mark.parametrize(
    ("wishes", "code", "said"),
    [
        (("missing.gguf", "folder"), 2, "gguf_to_mlx: there is no file missing.gguf\n"),
        ((SCRIPT, "folder"), 1, "gguf_to_mlx is not GGUF: it starts with b'#!/u'"),
        ((SCRIPT, "folder", "--bits", "5"), 2, "invalid choice"),
    ],
)
def test_the_script_fails_in_words(wishes, code, said):
    child = script(*wishes)
    out, err = child.communicate()
    assert (child.returncode, out) == (code, "")
    assert said in err
    assert "Traceback" not in err


@pytest.mark.parametrize("limit_bytes", [5_000, 100_000])
def test_a_full_disk_leaves_nothing(limit_bytes, tmp_path):
    child = script(engines.tiny("llama"), tmp_path / "folder", limit_bytes=limit_bytes)
    out, err = child.communicate()
    assert (child.returncode, out) == (1, "")
    assert err.count("\n") == 1
    assert "cannot be written" in err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_script_that_is_stopped_leaves_nothing(number, tmp_path):
    child = script(locate("smollm2-135m", "llamacpp").path, tmp_path / "folder")
    while not (tmp_path / "folder.partial" / "tokenizer.json").exists():
        assert child.poll() is None
        time.sleep(0.01)
    child.send_signal(number)
    assert "nothing is left behind" in child.communicate()[1]
    assert child.returncode == 130
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(scope="module")
def starter(tmp_path_factory):
    """The starter model as llama.cpp unpacks it, and as a folder, both in 32 bits.

    On its own file llama.cpp rounds activations to 8 bits, which moves log-probabilities by 1.4.
    """
    source = locate("smollm2-135m", "llamacpp").path
    folder = tmp_path_factory.mktemp("starter")
    exact = stored_as("f32", source, folder / "exact.gguf")
    return exact, load_folder(str(made(source, folder / "folder")))


@pytest.mark.long
def test_the_starter_reads_and_says_the_same_on_both_engines(starter):
    exact, (model, tokenizer) = starter
    with closing(llamacpp.load(exact, engines.OPTIONS)) as loaded:
        theirs = loaded.tokenizer
        assert tokenizer.eos_token_ids == theirs.ends
        prompts = [rendered(prompt, theirs, tokenizer) for prompt in PROMPTS]
        replies = [greedy(exact, prompt, 32) for prompt in prompts]
        for said, _ in replies:
            text = b"".join(map(theirs.token_bytes, said)).decode()
            assert tokenizer.decode(said) == text
    # All tokens of a reply at once are the greedy reply if each is the likeliest after the others.
    start = len(list(takewhile(lambda row: len(set(row)) == 1, zip(*prompts, strict=False))))
    cache = make_prompt_cache(model)
    model.model(mx.array([prompts[0][:start]]), cache=cache)
    for prompt, (said, expected) in zip(prompts, replies, strict=True):
        rest = prompt[start:] + said
        hidden = model.model(mx.array([rest]), cache=cache)[:, -len(said) - 1 :]
        found = np.array(model.model.embed_tokens.as_linear(hidden)[0])
        trim_prompt_cache(cache, len(rest))
        assert np.abs(log_probabilities(found) - log_probabilities(expected)).max() < 1e-3
        assert found.argmax(-1)[:-1].tolist() == said


def rendered(prompt, theirs, ours):
    """The tokens that ask for a reply: the same whichever engine's tokenizer writes them."""
    messages = [{"role": "user", "content": prompt}]
    text = ChatTemplate(theirs).render(messages)
    wishes = {"add_generation_prompt": True, "return_dict": False}
    assert ours.apply_chat_template(messages, tokenize=False, **wishes) == text
    tokens = theirs.encode(text, special=True).tolist()
    assert list(ours.apply_chat_template(messages, **wishes)) == tokens
    return tokens
