"""LoRA adapters of llama.cpp: they change logits as merged weights do, and hurt nothing."""

from __future__ import annotations

from contextlib import ExitStack, closing, nullcontext
from dataclasses import replace

import numpy as np
import pytest

from localspec.base.errors import LocalSpecError, ModelFileError, UsageError
from localspec.base.tokens import tokens_of
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.requests.settings import Settings
from localspec.interfaces.adapter import Adapter
from localspec.interfaces.backend import Options, Row
from localspec.running.models import trial
from localspec.running.models.locate import ModelFiles
from localspec.running.models.trial_process import TrialProcess
from localspec_llamacpp import backend as llamacpp
from tests import engines
from tests.arrangements import Running
from tests.backends.gguf_copies import tensor
from tests.backends.lora_files import RANK, adapter, factors, merged, written
from tests.runs import TEXTS, Want, replies, said

PRECISE = {"kv_type": "f32", "flash_attention": False}
TEXT = tokens_of([5, 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9])
POET = ((0, 1.0),)


def opened(path, *adapters, **options):
    wishes = replace(engines.OPTIONS, adapters=adapters, **options)
    return closing(llamacpp.load(path, engines.roomy(wishes)))


def logits(model, slot=0):
    model.truncate(slot, 0)
    [logit] = model.forward([Row(slot, TEXT, outputs=9)])
    return logit.copy()


def apart(one, other):
    return float(abs(one - other).max())


@pytest.mark.parametrize("architecture", ["llama", "gemma3", "qwen35", "glm4moe-experts"])
def test_an_adapter_changes_logits_as_merged_weights_do(architecture, tmp_path):
    base = engines.tiny(architecture)
    made = [factors(base, seed=1), factors(base, seed=2, changed=("attn_output", "ffn_up"))]
    files = [written(tmp_path / f"{at}.gguf", base, each) for at, each in enumerate(made)]
    with opened(base, *map(Adapter, files), **PRECISE) as model, opened(base, **PRECISE) as alone:
        plain = logits(alone)
        for scales in (POET, ((1, -0.5),), ((0, 0.5), (1, 2.0))):
            model.adapt(scales)
            changes = [(scale, made[number]) for number, scale in scales]
            path = merged(tmp_path / f"merged-{scales}.gguf", base, changes)
            with opened(path, **PRECISE) as expected:
                assert apart(logits(model), logits(expected)) < 1e-3
            assert apart(logits(model), plain) > 0.1


def test_a_scale_of_zero_is_the_base_to_the_bit(tmp_path):
    base = engines.tiny("llama")
    file = adapter(tmp_path / "poet.gguf", base)
    with opened(base) as alone:
        plain = logits(alone)
    with opened(base, Adapter(file, 0.0)) as model:
        assert (logits(model) == plain).all()
        model.adapt(POET)
        adapted = logits(model)
        assert apart(adapted, plain) > 0.1
        model.adapt(())
        assert (logits(model, slot=1) == plain).all()
        model.adapt(POET)
        assert (logits(model, slot=2) == adapted).all()
    with opened(base, Adapter(file)) as model:
        assert (logits(model) == adapted).all()


SETS = (None, {0: 1.0}, {1: 1.0}, {0: 0.5, 1: -0.5})
KINDS = [
    *(("llama", name) for name in ("ngram", "llama", "translated")),
    *(("qwen35", name) for name in ("ngram", "llama")),
    *(("gemma3", "llama"), ("glm4moe-mtp", "mtp"), ("llama-eagle3", "eagle3")),
]


@pytest.mark.parametrize(("architecture", "name"), KINDS)
def test_texts_with_adapters_and_drafts_are_what_they_are_alone(architecture, name, tmp_path):
    """Two adapters, both and none at once, of which the draft model and the head know nothing."""
    base, _ = engines.with_head(architecture)
    files = [adapter(tmp_path / f"{seed}.gguf", base, seed) for seed in (1, 2)]
    adapters = (Adapter(files[0], 0.0), Adapter(files[1], 0.0))
    with ExitStack() as closing_all:
        target = engines.target(architecture, adapters=adapters)
        closing_all.callback(target.close)
        proposer, models = engines.proposer(name, target)
        for model in models:
            closing_all.callback(model.close)
        wants = [
            Want(
                target.tokenizer.encode(text).tolist(),
                Settings(max_tokens=40, ignore_end=True, adapters=scales),
            )
            for text, scales in zip(TEXTS, SETS, strict=True)
        ]
        plain = [replies(target, Silent(), [want])[0] for want in wants]
        fast = replies(target, proposer, wants)
        most = None if Running.now.on_cpu else Running.now.compared
        assert [r.tokens[:most] for r in fast] == [r.tokens[:most] for r in plain]
        assert sum(result.speculation.drafted for result in fast) > 0
        texts = [replies(target, Silent(), [replace(wants[0], settings=w.settings)]) for w in wants]
        assert len({said(each)[0] for each in texts}) == len(SETS)


def test_scales_change_while_others_stream(tmp_path):
    base = engines.tiny("llama")
    file = adapter(tmp_path / "poet.gguf", base)
    with opened(base, Adapter(file)) as model:
        prompt = model.tokenizer.encode(TEXTS[0]).tolist()
        long, short = (
            [
                Want(prompt, Settings(max_tokens=length, ignore_end=True, adapters=scales))
                for scales in (None, {}, {0: 0.25})
            ]
            for length in (120, 12)
        )
        alone = [said(replies(model, Silent(), [want]))[0] for want in (*long, *short)]
        engine, events = Engine(model, Silent()), [[] for _ in alone]
        for at, want in enumerate((*long, *short)):  # the short ones come and go meanwhile
            engine.add(engine.prepare(tokens_of(want.prompt), want.settings, events[at].append))
            for _ in range(8):
                engine.step()
        while engine.busy:
            engine.step()
        together = said([heard[-1] for heard in events])
        most = None if Running.now.on_cpu else Running.now.compared
        assert [text[1][:most] for text in together] == [text[1][:most] for text in alone]


def test_the_plan_counts_an_adapters_bytes_where_its_layers_are(tmp_path):
    base = engines.tiny("llama")
    made = factors(base)
    adapters = (Adapter(written(tmp_path / "poet.gguf", base, made), 0.0),) * 2
    options = Running.now.arranged(engines.OPTIONS)
    with llamacpp.rehearse(base) as rehearsal:
        plain, adapted = (
            rehearsal.needs(replace(options, adapters=each)) for each in ((), adapters)
        )
    total = 2 * sum(values.nbytes for values in made.values())
    assert adapted.weights - plain.weights == total
    pairs = zip(plain.devices, adapted.devices, strict=True)
    assert sum(after.weights - before.weights for before, after in pairs) in (0, total)


NORM = {"blk.0.attn_norm.weight": np.ones(64, np.float32)}
HEADERS = {
    "is for qwen3, and": ({"general.architecture": "qwen3"}, None),
    "is no LoRA adapter": ({"general.type": "model"}, None),
    "of kind dora": ({"adapter.type": "dora"}, None),
    "of kind None": ({"adapter.type": None}, None),
    "aLoRA": ({"adapter.alora.invocation_tokens": [1, 2]}, None),
    "alpha is no finite number": ({"adapter.lora.alpha": 8}, None),
    "no finite number": ({"adapter.lora.alpha": float("nan")}, None),
    "changes no weights": ({}, NORM),
    "is for 3 experts": ({}, {"blk.1.ffn_up_exps.weight.lora_b": np.ones((3, 96, 4))}),
}


@pytest.mark.parametrize("message", HEADERS)
def test_an_adapter_that_cannot_fit_is_refused_by_its_header(message, tmp_path):
    base, (keys, tensors) = engines.tiny("llama"), HEADERS[message]
    file = written(tmp_path / "poet.gguf", base, tensors or factors(base), keys)
    with pytest.raises((ModelFileError, UsageError), match=f"poet.gguf .*{message}"):
        llamacpp.load(base, replace(engines.OPTIONS, adapters=(Adapter(file),)))


def test_what_is_no_file_of_an_adapter_is_refused(tmp_path):
    base = engines.tiny("llama")
    cut, whole = tmp_path / "cut.gguf", adapter(tmp_path / "whole.gguf", base)
    cut.write_bytes(whole.read_bytes()[:-1000])
    for path, message in (
        (base, "is no LoRA adapter"),
        (cut, "cut short"),
        (tmp_path, "convert-adapter"),
        (tmp_path / "nowhere.gguf", "does not exist"),
    ):
        with pytest.raises((ModelFileError, UsageError), match=message):
            llamacpp.load(base, replace(engines.OPTIONS, adapters=(Adapter(path),)))
    with pytest.raises(ModelFileError, match=r"is a LoRA adapter, not a model.* as --adapter"):
        llamacpp.inspect(whole)


QUERY = "blk.0.attn_q.weight"


def shaped(**shapes):
    return {f"{QUERY}.lora_{part}": np.ones(shape) for part, shape in shapes.items()}


SHAPES = {
    "incorrect shape": shaped(a=(RANK, 63), b=(64, RANK)),
    "not transposed": shaped(a=(RANK, 64), b=(64, RANK + 1)),
    "missing one component": shaped(b=(64, RANK)),
    "unexpected suffix": shaped(a=(RANK, 64), b=(64, RANK), c=(2, 2)),
    "does not exist in base model": {
        f"blk.7.attn_q.weight.lora_{part}": np.ones(shape)
        for part, shape in (("a", (RANK, 64)), ("b", (64, RANK)))
    },
}


@pytest.mark.parametrize("message", SHAPES)
def test_an_adapter_of_other_shapes_is_refused_in_the_words_of_the_engine(message, tmp_path):
    base = engines.tiny("llama")
    file = written(tmp_path / "poet.gguf", base, SHAPES[message])
    with pytest.raises(UsageError, match=rf"poet\.gguf does not fit .*{message}"):
        llamacpp.load(base, replace(engines.OPTIONS, adapters=(Adapter(file),)))
    with opened(base, Adapter(adapter(tmp_path / "good.gguf", base))) as model:
        assert np.isfinite(logits(model)).all()


@pytest.mark.parametrize("scale", [1.0, 0.0])
def test_an_adapter_that_ends_the_engine_ends_a_process_of_its_own(scale, monkeypatch, tmp_path):
    """The factors of an embedding are multiplied without a look at their ranks."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    base = engines.tiny("llama")
    words = len(tensor(base, "token_embd.weight"))
    ranks = {"a": (words, RANK), "b": (64, RANK + 1)}
    tensors = {f"token_embd.weight.lora_{part}": np.ones(shape) for part, shape in ranks.items()}
    file = written(tmp_path / "poet.gguf", base, tensors)
    options = Options(threads=1, adapters=(Adapter(file, scale),))
    for _ in range(2):  # the second time without a process
        with (
            trial.examine(ModelFiles(engines.GGUF_ENGINE, base), TrialProcess) as looked,
            pytest.raises(LocalSpecError, match=r"with poet\.gguf cannot be used: "),
        ):
            looked.check_runs(options, 1 << 34)


def test_a_broken_adapter_is_tried_in_a_process_of_its_own(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    base = engines.tiny("llama")
    good, file = factors(base), tmp_path / "poet.gguf"
    nothing = {name: np.full_like(values, np.nan) for name, values in good.items()}
    for tensors, message in (
        (nothing, "computes numbers that are none"),
        (SHAPES["incorrect shape"], "poet.gguf does not fit .*incorrect shape"),
        (good, ""),  # another file under the name of one that failed
    ):
        written(file, base, tensors)
        expected = pytest.raises(LocalSpecError, match=message) if message else nullcontext()
        with trial.examine(ModelFiles(engines.GGUF_ENGINE, base), TrialProcess) as looked, expected:
            looked.check_runs(Options(threads=1, adapters=(Adapter(file),)), 1 << 34)
