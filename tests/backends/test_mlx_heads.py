"""Heads of MLX folders, in every layout that people have, and what they cost."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import replace
from functools import partial

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx
from mlx_lm.models.cache import KVCache, make_prompt_cache
from mlx_lm.utils import load_model

from localspec.base.errors import ModelFileError, UsageError
from localspec.base.tokens import tokens_of
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import MAX_HEAD_LAG, Next, Roll, Row
from localspec_mlx import backend as mlx
from localspec_mlx.heads.assistant import Assistant, Looked
from localspec_mlx.heads.dflash import DFlash
from localspec_mlx.heads.eagle3 import Eagle3
from localspec_mlx.heads.loading import weighed
from localspec_mlx.heads.mtp import QwenHead
from localspec_mlx.heads.tap import Tap
from tests import engines, tiny_mlx

DEPTH = 4
# First layers are held against a model of these layers, in test_mlx_layerskip.py.
OTHERS = {name: of for name, of in tiny_mlx.WITH_HEADS.items() if name != "llama-layerskip"}
TEXT = np.random.default_rng(3).integers(300, 380, 40).astype(np.int32)
OPTIONS = replace(engines.OPTIONS, threads=None)


def loaded(folder, head=None):
    return mlx.load(folder, replace(OPTIONS, head=head or folder))


def rolled(model, slot=0, text=TEXT, depth=DEPTH):
    sampler = Sampler(GREEDY, 0, text)
    [draft] = model.head.roll([Roll(Row(slot, text[-1:]), depth, sampler, len(text))])
    return draft


def drafted(model):
    model.forward([Row(0, TEXT[:-1])])
    return rolled(model).tokens.tolist()


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tiny_mlx.write_with_head(tmp_path_factory.mktemp("heads") / "whole", "qwen3_5")


@pytest.fixture(scope="module")
def expected(folder):
    with closing(loaded(folder)) as model:
        drafts = drafted(model)
    assert len(drafts) == DEPTH
    return drafts


def companion(target, folder, **config):
    """Write the head of a target as mlx-vlm cuts it out."""
    folder.mkdir()
    text = json.loads((target / "config.json").read_text())
    settings = {"model_type": "qwen3_5_mtp", "text_config": text, "block_size": 3} | config
    (folder / "config.json").write_text(json.dumps(settings))
    weights = tiny_mlx.head_weights(target)
    mx.save_safetensors(str(folder / "model.safetensors"), weights, metadata={"format": "mlx"})
    return folder


def test_a_head_in_a_folder_of_its_own_is_the_one_inside(folder, expected, tmp_path):
    head = companion(folder, tmp_path / "mtp")
    with closing(loaded(folder, head)) as model:
        assert drafted(model) == expected
        assert model.head.proposer == "mtp"
    assert mlx.inspect(head).drafter == "mtp"


ZERO_CENTRED = ("layernorm.weight", "model.norm.weight", "q_norm.weight", "k_norm.weight")
EXPERTS = tiny_mlx.EXPERTS | {"shared_expert_intermediate_size": 32}
PUBLISHED = {
    "qwen3_5": {},
    "qwen3_5_moe": {**tiny_mlx.ARCHITECTURES["qwen3_5"], **EXPERTS},
    "qwen3_next": EXPERTS,
}


def as_published(folder, architecture):
    """Name and lay out weights as Qwen's own folders do, in place of mlx-lm's way."""
    drafts = {}
    for path in folder.glob("model*.safetensors"):
        for name, array in mx.load(str(path)).items():
            head = name.startswith("mtp.")
            name = name.removeprefix("language_model.")
            if architecture != "qwen3_next":
                name = name.replace("model.", "model.language_model.")
            if name.endswith("conv1d.weight"):
                array = array.swapaxes(1, 2)
            if array.ndim == 1 and (head or name.endswith(ZERO_CENTRED)):
                array = array - 1
            drafts[name] = array
        path.unlink()
    for name in [name for name in drafts if "switch_mlp.up" in name]:
        place = name.removesuffix("switch_mlp.up_proj.weight")
        parts = {
            p: drafts.pop(f"{place}switch_mlp.{p}_proj.weight") for p in ("gate", "up", "down")
        }
        if architecture == "qwen3_next":
            for part, arrays in parts.items():
                for at, each in enumerate(arrays):
                    drafts[f"{place}experts.{at}.{part}_proj.weight"] = each
        else:
            fused = mx.concatenate([parts["gate"], parts["up"]], axis=-2)
            drafts |= {f"{place}experts.gate_up_proj": fused}
            drafts |= {f"{place}experts.down_proj": parts["down"]}
    mx.save_safetensors(str(folder / "model.safetensors"), drafts, metadata={"format": "pt"})


@pytest.mark.parametrize("architecture", PUBLISHED)
def test_a_head_is_the_same_before_and_after_conversion(architecture, tmp_path):
    target = tiny_mlx.write_with_head(tmp_path / "made", architecture, **PUBLISHED[architecture])
    head = companion(target, tmp_path / "mtp")
    as_published(target, architecture)
    assert mlx.inspect(target).drafting_layers == 1
    with closing(loaded(target, head)) as model:
        apart = drafted(model)
    with closing(loaded(target)) as model:
        assert drafted(model) == apart
    assert len(apart) == DEPTH


def test_a_quantised_head_drafts(folder, tmp_path):
    head = companion(folder, tmp_path / "mtp", quantization={"group_size": 32, "bits": 8})
    weights = {}
    for name, array in mx.load(str(head / "model.safetensors")).items():
        parts = mx.quantize(array, 32, 8) if array.ndim == 2 else [array]
        places = (name, name.replace("weight", "scales"), name.replace("weight", "biases"))
        weights |= zip(places, parts, strict=False)
    mx.save_safetensors(str(head / "model.safetensors"), weights, metadata={"format": "mlx"})
    with closing(loaded(folder, head)) as model:
        assert len(drafted(model)) == DEPTH


def test_a_head_of_another_model_is_refused_with_the_numbers(folder, tmp_path):
    wide = tiny_mlx.write_with_head(tmp_path / "wide", "qwen3_5", hidden_size=128)
    with pytest.raises(ModelFileError, match="128 numbers, the model's 64"):
        loaded(folder, companion(wide, tmp_path / "mtp"))
    few = tiny_mlx.write(tmp_path / "few", "qwen3_5")
    with pytest.raises(UsageError, match="few has no drafting head"):
        loaded(few)
    with pytest.raises(UsageError, match="few is no drafting head"):
        loaded(folder, few)
    broken = companion(
        folder, tmp_path / "broken", text_config={"hidden_size": 64, "vocab_size": 384}
    )
    with pytest.raises(ModelFileError, match="the head in broken cannot be loaded"):
        loaded(folder, broken)


def test_an_assistant_may_choose_among_clusters_of_tokens(tmp_path):
    target = tiny_mlx.write(tmp_path / "made", "gemma4_text")
    clusters = {"use_ordered_embeddings": True, "num_centroids": 8}
    drafts = []
    for count in (8, 2):
        chosen = clusters | {"centroid_intermediate_top_k": count}
        head = tiny_mlx.write_assistant(target, tmp_path / f"head-{count}", **chosen)
        with closing(loaded(target, head)) as model:
            drafts.append(drafted(model))
    plain = tiny_mlx.write_assistant(target, tmp_path / "head")
    with closing(loaded(target, plain)) as model:
        assert drafted(model) == drafts[0] != drafts[1]  # of all clusters or of none


@pytest.mark.parametrize("bits", ["q8_0", "q4_0"])
@pytest.mark.parametrize(("name", "architecture"), OTHERS.items())
def test_a_head_drafts_over_quantised_keys_and_values(name, architecture, bits, tmp_path):
    kind = name.rpartition("-")[2]
    head = tiny_mlx.write_with_head(tmp_path / "made", architecture, kind, num_kv_shared_layers=0)
    drafts = []
    for kv_type in ("auto", bits):
        with closing(
            mlx.load(tmp_path / "made", replace(OPTIONS, head=head, kv_type=kv_type))
        ) as m:
            m.forward([Row(0, TEXT[:-1])])
            drafts.append(rolled(m, depth=1).confidences[0])
    assert drafts[0] == pytest.approx(drafts[1], rel=0.05 if bits == "q8_0" else 0.5)


def test_keys_that_layers_share_are_not_quantised(tmp_path):
    folder = tiny_mlx.write(tmp_path / "made", "gemma4_text")
    with pytest.raises(UsageError, match="cannot be quantised"):
        mlx.load(folder, replace(OPTIONS, kv_type="q8_0"))


def test_some_slots_draft_beside_others_that_read_with_them():
    with closing(engines.target("mlx gemma4_text-mtp")) as model:
        texts = [TEXT[:30], TEXT[5:25], TEXT[10:40]]
        rows = [Row(slot, text[-1:]) for slot, text in enumerate(texts)]
        for slot, text in enumerate(texts):
            model.forward([Row(slot, text[:-2])])
        model.forward([Row(slot, text[-2:-1]) for slot, text in enumerate(texts)])
        rolls = [Roll(rows[s], 3, Sampler(GREEDY, 0, texts[s]), len(texts[s])) for s in (2, 1)]
        drafts = [draft.tokens.tolist() for draft in model.head.roll(rolls)]
        alone = []
        for slot in (2, 1):
            model.truncate(3, 0)
            model.forward([Row(3, texts[slot][:-1])])
            alone.append(rolled(model, 3, texts[slot], 3).tokens.tolist())
        assert drafts == alone


def test_an_eagle3_head_is_the_same_in_either_layout(tmp_path):
    target, drafts = tiny_mlx.write(tmp_path / "made", "llama"), []
    for speculators in (False, True):
        head = tiny_mlx.write_eagle3(target, tmp_path / f"{speculators}", speculators=speculators)
        with closing(loaded(target, head)) as model:
            assert model.head.proposer == mlx.inspect(head).drafter == "eagle3"
            drafts.append(drafted(model))
        ids = np.arange(256) + np.array(mx.load(str(head / "model.safetensors"))["d2t"])
        assert set(drafts[-1]) <= set(ids.tolist())
    assert drafts[0] == drafts[1]


def test_an_eagle3_head_takes_what_it_lacks_from_its_target(tmp_path):
    target = tiny_mlx.write(tmp_path / "made", "llama")
    wide = {"hidden_size": 64}
    heads = [tiny_mlx.write_eagle3(target, tmp_path / name, **wide) for name in ("own", "none")]
    trunk = mx.load(str(target / "model.safetensors"))
    for head, lacks in zip(heads, (False, True), strict=True):
        place = str(head / "model.safetensors")
        weights = {n: a for n, a in mx.load(place).items() if n not in ("d2t", "t2d")}
        weights["embed_tokens.weight"] = trunk["model.embed_tokens.weight"]
        weights["lm_head.weight"] = trunk["lm_head.weight"]
        if lacks:
            del weights["embed_tokens.weight"], weights["lm_head.weight"]
        mx.save_safetensors(place, weights)
    drafts = []
    for head in heads:
        config = json.loads((head / "config.json").read_text())
        settings = config | {"draft_vocab_size": config["vocab_size"]}
        (head / "config.json").write_text(json.dumps(settings))
        with closing(loaded(target, head)) as model:
            drafts.append(drafted(model))
    assert drafts[0] == drafts[1]


def test_a_head_that_reads_a_layer_that_is_not_there_is_refused(tmp_path):
    target = tiny_mlx.write(tmp_path / "made", "llama")
    layers = {"eagle_config": {"eagle_aux_hidden_state_layer_ids": [0, 1, 3]}}
    head = tiny_mlx.write_eagle3(target, tmp_path / "head", **layers)
    with pytest.raises(ModelFileError, match="reads layer 4 of a model that has 3"):
        loaded(target, head)


def test_a_round_begins_its_target_and_its_next_draft_and_the_draft_asks_for_no_more(folder):
    with closing(loaded(folder)) as model:
        model.forward([Row(0, TEXT[:-1])])
        counts = [model.host.evaluations]
        draft = rolled(model)
        counts.append(model.host.evaluations)
        assert model.head.slots.length(0) == len(TEXT) - 2  # which it need not read again
        [logits] = model.forward([Row(0, np.append(TEXT[-1:], draft.tokens), DEPTH + 1, DEPTH)])
        text = np.append(TEXT, tokens_of([int(logits[0].argmax())]))
        model.truncate(0, len(TEXT))
        counts.append(model.host.evaluations)
        assert len(rolled(model, text=text)) == DEPTH
        counts.append(model.host.evaluations)
        # Each step of a draft is begun by itself, and none is waited for before the next one.
        assert np.diff(counts).tolist() == [DEPTH, 1 + DEPTH + 1, 0]


def test_plain_rounds_wait_no_more_often_than_without_a_head(folder):
    counts = []
    for head in (None, folder):
        with closing(mlx.load(folder, replace(OPTIONS, head=head))) as model:
            [row] = model.forward([Row(0, TEXT)])
            for at in range(MAX_HEAD_LAG + 5 - len(TEXT)):
                token = tokens_of([int(row[-1].argmax())])
                hint = Next(Sampler(GREEDY, 0, TEXT), len(TEXT) + at + 1)
                [row] = model.forward([Row(0, token, next=hint)])
            counts.append(model.host.reads)
    assert counts[0] == counts[1]


def test_states_of_tokens_that_were_fed_ahead_are_the_same(folder):
    with closing(loaded(folder)) as model:
        text = TEXT[:6]
        [row] = model.forward([Row(0, text)])
        for _ in range(5):
            text = np.append(text, tokens_of([int(row[-1].argmax())]))
            hint = Next(Sampler(GREEDY, 0, text), len(text))
            [row] = model.forward([Row(0, text[-1:], next=hint)])
        confidences = rolled(model, 0, np.append(text, TEXT[9])).confidences
        model.forward([Row(1, text)])
        assert rolled(model, 1, np.append(text, TEXT[9])).confidences == pytest.approx(confidences)


def test_the_plan_counts_what_a_head_adds(folder, tmp_path):
    head = companion(folder, tmp_path / "mtp")
    wishes = replace(OPTIONS, context=256)
    with mlx.rehearse(folder) as rehearsal:
        plain = rehearsal.needs(wishes)
        inside = rehearsal.needs(replace(wishes, head=folder))
        beside = rehearsal.needs(replace(wishes, head=head))
    sizes = sum(array.nbytes for array in tiny_mlx.head_weights(folder).values())
    assert inside == beside
    assert plain.head == 0
    assert inside.weights == plain.weights
    keys = 4 * 256 * rehearsal.footprint.kv_bytes_per_token  # one layer, as the target has one
    assert inside.head - sizes - keys == 4 * (2 + MAX_HEAD_LAG + 8) * 64 * 2


def test_the_plan_counts_the_keys_and_states_of_each_kind(tmp_path):
    target = tiny_mlx.write(tmp_path / "llama", "llama")
    gemma = tiny_mlx.write(tmp_path / "gemma", "gemma4_text")
    heads = {  # bytes of a token's keys, and layers that are read
        tiny_mlx.write_assistant(gemma, tmp_path / "assistant"): (gemma, 0, 1),
        tiny_mlx.write_eagle3(target, tmp_path / "eagle3"): (target, 2 * 32 * 2, 3),
        tiny_mlx.write_dflash(target, tmp_path / "dflash"): (target, 2 * 2 * 32 * 2, 2),
    }
    for head, (its, token_bytes, layers) in heads.items():
        with mlx.rehearse(its) as rehearsal:
            needs = rehearsal.needs(replace(OPTIONS, head=head))
        states = (2 + MAX_HEAD_LAG + 8) * 64 * 2 * layers
        assert needs.head - mlx.inspect(head).weight_bytes == 4 * (512 * token_bytes + states)


def anew(states, step, tokens=TEXT):
    """Draft by reading all of a text again for each token, with nothing kept from the last."""
    text, states = mx.array(tokens[1:])[None], states[None]
    for _ in range(DEPTH):
        own, outputs, logits = step(text, states)
        states = mx.concatenate([states, own], axis=1)
        text = mx.concatenate([text, mx.argmax(logits(outputs), axis=-1)[None]], axis=1)
    return text[0, -DEPTH:].tolist()


def block_of(target, place, windows=(99, 99)):
    """Fill a block behind the text by hand; return the head, its model, and its last states."""
    model = load_model(target)[0]
    tap = Tap([model.layers[0], model.layers[2]])
    head = weighed(place, partial(DFlash, model))
    model(mx.array(TEXT[:-1])[None])
    context = head.hidden_norm(head.fc(tap.take_states()))
    held = context.shape[1]
    x = model.model.embed_tokens(mx.array([[int(TEXT[-1])] + [1] * (head.size - 1)]))
    at = mx.arange(held + head.size)
    for layer, window in zip(head.layers, windows, strict=True):
        mask = at > at[:, None] - window

        def attend(x, layer=layer, mask=mask):
            return layer.self_attn(mx.concatenate([context, x], axis=1), mask)[:, held:]

        x = x + mixed(layer, "attention_conv", attend, layer.input_layernorm(x))
        x = x + mixed(layer, "mlp_conv", layer.mlp, layer.post_attention_layernorm(x))
    return head, model.language_model.lm_head, head.norm(x)[0]


def mixed(layer, name, by, x):
    """Convolve what goes into a sublayer and what comes out of it, place by place."""
    if name not in layer:
        return by(x)
    conv, size = layer[name], x.shape[1]
    moving = conv.kernel_projection(x).reshape(size, 2, 3, 4)  # by place, sublayer's end, group

    def convolve(x, end):
        base = conv.base_kernel[end].reshape(3, 4, 16)
        rows = x.reshape(size, 4, 16)
        return mx.stack(
            [
                sum(
                    (base[back] + moving[at, end, back][:, None]) * rows[at - back]
                    for back in range(min(3, at + 1))
                )
                for at in range(size)
            ]
        ).reshape(x.shape)

    return convolve(by(convolve(x, 0)), 1)


@pytest.mark.parametrize("windowed", [False, True])
def test_a_dflash_head_fills_a_block_by_what_its_target_holds(windowed, tmp_path):
    kinds = {"layer_types": ["sliding_attention", "full_attention"], "sliding_window": 9}
    target = tiny_mlx.write(tmp_path / "made", "qwen3_5")
    place = tiny_mlx.write_dflash(target, tmp_path / "head", **(kinds if windowed else {}))
    _, output, states = block_of(target, place, (9 if windowed else 99, 99))
    with closing(loaded(target, place)) as ours:
        ours.forward([Row(0, TEXT[:-1])])
        drafted_tokens = rolled(ours, depth=8).tokens.tolist()
        assert drafted_tokens == mx.argmax(output(states[1:]), axis=-1).tolist()
        assert ours.head.proposer == mlx.inspect(place).drafter == "dflash"


@pytest.mark.parametrize("kind", ["dspark", "dflash2"])
def test_later_kinds_of_dflash_choose_each_token_by_the_one_before_it(kind, tmp_path):
    target = tiny_mlx.write(tmp_path / "made", "qwen3_5")
    place = tiny_mlx.write_dflash(target, tmp_path / "head", later=tiny_mlx.LATER[kind])
    head, output, states = block_of(target, place)
    assert head.size == 6
    newest, expected = int(TEXT[-1]), []
    for state in states if kind == "dspark" else states[1:]:
        scores = np.array(output(state), np.float64)
        if kind == "dspark":
            table = head.markov_head
            scores += np.array(table.markov_w2.weight @ table.markov_w1.weight[newest])
        else:
            table = head.candidate_selector
            wanted = table.predecessor_codebook.weight[newest] * table.hidden_projection(state)
            likely = np.argsort(-scores)[:5]
            low = np.full(len(scores), -np.inf)
            low[likely] = (scores + np.array(table.successor_codebook.weight @ wanted))[likely]
            scores = low
        newest = int(scores.argmax())
        expected.append(newest)
    with closing(loaded(target, place)) as ours:
        ours.forward([Row(0, TEXT[:-1])])
        assert rolled(ours, depth=8).tokens.tolist() == expected
        assert ours.head.proposer == mlx.inspect(place).drafter == "dflash"


def test_a_dflash_head_with_layers_of_another_kind_is_refused(tmp_path):
    target = tiny_mlx.write(tmp_path / "made", "llama")
    head = tiny_mlx.write_dflash(target, tmp_path / "head", later={"attention_sink_bias": True})
    with pytest.raises(ModelFileError, match="attention_sink_bias is True, of which only False"):
        loaded(target, head)


def chained(head):
    def step(text, states):
        own, outputs = head(text, states, [None])
        return own[:, -1:], outputs[:, -1], head.logits

    return step


def test_an_mtp_head_reads_each_token_with_the_state_before_it(folder, expected):
    target = load_model(folder)[0]
    head = weighed(folder, partial(QwenHead, target, frozenset()))
    states = target.model(mx.array(TEXT[:-1])[None])[0]
    assert anew(states, chained(head)) == expected


def test_an_eagle3_head_reads_each_token_with_the_states_before_it(tmp_path):
    place = tiny_mlx.write_with_head(tmp_path / "made", "qwen3_5", "eagle3")
    target = load_model(tmp_path / "made")[0]
    tap = Tap(target.layers)
    target(mx.array(TEXT[:-1])[None])
    head = weighed(place, partial(Eagle3, target, 384))
    with closing(loaded(tmp_path / "made", place)) as model:
        assert anew(head.fc(tap.take_states())[0], chained(head)) == drafted(model)


@pytest.mark.parametrize("length", [10, 40])
def test_an_assistant_looks_at_the_keys_of_its_target(length, tmp_path):
    place = tiny_mlx.write_with_head(tmp_path / "made", "gemma4_text")
    target, text = load_model(tmp_path / "made")[0], TEXT[:length]
    caches = [KVCache() for _ in make_prompt_cache(target)]
    states = target.model(mx.array(text[:-1])[None], cache=caches)[0]
    head = weighed(place, partial(Assistant, target))
    seen = {"full_attention": 0, "sliding_attention": max(0, length - tiny_mlx.WINDOW)}
    looked = {}
    for kind, at in head.sources.items():
        kept = (caches[at].keys, caches[at].values)
        parts = [part[..., seen[kind] : length - 1, :] for part in kept]
        looked[kind] = Looked((parts[0], parts[1]), None)

    def step(text, states):
        own, outputs = head(text[:, -1:], states[:, -1:], looked, mx.array([length - 1]))
        return own, outputs[:, -1], head.logits

    fresh = anew(states, step, text)
    with closing(loaded(tmp_path / "made", place)) as model:
        model.forward([Row(0, text[:-1])])
        draft = rolled(model, text=text)
        assert draft.tokens.tolist() == fresh
    _, outputs = head(mx.array(text[-1:])[None], states[None, -1:], looked, mx.array([length - 1]))
    likely = mx.softmax(head.logits(outputs[:, -1]), axis=-1).max().item()
    assert draft.confidences[0] == pytest.approx(likely, rel=5e-4)  # each key counts
