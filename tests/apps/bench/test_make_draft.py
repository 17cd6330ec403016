"""A draft model of a model's own layers: the folder, the search, and the command."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from localspec.apps.bench.make_draft import remaining_layers, require_alike, verdict
from localspec.apps.bench.skipping import DEEPEST, LayerChoice, promised, search
from localspec.apps.command_line import run
from localspec.base.errors import UsageError
from localspec.interfaces.backend import Row
from localspec_mlx.spec import SPEC as MLX
from tests import engines

TOKENS = np.random.default_rng(1).integers(0, 384, 30).astype(np.int32)
with_mlx = pytest.mark.skipif(sys.platform == "win32", reason="there is no MLX for Windows")


def logits(path):
    from localspec_mlx import backend as mlx

    with closing(mlx.load(path, replace(engines.OPTIONS, threads=None))) as model:
        return model.forward([Row(0, TOKENS, 5)])[0].copy()


@pytest.fixture
def idle(tmp_path):
    """A model whose layers but the first and last add nothing."""
    from tests import tiny_mlx
    from tests.backends.mlx_folders import rewritten

    def still(model):
        for linear in (model.layers[1].self_attn.o_proj, model.layers[1].mlp.down_proj):
            linear.weight = linear.weight * 0

    return rewritten(tiny_mlx.write(tmp_path / "idle", "qwen3"), still, layer_types=["a"] * 3)


@with_mlx
def test_a_folder_without_layers_that_add_nothing_says_the_same(idle, tmp_path):
    from localspec_mlx import backend as mlx

    index = {"weight_map": {"model.layers.1.mlp.up_proj.weight": "model.safetensors"}}
    (idle / "model.safetensors.index.json").write_text(json.dumps(index))
    MLX.heads.thin(idle, [0, 2], tmp_path / "thin")
    assert mlx.inspect(tmp_path / "thin").layers == 2
    config = json.loads((tmp_path / "thin" / "config.json").read_text())
    assert config["layer_types"] == ["a"] * 2
    assert np.array_equal(logits(tmp_path / "thin"), logits(idle))
    MLX.heads.thin(idle, [1, 0], tmp_path / "other")
    assert not np.allclose(logits(tmp_path / "other"), logits(idle), atol=0.1)


def test_the_search_takes_out_what_costs_least():
    tried = []

    def judge(layers):
        """Only layers 3 to 8 count; each of the others takes its time."""
        tried.append(tuple(layers))
        counts = sum(3 <= at < 9 for at in layers)
        layer_choice = LayerChoice(tuple(layers), counts / 6, len(layers) / 20)
        return promised(layer_choice, dict.fromkeys(range(1, DEEPEST + 2), 1.0))

    layer_choice = list(search(20, judge, lambda: False))
    best = max(layer_choice, key=lambda each: each.speedup)
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


@with_mlx
def test_the_command_writes_a_draft_and_tells_what_it_brings(idle, text, tmp_path, capsys):
    from localspec_mlx import backend as mlx

    out = tmp_path / "out"
    arguments = ["--text", text, "--seconds", "20", "--out", str(out)]
    assert run(["make-draft", str(idle), *arguments]) == 0
    printed = capsys.readouterr().out
    assert "layers  agreement" in printed
    assert "     2       100%" in printed  # without the layer that adds nothing
    assert f"{out}: " in printed
    assert "of plain decoding" in printed
    assert f"--draft {out}" in printed
    assert mlx.inspect(out).layers in (1, 2)


@with_mlx
def test_the_command_names_its_folder_by_layers_and_overwrites_none(idle, monkeypatch, capsys):
    monkeypatch.chdir(idle.parent)
    model = idle.rename(idle.with_name("Idle2.5-0.5B"))
    assert run(["make-draft", str(model), "--skip-layers", "1"]) == 0
    assert (idle.parent / "Idle2.5-0.5B-2of3-layers" / "config.json").exists()
    assert run(["make-draft", str(model), "--skip-layers", "2"]) == 2
    assert "is there already" in capsys.readouterr().err


@with_mlx
def test_the_command_refuses_before_it_searches_what_it_could_not_write(text, tmp_path, capsys):
    path = str(engines.tiny_folder("llama"))
    for out, fault in ((tmp_path / "none" / "a", "no folder"), (tmp_path, "is there already")):
        assert run(["make-draft", path, "--text", text, "--out", str(out)]) == 2
        printed, err = capsys.readouterr()
        assert (printed, fault in err) == ("", True)


def test_a_gguf_model_is_refused_with_what_to_use_instead(text, tmp_path, capsys):
    out = tmp_path / "out.gguf"
    for options in ([], ["--skip-layers", "1"], ["--text", text]):
        command = ["make-draft", str(engines.tiny("llama")), *options, "--out", str(out)]
        assert run(command) == 2
        printed, err = capsys.readouterr()
        assert (printed, out.exists()) == ("", False)
        assert "does not draft with some of a model's own layers: train a head with --train" in err
        assert "as --draft" in err


def test_the_command_refuses_options_of_a_training_that_is_not_asked_for(capsys):
    for option in (["--budget", "3min"], ["--to", "gguf"]):
        assert run(["make-draft", str(engines.tiny("llama")), *option]) == 2
        assert f"{option[0]} is for --train" in capsys.readouterr().err


@with_mlx
def test_models_that_cannot_leave_out_layers_are_refused(capsys):
    for name in ("gemma3_text", "lfm2", "qwen3_5-mtp"):
        assert run(["make-draft", str(engines.tiny_folder(name)), "--skip-layers", "1"]) == 2
        assert "several kinds" in capsys.readouterr().err
    assert run(["make-draft", str(engines.tiny_folder("llama"))]) == 2
    assert "--skip-layers 8-15" in capsys.readouterr().err


@with_mlx
def test_a_model_with_a_drafting_head_is_refused():
    from localspec_mlx import backend as mlx

    footprint = mlx.inspect(engines.tiny_folder("llama"))
    require_alike(footprint)
    with pytest.raises(UsageError, match="has a drafting head"):
        require_alike(replace(footprint, drafting_layers=1))


def test_a_verdict_says_when_it_does_not_pay():
    assert verdict(1.234, 3).endswith("1.23 of plain decoding")
    slower = "0.90 of plain decoding: it does not pay here, replies would be slower"
    assert verdict(0.9, 3).endswith(slower)
