"""Medusa heads and MLP speculators of MLX folders: their layouts, and what they draft."""

from __future__ import annotations

import json
import math
import sys
from collections import Counter
from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.utils import load_model

from localspec.base.errors import ModelFileError
from localspec.core.proposers.head import HeadProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from localspec_mlx import backend as mlx
from localspec_mlx.folder import config as configuration
from localspec_mlx.heads.loading import staged
from tests import tiny_mlx
from tests.backends.mlx_folders import reconfigured, rewritten
from tests.backends.test_engines import NARROW, texts_distribution
from tests.backends.test_mlx_heads import DEPTH, OPTIONS, TEXT, drafted, loaded
from tests.chi_square import chi_square, limit
from tests.runs import Want, replies, said

MEDUSA, SPECULATOR = "medusa_lm_head.safetensors", "model.safetensors"


@pytest.fixture(scope="module")
def target(tmp_path_factory):
    return tiny_mlx.write(tmp_path_factory.mktemp("stages") / "llama", "llama")


@pytest.fixture(scope="module")
def state(target):
    """The state at the last token that the target reads before a draft."""
    return np.array(load_model(target)[0].model(mx.array(TEXT[:-1])[None])[0, -1])


def drafts(target, head):
    with closing(loaded(target, head)) as model:
        return drafted(model)


def arrays(path):
    return {name: np.array(array) for name, array in mx.load(str(path)).items()}


def stored(folder, weights, name="model.safetensors", **config):
    """Write a head of any layout."""
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    arrays = {name: mx.array(array) for name, array in weights.items()}
    mx.save_safetensors(str(folder / name), arrays)
    return folder


def silu(x):
    return x / (1 + np.exp(-x))


@pytest.mark.parametrize("layers", [1, 2])
def test_medusas_heads_read_the_last_state_each_by_itself(layers, target, state, tmp_path):
    head = tiny_mlx.write_medusa(target, tmp_path / "head", layers=layers)
    held, expected = arrays(head / MEDUSA), []
    for at in range(DEPTH):
        x = state
        for block in range(layers):
            place = f"{at}.{block}.linear"
            x = x + silu(held[f"{place}.weight"] @ x + held[f"{place}.bias"])
        expected.append(int((held[f"{at}.{layers}.weight"] @ x).argmax()))
    assert drafts(target, head) == expected
    assert mlx.inspect(head).drafter == "medusa"


def as_vllm(held, **shared):
    """Name the tensors of Medusa's authors as vLLM's converted folders do."""
    drafts_by_layout = {}
    for name, array in held.items():
        stage, block, *rest = name.split(".")
        place = f"blocks.{stage}.layers.{block}" if rest[0] == "linear" else f"lm_heads.{stage}"
        drafts_by_layout[f"{place}.{rest[-1]}"] = array
    return drafts_by_layout | shared


VLLM = {"model_type": "medusa", "architectures": ["MedusaModel"], "hidden_size": 64}
VLLM |= {"num_heads": 5, "num_hidden_layers": 1, "vocab_size": 384, "medusa_fc_bias": True}


def test_medusas_heads_are_the_same_in_either_layout(target, tmp_path):
    head = tiny_mlx.write_medusa(target, tmp_path / "head")
    held = arrays(head / MEDUSA)
    prefixed = {f"medusa_heads.{name}": each for name, each in as_vllm(held).items()}
    layouts = [
        stored(tmp_path / "vllm", as_vllm(held), **VLLM),
        stored(tmp_path / "prefixed", prefixed, **VLLM),
        stored(tmp_path / "typed", held, model_type="llama", medusa_num_heads=2),
    ]
    expected = drafts(target, head)
    assert len(expected) == DEPTH
    assert [drafts(target, each) for each in layouts] == [expected] * 3


def test_medusas_heads_without_an_output_have_their_targets(target, tmp_path):
    out = arrays(target / "model.safetensors")["lm_head.weight"]
    held = arrays(tiny_mlx.write_medusa(target, tmp_path / "head") / MEDUSA)
    blocks = {name: each for name, each in held.items() if "linear" in name}
    own = blocks | {f"{at}.1.weight": out for at in range(5)}
    shared = as_vllm(blocks, **{"lm_head.weight": out})
    layouts = [
        stored(tmp_path / "own", own, MEDUSA, medusa_num_heads=5),
        stored(tmp_path / "none", blocks, MEDUSA, medusa_num_heads=5),
        stored(tmp_path / "shared", shared, **VLLM, original_lm_head=True),
    ]
    drafted = [drafts(target, each) for each in layouts]
    assert drafted[0] == drafted[1] == drafted[2] != []


def test_medusas_heads_may_draft_some_tokens_only(target, tmp_path):
    held = as_vllm(arrays(tiny_mlx.write_medusa(target, tmp_path / "head") / MEDUSA))
    some = np.arange(1, 384, 5)
    cut = {n: each[some] if "lm_heads" in n else each for n, each in held.items()}
    drafted = [
        drafts(target, stored(tmp_path / name, weights | {"token_map": some}, **VLLM))
        for name, weights in (("whole", held), ("cut", cut))
    ]
    assert drafted[0] == drafted[1]
    assert set(drafted[0]) <= set(some.tolist())


def gelu(x):
    return np.array([each * (1 + math.erf(each / math.sqrt(2))) / 2 for each in x])


@pytest.mark.parametrize("changes", [{}, {"scale_input": True, "inner_dim": 80, "n_predict": 4}])
def test_a_speculator_reads_each_token_it_drafted(changes, target, state, tmp_path):
    head = tiny_mlx.write_speculator(target, tmp_path / "head", **changes)
    config = json.loads((head / "config.json").read_text())
    held = arrays(head / SPECULATOR)
    width, keeps = config["inner_dim"], 0.5 ** (0.5 / config["n_predict"])
    x, text = state, [int(TEXT[-1])]
    if "scale_input" in changes:
        x = x / np.sqrt((x**2).mean() + 1e-6) / np.sqrt(2)
    for at in range(DEPTH):
        part = {name: held[f"speculator.{name}.{at}.weight"] for name in ("emb", "proj", "head")}
        adds = np.sqrt((1 - keeps**2) * width / 2)
        x = part["proj"] @ x * keeps + part["emb"][text[-1]] * adds
        x = x / np.sqrt((x**2).mean() + 1e-6)
        x = gelu(x * held[f"speculator.ln.{at}.weight"] + held[f"speculator.ln.{at}.bias"])
        text.append(int((part["head"] @ x).argmax()))
    assert drafts(target, head) == text[1:]
    assert mlx.inspect(head).drafter == "mlp_speculator"


def test_stages_that_share_their_weights_may_be_stored_once(target, tmp_path):
    head = tiny_mlx.write_speculator(target, tmp_path / "head", n_predict=4, tie_weights=True)
    config = json.loads((head / "config.json").read_text())
    held = arrays(head / SPECULATOR)
    once, all_of_them = {}, {}
    for name, array in held.items():
        part, at, kind = name.removeprefix("speculator.").split(".")
        own = min(int(at), 1) if part == "proj" else 0
        all_of_them[name] = held[f"speculator.{part}.{own}.{kind}"]
        if own == int(at):
            once[name] = array
    assert len(once) == 6
    layouts = [
        stored(tmp_path / "once", once, **config),
        stored(tmp_path / "all", all_of_them, **config),
        stored(tmp_path / "apart", all_of_them, **config | {"tie_weights": False}),
    ]
    drafted = [drafts(target, each) for each in layouts]
    assert drafted[0] == drafted[1] == drafted[2]
    assert len(drafted[0]) == DEPTH


def test_no_draft_is_longer_than_there_are_stages(target, tmp_path):
    head = tiny_mlx.write_medusa(target, tmp_path / "head", stages=2)
    assert len(drafts(target, head)) == 2


def test_stages_that_do_not_fit_are_refused_with_the_numbers(target, tmp_path):
    wide = tiny_mlx.write(tmp_path / "wide", "llama", hidden_size=128)
    medusa = tiny_mlx.write_medusa(wide, tmp_path / "medusa")
    with pytest.raises(ModelFileError, match=r"\(64, 64\).*\(128, 128\)"):
        loaded(target, medusa)
    head = tiny_mlx.write_speculator(wide, tmp_path / "head")
    with pytest.raises(ModelFileError, match="128 numbers, the model's 64"):
        loaded(target, head)
    with pytest.raises(ModelFileError, match="holds 5 stages, and its configuration promises 7"):
        loaded(wide, reconfigured(head, n_predict=7))
    held = arrays(medusa / MEDUSA) | {"alpha": np.zeros(3)}
    strange = stored(tmp_path / "strange", held, MEDUSA, medusa_num_heads=5)
    with pytest.raises(ModelFileError, match="alpha"):
        loaded(wide, strange)
    empty = stored(tmp_path / "empty", {"alpha": np.zeros(3)}, MEDUSA, medusa_num_heads=5)
    with pytest.raises(ModelFileError, match="holds no heads"):
        loaded(wide, empty)


def test_the_mask_of_a_draft_model_is_read_from_its_configuration(tmp_path):
    folder = tiny_mlx.write(tmp_path / "pard", "qwen3")
    assert mlx.inspect(folder).mask_token is None
    assert mlx.inspect(reconfigured(folder, ptd_token_id=9)).mask_token == 9
    assert mlx.inspect(reconfigured(folder, pard_token=7)).mask_token == 7  # which comes first
    assert mlx.inspect(reconfigured(folder, pard_token=True, ptd_token_id=-1)).mask_token is None


@pytest.mark.parametrize("kind", ["medusa", "mlp_speculator"])
def test_a_plan_counts_the_weights_and_states_of_stages(kind, target, tmp_path):
    head = tiny_mlx.WRITERS[kind](target, tmp_path / "head")
    with mlx.rehearse(target) as rehearsal:
        needs = rehearsal.needs(replace(OPTIONS, head=head))
        plain = rehearsal.needs(OPTIONS)
    assert plain.head == 0
    states = needs.head - mlx.inspect(head).weight_bytes
    assert 0 < states < 4 * 100 * 64 * 2  # of the last tokens, and no keys


# A target whose texts mostly follow from the last token, and heads that learn to say so.
RIDGE, GAIN = 0.1, 10.0


def softened(model):
    for layer in model.model.layers:
        for linear in (layer.self_attn.o_proj, layer.mlp.down_proj):
            linear.weight = linear.weight * 0.05


def teach(head, model):
    """Fit the output of each stage, by least squares, to the tokens that come where it drafts."""
    token = mx.arange(384)
    x = model.model(token[:, None])[:, 0]
    following = mx.argmax(model.lm_head(x), axis=-1)
    for stage in head.stages:
        token = following[token]
        rows, out = x, stage.out if "out" in stage else stage.head
        if "blocks" in stage:
            stage.blocks[0].weight = mx.zeros((64, 64))  # as they begin
        else:
            rows, _ = x, _ = stage(token, x)
        held, targets = np.array(rows), np.eye(384)[np.array(following[token])]
        within = held.T @ held + RIDGE * np.eye(held.shape[1])
        out.weight = mx.array(GAIN * np.linalg.solve(within, held.T @ targets).T, mx.float32)


@pytest.fixture(scope="module", params=["medusa", "mlp_speculator"])
def taught(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("taught")
    path = rewritten(tiny_mlx.write(place / "llama", "llama"), softened)
    wide = {"inner_dim": 128} if request.param == "mlp_speculator" else {}
    written = tiny_mlx.WRITERS[request.param](path, place / "head", **wide)
    model = load_model(path)[0]
    head = staged(configuration.read(written), model, 384)
    teach(head, model)
    weights = {authors(name): array for name, array in tree_flatten(head.parameters())}
    [file] = written.glob("*.safetensors")
    mx.save_safetensors(str(file), weights)
    return SimpleNamespace(target=path, head=written, weights=weights, kind=request.param)


def authors(name):
    """Name a tensor as the authors of its head do."""
    _, stage, part, *rest = name.split(".")
    if part == "blocks":
        return f"{stage}.{rest[0]}.linear.{rest[1]}"
    return f"{stage}.1.weight" if part == "out" else f"speculator.{part}.{stage}.{rest[0]}"


def told(taught, head, slots=4):
    """Replies to prompts that no head was taught, plain and with drafts."""
    options = replace(OPTIONS, slots=slots, head=head)
    with closing(mlx.load(taught.target, options)) as model:
        wants = [Want([301 + 7 * at, 3 + at], Settings(max_tokens=24)) for at in range(8)]
        plain = replies(model, Silent(), wants)
        return said(plain), replies(model, HeadProposer(model.head, floor=0.0), wants)


def share(found):
    """The share of drafted tokens that were accepted."""
    drafted = sum(result.speculation.drafted for result in found)
    assert drafted > 30
    return sum(result.speculation.accepted for result in found) / drafted


@pytest.mark.parametrize("slots", [1, 8])
def test_stages_that_were_taught_are_right_far_more_often_than_chance(taught, slots):
    plain, fast = told(taught, taught.head, slots)
    assert said(fast) == plain
    assert share(fast) > 0.25  # chance is one in 384


def test_shuffled_stages_change_no_text(taught, tmp_path):
    order = mx.array(np.random.default_rng(2).permutation(384))
    weights = {n: a[order] if len(a) == 384 else a for n, a in taught.weights.items()}
    held = {name: np.array(array) for name, array in weights.items()}
    config = json.loads((taught.head / "config.json").read_text())
    head = stored(tmp_path / "head", held, **config)
    plain, fast = told(taught, head)
    assert said(fast) == plain
    assert share(fast) < 0.1


def test_texts_that_stages_drafted_follow_the_targets_distribution(taught):
    options = replace(OPTIONS, slots=8, head=taught.head)
    with closing(mlx.load(taught.target, options)) as model:
        distribution = texts_distribution(model, [301, 9], 3)
        settings = Settings(max_tokens=3, sampling=NARROW, ignore_end=True)
        wants = [Want([301, 9], replace(settings, seed=seed)) for seed in range(600)]
        answers = replies(model, HeadProposer(model.head, floor=0.0), wants)
    assert sum(result.speculation.accepted for result in answers) > 30
    counts = Counter(result.tokens for result in answers)
    statistic, freedom = chi_square(counts, distribution, len(answers))
    assert statistic < limit(freedom)
