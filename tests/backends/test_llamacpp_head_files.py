"""Heads in files of their own: they draft what llama-server drafts, and fit or are refused."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from localspec.base.errors import ModelFileError
from localspec.core.proposers.head import HeadProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.core.sampling.sampler import Sampler
from localspec.formats.grammar.grammar import Grammar
from localspec.interfaces.backend import Roll, Row
from localspec.running.memory.planner import Limits
from localspec.running.runtime.loading import Loading, load
from localspec_llamacpp import backend as llamacpp
from localspec_llamacpp.bindings.placement import HOST, LayerPlacement
from localspec_llamacpp.head_opening import beside
from tests import engines, tiny
from tests.backends.gguf_copies import copied
from tests.runs import Want, replies, said

TEXT = np.random.default_rng(3).integers(300, 380, 200).astype(np.int32)
# Two tokens behind each of eight pieces of the text, by heads whose drafted and accepted counts
# were those of llama-server over 20 prompts.
DRAFTED = {
    "llama-eagle3": "123 115 274 70 315 305 259 259 46 301 91 121 73 73 76 76",
    "qwen35-eagle3": "333 50 66 125 50 44 50 274 257 89 297 259 315 331 356 287",
    "llama-dflash": "104 360 262 276 273 273 77 77 77 310 122 294 326 326 273 273",
    "llama-dspark": "110 104 346 262 301 267 341 77 33 77 41 289 73 326 311 273",
    "llama-dflash2": "104 36 283 83 303 104 303 283 305 259 280 282 266 283 305 272",
    "qwen35-dflash": "276 299 57 57 270 64 301 57 270 286 343 343 306 52 286 286",
}
LIST = Grammar("json_schema", '{"type": "array", "items": {"type": "integer"}}')
CALL = Grammar("lark", 'start: "<call>" /[a-d]{3,9}/ "</call>"')
WISHES = (
    {"grammar": LIST},
    {"grammar": CALL},
    {"sampling": Sampling(repetition=1.3, presence=0.5)},
    {"logprobs": 3},
    {"sampling": Sampling(temperature=0.8, top_k=9), "logprobs": 2},
)


INSIDE = ("qwen35-mtp", "hy_v3-chain-mtp")


@pytest.mark.parametrize("name", DRAFTED)
def test_a_head_drafts_what_llama_server_drafts(name):
    drafts = []
    with closing(engines.target(name)) as model:
        for at in range(0, 80, 10):
            text = TEXT[at : at + 31]
            model.truncate(0, 0)
            model.forward([Row(0, text[:-1])])
            [draft] = model.head.roll([Roll(Row(0, text[-1:]), 2, Sampler(GREEDY, 0, text), 31)])
            drafts += draft.tokens.tolist()
    expected = [int(token) for token in DRAFTED[name].split()]
    assert sum(one != other for one, other in zip(drafts, expected, strict=True)) <= 2  # near-ties


@pytest.mark.parametrize("name", [*engines.BESIDE, engines.COMPANION, *INSIDE])
def test_requests_of_every_kind_share_rounds_with_a_head(name):
    with closing(engines.target(name, slots=len(WISHES))) as model:
        prompt = model.tokenizer.encode("def add(a, b)").tolist()
        wants = [
            Want([*prompt, 300 + at], Settings(max_tokens=12, seed=at, **wish))
            for at, wish in enumerate(WISHES)
        ]
        plain = [replies(model, Silent(), [want])[0] for want in wants[:-1]]
        fast = replies(model, HeadProposer(model.head, floor=0.0), wants)
    assert said(fast[:-1]) == said(plain)  # the last is drafted for by dice of its own
    longer = [result for result in fast if result.usage.completion_tokens > 2]
    assert all(result.speculation.drafted for result in longer)


MISFITS = {
    "another width": ({"eagle3.target_hidden_size": 65}, "65 numbers, the model's 64"),
    "a layer that is not there": (
        {"eagle3.target_layers": [1, 2, 9]},
        "layer 9, and the model",
    ),
}


@pytest.mark.parametrize("why", MISFITS)
def test_a_head_of_another_model_is_refused_with_the_numbers(why, tmp_path):
    path, head = engines.with_head("llama-eagle3")
    changes, message = MISFITS[why]
    wrong = copied(head, tmp_path / "wrong.gguf", changes)
    with pytest.raises(ModelFileError, match=message):
        llamacpp.load(path, replace(engines.OPTIONS, head=wrong))


def test_a_model_goes_without_a_head_that_does_not_fit(caplog, tmp_path):
    path, head = engines.with_head("llama-eagle3")
    wrong = copied(head, tmp_path / "wrong.gguf", MISFITS["another width"][0])
    loading = Loading(options=replace(engines.OPTIONS, context=256), depth=2)
    with load(path, wrong, loading) as runtime:
        assert runtime.facts.plan.options.head is None
        assert "eagle3" not in runtime.facts.proposers
        assert len(runtime.generate("the", Settings(max_tokens=3, ignore_end=True)).tokens) == 3
    assert "the drafting head is left out: wrong.gguf was made for another model" in caplog.text
    with pytest.raises(ModelFileError, match="was made for another model"):
        load(path, wrong, replace(loading, proposer="eagle3"))


@pytest.mark.parametrize(
    ("place", "expected"),
    [
        (HOST, HOST),
        (LayerPlacement(-1, (7,)), LayerPlacement(-1, (7,))),
        (LayerPlacement(-1, (7, 8), (3.0, 1.0)), LayerPlacement(-1, (7, 8), (0.0, 1.0))),
        (LayerPlacement(4, (7, 8)), LayerPlacement(-1, (7, 8), (0.0, 1.0))),
        (LayerPlacement(3, (7, 8)), LayerPlacement(0, (7, 8))),
    ],
)
def test_a_head_lies_with_the_output_and_reaches_all_devices(place, expected):
    assert beside(SimpleNamespace(layers=3), place) == expected


def test_a_head_is_left_away_before_the_context_is_cut_short():
    path, head = engines.with_head("llama-eagle3")
    loading = Loading(options=replace(engines.OPTIONS, slots=1, context=256), depth=2)
    with load(path, head, loading) as runtime:
        taken = sum(item.bytes for item in runtime.facts.plan.items)
        assert "drafting head" in {item.what for item in runtime.facts.plan.items}
    tight = replace(loading, limits=Limits(budget=taken - (1 << 16)))
    with load(path, head, tight) as runtime:
        [conceded] = runtime.facts.plan.concessions
        assert conceded.what.startswith("no drafting head")
        assert "eagle3" not in runtime.facts.proposers


def test_an_assistant_takes_memory_for_a_token_of_each_slot_whatever_a_batch_is():
    target, head = engines.companion()
    beside = {}
    with llamacpp.rehearse(target) as rehearsal:
        for batch in (64, 512):
            options = replace(engines.OPTIONS, batch=batch, gpu_layers=0)
            plain = rehearsal.needs(options).working
            beside[batch] = rehearsal.needs(replace(options, head=head)).working - plain
    states = 2 * (512 - 64) * tiny.WIDTH * 4
    assert beside[512] - beside[64] == states
