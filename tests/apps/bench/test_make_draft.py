"""A draft model of a model's own layers: the files, the search, and the command."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest
from gguf import GGUFReader

from localspec.apps.bench.make_draft import remaining_layers, verdict
from localspec.apps.bench.skipping import DEEPEST, LayerChoice, promised, search
from localspec.apps.cli import run
from localspec.base.errors import ModelFileError, UsageError
from localspec.core.proposers.draft_model import DraftModelProposer
from localspec.interfaces.backend import Row
from localspec_llamacpp import backend as llamacpp
from localspec_llamacpp.thinning import thin
from localspec_mlx.spec import SPEC as MLX
from tests import engines
from tests.backends.gguf_copies import copied, stored_as, tensor
from tests.backends.test_engines import ENDINGS, plain_replies, wants
from tests.runs import replies, said

TOKENS = np.random.default_rng(1).integers(0, 384, 30).astype(np.int32)
IDLE = ("attn_output", "ffn_down")  # without these a layer adds nothing


def logits(path, load=llamacpp.load, **options):
    with closing(load(path, replace(engines.OPTIONS, **options))) as model:
        return model.forward([Row(0, TOKENS, 5)])[0].copy()


@pytest.fixture
def idle(tmp_path):
    """A model whose layers but the first and last add nothing."""
    whole = engines.tiny("llama")
    zeros = {f"blk.1.{name}.weight" for name in IDLE}
    nothing = {name: np.zeros_like(tensor(whole, name)) for name in zeros}
    return copied(whole, tmp_path / "idle.gguf", tensors=nothing)


def test_a_file_without_layers_that_add_nothing_says_the_same(idle, tmp_path):
    out = tmp_path / "thin.gguf"
    thin(idle, [0, 2], out)
    assert np.array_equal(logits(out), logits(idle))
    found = llamacpp.inspect(out)
    assert (found.layers, found.name) == (2, f"{llamacpp.inspect(idle).name}, 2 of 3 layers")
    thin(idle, [1, 0], tmp_path / "other.gguf")
    assert not np.allclose(logits(tmp_path / "other.gguf"), logits(idle), atol=0.1)


def test_weights_are_copied_as_they_are_and_lists_of_layers_with_them(tmp_path):
    lists = {"llama.feed_forward_length": [96, 97, 98], "llama.rope.dimension_sections": [1, 2, 3]}
    whole = copied(engines.tiny("llama"), tmp_path / "lists.gguf", keys=lists)
    small = stored_as("q8_0", engines.tiny("llama"), tmp_path / "q8_0.gguf")
    thin(whole, [0, 2], tmp_path / "thin.gguf")
    thin(small, [2], tmp_path / "last.gguf")
    fields = GGUFReader(tmp_path / "thin.gguf").fields
    assert fields["llama.feed_forward_length"].contents() == [96, 98]
    assert fields["llama.rope.dimension_sections"].contents() == [1, 2, 3]
    assert fields["llama.block_count"].contents() == 2
    tokens = "tokenizer.ggml.tokens"
    assert fields[tokens].contents() == GGUFReader(whole).fields[tokens].contents()
    old = {each.name: each for each in GGUFReader(small).tensors}
    new = {each.name: each for each in GGUFReader(tmp_path / "last.gguf").tensors}
    assert new.keys() == {name for name in old if not name.startswith(("blk.1.", "blk.2."))}
    for name, each in new.items():
        same = old[name.replace("blk.0.", "blk.2.")]
        assert each.tensor_type == same.tensor_type
        assert np.array_equal(each.data, same.data)


def test_one_of_several_parts_is_refused_and_nothing_is_left(tmp_path):
    part = copied(engines.tiny("llama"), tmp_path / "part.gguf", keys={"split.count": 2})
    with pytest.raises(ModelFileError, match="join them first"):
        thin(part, [0], tmp_path / "out.gguf")
    assert [path.name for path in tmp_path.iterdir()] == ["part.gguf"]


@pytest.mark.skipif(sys.platform == "win32", reason="there is no MLX for Windows")
def test_a_folder_without_layers_that_add_nothing_says_the_same(tmp_path):
    from localspec_mlx import backend as mlx
    from tests import tiny_mlx
    from tests.backends.mlx_folders import rewritten

    def idle(model):
        for linear in (model.layers[1].self_attn.o_proj, model.layers[1].mlp.down_proj):
            linear.weight = linear.weight * 0

    folder = rewritten(tiny_mlx.write(tmp_path / "whole", "qwen3"), idle, layer_types=["a"] * 3)
    index = {"weight_map": {"model.layers.1.mlp.up_proj.weight": "model.safetensors"}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    MLX.thin(folder, [0, 2], tmp_path / "thin")
    assert mlx.inspect(tmp_path / "thin").layers == 2
    config = json.loads((tmp_path / "thin" / "config.json").read_text())
    assert config["layer_types"] == ["a"] * 2
    found = [logits(path, mlx.load, threads=None) for path in (folder, tmp_path / "thin")]
    assert np.array_equal(*found)


@pytest.mark.parametrize("slots", [1, 4])
def test_a_model_that_drafts_with_its_own_layers_says_its_plain_text(slots, tmp_path):
    thin(engines.tiny("llama"), [0, 2], tmp_path / "thin.gguf")
    settings = ENDINGS["length"]
    plain = plain_replies("llama", settings, 4, slots=slots)
    wishes = engines.roomy(replace(engines.OPTIONS, drafting=True, slots=slots))
    with (
        closing(engines.target("llama", slots=slots)) as target,
        closing(llamacpp.load(tmp_path / "thin.gguf", wishes)) as draft,
    ):
        proposer = DraftModelProposer(draft, floor=0.1)
        fast = replies(target, proposer, wants(target, settings, 4))
    assert said(fast) == said(plain)
    assert sum(result.speculation.drafted for result in fast) > 0


def test_the_search_takes_out_what_costs_least():
    tried = []

    def judge(layers):
        """Only layers 3 to 8 count; each of the others takes its time."""
        tried.append(tuple(layers))
        counts = sum(3 <= at < 9 for at in layers)
        found = LayerChoice(tuple(layers), counts / 6, len(layers) / 20)
        return promised(found, dict.fromkeys(range(1, DEEPEST + 2), 1.0))

    found = list(search(20, judge, lambda: False))
    best = max(found, key=lambda each: each.speedup)
    assert set(best.layers) == {2, 3, 4, 5, 6, 7, 8, 9}  # groups of two
    assert len(tried) < 10 + 4 * 9
    assert list(search(20, judge, lambda: True)) == []


def test_the_promise_is_the_textbooks():
    forwards = dict.fromkeys(range(1, DEEPEST + 2), 1.0)
    assert promised(LayerChoice((), 0.5, 0.25), forwards).speedup == pytest.approx(1.2)
    sure = promised(LayerChoice((), 1.0, 0.0), forwards)
    assert (sure.depth, sure.speedup) == (DEEPEST, DEEPEST + 1)
    steep = {width: float(width) for width in forwards}
    assert promised(LayerChoice((), 0.9, 0.1), steep).speedup < 1


def test_layers_are_left_out_by_number_and_range():
    assert remaining_layers("1-3, 5", 7) == (0, 4, 6)
    faults = {"5-3": "5-3 are not among", "7": "0 to 6", "x": "write", "0-6": "all"}
    for wish, fault in faults.items():
        with pytest.raises(UsageError, match=fault):
            remaining_layers(wish, 7)


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("the code is the code, and the return is the return of the code. " * 12)
    return str(path)


def test_the_command_writes_a_draft_and_tells_what_it_brings(idle, text, tmp_path, capsys):
    out = tmp_path / "out.gguf"
    arguments = ["--text", text, "--seconds", "20", "--out", str(out)]
    assert run(["make-draft", str(idle), *arguments]) == 0
    printed = capsys.readouterr().out
    assert "layers  agreement" in printed
    assert "     2       100%" in printed  # without the layer that adds nothing
    assert f"{out}: " in printed
    assert "of plain decoding" in printed
    assert f"--draft {out}" in printed
    assert llamacpp.inspect(out).layers in (1, 2)


def test_the_command_names_its_file_by_layers_and_overwrites_none(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    path = engines.tiny("llama")
    assert run(["make-draft", str(path), "--skip-layers", "1"]) == 0
    assert (tmp_path / f"{path.stem}-2of3-layers.gguf").exists()
    assert run(["make-draft", str(path), "--skip-layers", "2"]) == 2
    assert "is there already" in capsys.readouterr().err


def test_the_command_refuses_before_it_searches_what_it_could_not_write(text, tmp_path, capsys):
    path = str(engines.tiny("llama"))
    for out, fault in ((tmp_path / "none" / "a.gguf", "no folder"), (tmp_path, "is there already")):
        assert run(["make-draft", path, "--text", text, "--out", str(out)]) == 2
        printed, err = capsys.readouterr()
        assert (printed, fault in err) == ("", True)


def test_the_command_refuses_options_of_a_training_that_is_not_asked_for(capsys):
    for option in (["--budget", "3min"], ["--to", "gguf"]):
        assert run(["make-draft", str(engines.tiny("llama")), "--skip-layers", "1", *option]) == 2
        assert f"{option[0]} is for --train" in capsys.readouterr().err


def test_models_that_cannot_leave_out_layers_are_refused(text, capsys):
    refusals = {"gemma3": "several kinds", "lfm2": "several kinds", "qwen35-mtp": "several kinds"}
    for name, expected in refusals.items():
        assert run(["make-draft", str(engines.tiny(name)), "--skip-layers", "1"]) == 2
        assert expected in capsys.readouterr().err
    assert run(["make-draft", str(engines.tiny("llama"))]) == 2
    assert "--skip-layers 8-15" in capsys.readouterr().err


def test_a_verdict_says_when_it_does_not_pay():
    assert verdict(1.234, 3).endswith("1.23 of plain decoding")
    slower = "0.90 of plain decoding: it does not pay here, replies would be slower"
    assert verdict(0.9, 3).endswith(slower)
