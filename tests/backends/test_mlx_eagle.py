"""EAGLE heads of MLX folders: what they read, what they draft, and what is refused."""

from __future__ import annotations

import sys
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model

from localspec.base.errors import ModelFileError, UsageError
from localspec.core.proposers.head import HeadProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from localspec.interfaces.backend import MAX_HEAD_LAG, Row
from localspec_mlx import backend as mlx
from localspec_mlx.heads.eagle import Eagle
from localspec_mlx.heads.loading import weighed
from tests import tiny_mlx
from tests.backends.mlx_folders import refusal, rewritten
from tests.backends.test_mlx_heads import DEPTH, OPTIONS, TEXT, drafted, loaded, rolled
from tests.runs import Want, replies, said

FILE, PLACE, EPSILON = "model.safetensors", "layers.0.", 1e-6


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return tiny_mlx.write(tmp_path_factory.mktemp("eagle") / "llama", "llama")


def held(folder):
    return {name: np.array(array) for name, array in mx.load(str(folder / FILE)).items()}


def changed(folder, leave=(), **more):
    """Write the weights of a head anew, without some and with others."""
    weights = {name: array for name, array in held(folder).items() if name not in leave} | more
    arrays = {name: mx.array(array) for name, array in weights.items()}
    mx.save_safetensors(str(folder / FILE), arrays)
    return folder


def rotated(x, at):
    """Turn the halves of each head by the place of its row."""
    half = x.shape[-1] // 2
    angle = at[:, None, None] * 10_000.0 ** (-np.arange(half) / half)
    a, b = x[..., :half], x[..., half:]
    turned = [a * np.cos(angle) - b * np.sin(angle), b * np.cos(angle) + a * np.sin(angle)]
    return np.concatenate(turned, axis=-1)


def next_states(weights, embedded, states):
    """Read tokens and the states before them, as EAGLE's paper and its authors' code say."""

    def linear(name, x):
        return x @ weights[f"{name}.weight"].T + weights.get(f"{name}.bias", 0.0)

    x = linear("fc", np.concatenate([embedded, states], axis=-1))
    at = np.arange(len(x))
    queries, keys, values = (
        linear(f"{PLACE}self_attn.{name}_proj", x).reshape(len(x), -1, 32) for name in "qkv"
    )
    scores = np.einsum("qhd,kgd->hqk", rotated(queries, at), rotated(keys, at)) / np.sqrt(32)
    scores = np.exp(scores - scores.max(-1, keepdims=True)) * (at[:, None] >= at)
    seen = np.einsum("hqk,kd->qhd", scores / scores.sum(-1, keepdims=True), values[:, 0])
    x = x + linear(f"{PLACE}self_attn.o_proj", seen.reshape(len(x), -1))
    normed = x / np.sqrt((x**2).mean(-1, keepdims=True) + EPSILON)
    normed *= weights[f"{PLACE}post_attention_layernorm.weight"]
    gate = linear(f"{PLACE}mlp.gate_proj", normed)
    gate = gate / (1 + np.exp(-gate)) * linear(f"{PLACE}mlp.up_proj", normed)
    return x + linear(f"{PLACE}mlp.down_proj", gate)


SIZES = {"q": 64, "k": 32, "v": 32}
BIASED = {f"{PLACE}self_attn.{name}_proj.bias": size for name, size in SIZES.items()}


@pytest.mark.parametrize("biases", [{"fc.bias": 64}, {}, {"fc.bias": 64, **BIASED}])
def test_a_head_reads_each_token_with_the_last_state_before_it(biases, target, tmp_path):
    """As its authors write it for Llama 2, Llama 3, and Qwen2."""
    head = tiny_mlx.write_eagle(target, tmp_path / "head")
    random = np.random.default_rng(5)
    more = {name: random.normal(size=size).astype(np.float32) for name, size in biases.items()}
    weights = held(changed(head, ["fc.bias"], **more))
    model, trunk = load_model(target)[0], held(target)
    states = np.array(model.model(mx.array(TEXT[:-1])[None])[0])
    text, likely = TEXT[1:].tolist(), []
    for _ in range(DEPTH):
        embedded = trunk["model.embed_tokens.weight"][text]
        newest = next_states(weights, embedded, states)[-1:]
        states = np.concatenate([states, newest])
        logits = (newest @ trunk["lm_head.weight"].T)[0]
        text.append(int(logits.argmax()))
        likely.append(1 / np.exp(logits - logits.max()).sum())
    with closing(loaded(target, head)) as ours:
        ours.forward([Row(0, TEXT[:-1])])
        draft = rolled(ours)
        assert draft.tokens.tolist() == text[-DEPTH:]
        assert draft.confidences == pytest.approx(likely, rel=1e-3)
        assert ours.head.proposer == mlx.inspect(head).drafter == "eagle"


FIRST, STRONG = 9, 20.0


def apart(model):
    """Let states be of one length, and no token look at the first, which a head does not read."""
    rows = np.array(model.model.embed_tokens.weight)
    rows[:, 0] = 0
    rows *= np.sqrt(63 / (rows**2).sum(-1, keepdims=True))
    rows[:, 0] = np.where(np.arange(len(rows)) == FIRST, -1, 1)
    model.model.embed_tokens.weight = mx.array(rows)
    [layer] = model.model.layers
    for part, heads in ((layer.self_attn.q_proj, 2), (layer.self_attn.k_proj, 1)):
        weight = np.array(part.weight).reshape(heads, 32, 64)
        weight[:, 15] = 0  # which a place hardly turns
        weight[:, 15, 0] = STRONG
        part.weight = mx.array(weight.reshape(-1, 64))
    for norm in (layer.input_layernorm, model.model.norm):
        norm.weight = mx.ones_like(norm.weight)


def test_a_head_with_the_only_layer_of_its_target_is_always_right(tmp_path):
    target = tiny_mlx.write(tmp_path / "llama", "llama", num_hidden_layers=1)
    trunk = held(rewritten(target, apart))
    head = tiny_mlx.write_eagle(target, tmp_path / "head", intermediate_size=96)
    own = {name: trunk[f"model.{name}"] for name in held(head) if f"model.{name}" in trunk}
    fc = np.concatenate([np.eye(64), np.zeros((64, 64))], axis=1).astype(np.float32)
    changed(head, ["fc.bias"], **own | {"fc.weight": fc})
    with closing(mlx.load(target, replace(OPTIONS, slots=3, head=head))) as model:
        settings = Settings(max_tokens=40, ignore_end=True)
        wants = [Want([FIRST, 301 + 7 * at, 3 + at], settings) for at in range(6)]
        plain = replies(model, Silent(), wants)
        fast = replies(model, HeadProposer(model.head, floor=0.0), wants)
    assert said(fast) == said(plain)
    assert len(set(map(tuple, said(plain)))) == 6
    for result in fast:
        assert result.speculation.accepted == result.speculation.drafted > 20


def test_a_head_is_read_in_the_numbers_of_its_target(target, tmp_path):
    """A matrix of another type would be converted for each token."""
    head = tiny_mlx.write_eagle(target, tmp_path / "head")
    model = load_model(target)[0]
    model.set_dtype(mx.bfloat16)
    own = weighed(head, partial(Eagle, model))
    assert {array.dtype for _, array in tree_flatten(own.parameters())} == {mx.bfloat16}


def test_copies_in_a_file_are_neither_read_nor_counted(target, tmp_path):
    head = tiny_mlx.write_eagle(target, tmp_path / "head")
    with closing(loaded(target, head)) as model:
        expected = drafted(model)
    needless = {"lm_head.weight": (384, 64), "embed_tokens.weight": (5, 64)}
    needless |= {f"{PLACE}self_attn.rotary_emb.inv_freq": (16,)}
    changed(head, **{name: np.zeros(shape, np.float32) for name, shape in needless.items()})
    with closing(loaded(target, head)) as model:
        assert drafted(model) == expected
    own = sum(array.nbytes for name, array in held(head).items() if name not in needless)
    assert mlx.inspect(head).weight_bytes == own + 16 * 4
    with mlx.rehearse(target) as rehearsal:
        needs = rehearsal.needs(replace(OPTIONS, head=head))
    states = (2 + MAX_HEAD_LAG + 8) * 64 * 2
    assert needs.head - own - 16 * 4 == 4 * (512 * 2 * 32 * 2 + states)


def test_heads_that_do_not_fit_are_refused_with_the_numbers(target, tmp_path):
    wide = tiny_mlx.write(tmp_path / "wide", "llama", hidden_size=128)
    with pytest.raises(ModelFileError, match="128 numbers, the model's 64"):
        loaded(target, tiny_mlx.write_eagle(wide, tmp_path / "a"))
    few = tiny_mlx.write_eagle(target, tmp_path / "b", vocab_size=380)
    with pytest.raises(ModelFileError, match="it has 380 tokens, the model 384"):
        loaded(target, few)
    narrow = changed(tiny_mlx.write_eagle(target, tmp_path / "c"), **{"fc.weight": np.eye(64)})
    with pytest.raises(ModelFileError, match=r"\(64, 128\).*\(64, 64\).*fc.weight"):
        loaded(target, narrow)
    lacking = changed(tiny_mlx.write_eagle(target, tmp_path / "d"), ["fc.weight"])
    with pytest.raises(ModelFileError, match=r"fc\.weight"):
        loaded(target, lacking)
    more = changed(tiny_mlx.write_eagle(target, tmp_path / "e"), **{"enorm.weight": np.ones(64)})
    with pytest.raises(ModelFileError, match=r"enorm\.weight"):
        loaded(target, more)


def test_a_model_of_one_layer_is_no_head(target, tmp_path):
    model = tiny_mlx.write(tmp_path / "small", "llama", num_hidden_layers=1)
    assert mlx.inspect(model).drafter == ""
    with pytest.raises(UsageError, match="small is no drafting head"):
        loaded(target, model)


def test_a_head_in_pytorchs_format_is_refused_with_the_way_to_convert_it(target, tmp_path):
    head = tiny_mlx.write_eagle(target, tmp_path / "head")
    (head / FILE).rename(head / "pytorch_model.bin")
    with pytest.raises(ModelFileError, match="weights_only=True") as refused:
        loaded(target, head)
    assert str(refused.value) == refusal(head)
