"""The first layers of an MLX model draft for it, in its own keys and values."""

from __future__ import annotations

import gc
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx

from localspec.apps.command_line import run
from localspec.base.errors import ModelFileError
from localspec.base.tokens import tokens_of
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Next, Options, Roll, Row
from localspec.running.memory.planner import Limits, plan_pair
from localspec.running.runtime.loading import Loading, load
from localspec.running.runtime.pair_files import PairFiles
from localspec_mlx import backend as mlx
from localspec_mlx.layers import STEP
from localspec_mlx.spec import SPEC
from tests import engines, tiny_mlx

OPTIONS = replace(engines.OPTIONS, threads=None)
TEXT = np.random.default_rng(3).integers(300, 380, 60).astype(np.int32)
DEPTH = 5


def written(folder, architecture="llama", layers=2, **changes):
    target = tiny_mlx.write(folder / "whole", architecture, **changes)
    SPEC.heads.thin(target, range(layers), folder / "first")
    return target, folder / "first"


def asked(model, slot, text):
    [draft] = model.roll([Roll(Row(slot, text[-1:]), DEPTH, Sampler(GREEDY, 0, text), len(text))])
    return draft


def read(model, slot, text, piece=25):
    for at in range(0, len(text), piece):
        [logit] = model.forward([Row(slot, text[at : at + piece])])
    return logit[-1].copy()


@pytest.mark.parametrize(
    ("architecture", "kv_type"),  # of gpt_oss, the first layer has a window
    [("llama", "auto"), ("llama", "q8_0"), ("llama", "q4_0"), ("gpt_oss", "auto")],
)
def test_a_draft_is_that_of_a_model_of_these_layers(architecture, kv_type, tmp_path):
    target, first = written(tmp_path, architecture)
    texts = [TEXT[:7], TEXT[5:], TEXT[20:50]]
    options = replace(OPTIONS, kv_type=kv_type)
    with closing(mlx.load(first, replace(options, drafting=True))) as draft:
        expected = []
        for text in texts:
            draft.truncate(0, 0)
            read(draft, 0, text[:-1])
            expected.append(asked(draft, 0, text))
    with closing(mlx.load(target, replace(options, head=first))) as model:
        for slot, text in enumerate(texts):
            read(model, slot, text[:-2])
        model.forward([Row(slot, text[-2:-1]) for slot, text in enumerate(texts)])
        for slot in (2, 0, 1, 1):  # beside rows that draft nothing
            drafts = asked(model.head, slot, texts[slot])
            assert drafts.tokens.tolist() == expected[slot].tokens.tolist()
            assert drafts.confidences == pytest.approx(expected[slot].confidences, rel=1e-3)
        assert [model.truncate(slot, 99) for slot in range(3)] == [6, 54, 29]


@pytest.mark.parametrize("architecture", ["llama", "gpt_oss"])
def test_a_target_says_the_same_whatever_was_drafted_in_its_cells(architecture, tmp_path):
    """Also in slots that drafted nothing, behind shorter texts, and in copies."""
    target, first = written(tmp_path, architecture)
    end = tokens_of([350])
    with closing(mlx.load(target, replace(OPTIONS, head=first))) as model:
        for slot, text in enumerate((TEXT, TEXT[10:], TEXT[:30])):
            read(model, slot, text[:-1])
        model.forward([Row(slot, end) for slot in range(3)])
        for slot, text in enumerate((TEXT, TEXT[10:])):
            asked(model.head, slot, np.concatenate((text[:-1], end, TEXT[:1])))
        held = model.truncate(0, 40)
        assert asked(model.head, 0, np.append(TEXT[:40], TEXT[9])).tokens.size == DEPTH
        assert model.copy(0, 3, held) == held == 40
        held = [40, 50, 30, 40]
        texts = [TEXT[:40], np.append(TEXT[10:-1], end), np.append(TEXT[:29], end), TEXT[:40]]
        rows = [
            Row(s, np.append(text[n:], TEXT[7:12]), 5)
            for s, (n, text) in enumerate(zip(held, texts, strict=True))
        ]
        found = [each.copy() for each in model.forward(rows)]
    with closing(mlx.load(target, OPTIONS)) as model:
        for text, logits in zip(texts, found, strict=True):
            model.truncate(0, 0)
            read(model, 0, text)
            [plain] = model.forward([Row(0, TEXT[7:12], 5)])
            assert np.allclose(logits, plain, atol=1e-3)


def test_what_was_begun_ahead_is_begun_again_behind_a_draft(tmp_path):
    """A draft of other weights left its keys at the token that had been fed ahead."""
    target, first = written(tmp_path)
    place = str(first / "model.safetensors")
    half = {name: (each * 3).astype(mx.float16) for name, each in mx.load(place).items()}
    mx.save_safetensors(place, half, metadata={"format": "mlx"})
    texts = []
    with closing(mlx.load(target, replace(OPTIONS, head=first))) as model:
        for drafts in (False, True):
            model.truncate(0, 0)
            text = TEXT[:-1]
            read(model, 0, text[:-1])
            rows = [Row(0, text[-1:])]
            for _ in range(4):
                [row] = model.forward(
                    [r._replace(next=Next(Sampler(GREEDY, 0, text), len(text))) for r in rows]
                )
                text = np.append(text, tokens_of([int(row[-1].argmax())]))
                rows = [Row(0, text[-1:])]
                if drafts:
                    assert asked(model.head, 0, text).tokens.size
            texts.append(row[-1].copy())
    assert np.array_equal(*texts)


def test_nothing_is_planned_or_taken_for_first_layers(tmp_path):
    target, first = written(tmp_path, hidden_size=256)
    sizes = []
    for head in (None, first):
        gc.collect()
        before = mx.get_active_memory()
        with closing(mlx.load(target, replace(OPTIONS, head=head))) as model:
            read(model, 0, TEXT)
            sizes.append(mx.get_active_memory() - before)
    of_its_own = STEP * mlx.inspect(first).kv_bytes_per_token  # keys alone, in 16 bits
    assert abs(sizes[1] - sizes[0]) < of_its_own
    with PairFiles.locate(target, first, "mlx").examine() as examined:
        plan = plan_pair(*examined, Options(context=512, head=first), Limits(), insists=True)
    assert plan.options.head == first
    assert {item.what for item in plan.items} == {"weights", "context", "buffers"}


def test_first_layers_are_a_head_of_their_model_and_other_layers_a_draft_model(tmp_path):
    target, first = written(tmp_path)
    other = tiny_mlx.write(tmp_path / "other", "llama", seed=1)
    SPEC.heads.thin(target, [0, 2], tmp_path / "odd")
    drafters = {}
    for draft in (first, tmp_path / "odd"):
        with PairFiles.locate(target, draft, "mlx").examine() as examined:
            drafters[draft.name] = examined.drafter, examined.head
    assert drafters == {"first": ("layerskip", first), "odd": ("draft-model", None)}
    with pytest.raises(ModelFileError, match=f"it holds the first layers of {target.resolve()}"):
        mlx.load(other, replace(OPTIONS, head=first))


def test_layers_of_a_recurrent_model_remain_a_draft_model(tmp_path):
    target, first = written(tmp_path, "mamba2")
    with PairFiles.locate(target, first, "mlx").examine() as examined:
        assert examined.drafter == "draft-model"


@pytest.mark.parametrize("kv_type", ["auto", "q8_0"])
def test_a_model_and_its_first_layers_run_by_name(kv_type, tmp_path):
    target, first = written(tmp_path)
    options = replace(OPTIONS, kv_type=kv_type, slots=2)
    settings, texts = Settings(max_tokens=24, ignore_end=True), []
    for draft, proposer in ((None, "none"), (first, "layerskip")):
        loading = Loading(options=options, proposer=proposer, depth=4 if draft else 0)
        with closing(load(target, draft, loading)) as runtime:
            result = runtime.generate("def add(a, b):", settings)
            texts.append(result.text)
            assert bool(result.speculation.drafted) == bool(draft)
    assert texts[0] == texts[1]


def test_the_command_times_first_layers_as_what_they_are(tmp_path, capsys):
    target, _ = written(tmp_path)
    text, out = tmp_path / "text.txt", tmp_path / "made"
    text.write_text("the code is the code, and the return is the return of the code. " * 12)
    arguments = ["--skip-layers", "2", "--text", str(text), "--out", str(out)]
    assert run(["make-draft", str(target), *arguments]) == 0
    printed = capsys.readouterr().out
    assert f"{out}: 2 of 3 layers" in printed
    assert "of plain decoding" in printed
