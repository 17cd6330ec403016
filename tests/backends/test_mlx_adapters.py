"""LoRA adapters of MLX: they change logits as merged weights do, each at the scale of a request."""

from __future__ import annotations

import json
import shutil
import sys
from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx
from mlx.utils import tree_flatten
from mlx_lm.tuner.utils import linear_to_lora_layers
from mlx_lm.utils import load_model

from localspec.base.errors import BackendError, ModelFileError, UsageError
from localspec.base.tokens import tokens_of
from localspec.core.requests.engine import Engine
from localspec.core.requests.settings import Settings
from localspec.interfaces.adapter import Adapter
from localspec.interfaces.backend import Row
from localspec_mlx import backend as mlx
from localspec_mlx.folder.adapter import describe
from tests import engines
from tests.runs import Want, converse, said

TEXT = tokens_of([5, 3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9])
OWN = 20.0  # the scale that files give


def adapter(folder, seed=3, keys=None, kind="lora"):
    """Write a LoRA that changes what the tiny llama says."""
    folder.mkdir()
    network, _ = load_model(engines.tiny_folder("llama"))
    parameters = {"rank": 4, "scale": OWN, "dropout": 0.0} | ({"keys": keys} if keys else {})
    linear_to_lora_layers(network, 2, parameters, use_dora=kind == "dora")
    rng = np.random.default_rng(seed)
    weights = {
        name: mx.array(rng.normal(0, 0.1, value.shape).astype(np.float32))
        for name, value in tree_flatten(network.parameters())
        if "lora_" in name or name.endswith(".m")
    }
    mx.save_safetensors(str(folder / "adapters.safetensors"), weights)
    settings = {"fine_tune_type": kind, "num_layers": 2, "lora_parameters": parameters}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    return folder


def merged(folder, changes):
    """Write the tiny llama with adapters, each at a scale, in its weights."""
    shutil.copytree(engines.tiny_folder("llama"), folder)
    [path] = folder.glob("*.safetensors")
    weights = mx.load(str(path))
    for made, scale in changes:
        parts = mx.load(str(made / "adapters.safetensors"))
        for name in (name for name in parts if name.endswith("lora_a")):
            change = parts[name] @ parts[name.replace("lora_a", "lora_b")]
            layer = name.replace("lora_a", "weight")
            is_embedding = "embed" in name
            weights[layer] += OWN * scale * (change if is_embedding else change.T)
    mx.save_safetensors(str(path), weights, metadata={"format": "mlx"})
    return folder


def opened(path, *adapters):
    wishes = replace(engines.OPTIONS, threads=None, adapters=adapters)
    return closing(mlx.load(path, wishes))


def logits(model, slot=0):
    model.truncate(slot, 0)
    [logit] = model.forward([Row(slot, TEXT, outputs=9)])
    return np.array(logit)


def test_adapters_change_logits_as_merged_weights_do(tmp_path):
    base = engines.tiny_folder("llama")
    files = [
        adapter(tmp_path / "one", 1),
        adapter(tmp_path / "two", 2, ["self_attn.q_proj", "mlp.up_proj"]),
        adapter(tmp_path / "three", 3, ["self_attn.o_proj"]),
    ]
    with opened(base) as alone:
        plain = logits(alone)
    with opened(base, *(Adapter(file, 0.0) for file in files)) as model:
        assert (logits(model) == plain).all()
        for scales in (((0, 1.0),), ((1, -0.5),), ((0, 0.5), (1, 1.5), (2, 1.0))):
            model.adapt(scales)
            changes = [(files[number], scale) for number, scale in scales]
            with opened(merged(tmp_path / f"merged-{scales}", changes)) as expected:
                np.testing.assert_allclose(logits(model), logits(expected), atol=2e-3)
            assert abs(logits(model) - plain).max() > 0.05
        model.adapt(())
        assert (logits(model, slot=1) == plain).all()
    with opened(base, Adapter(files[0])) as model, opened(base, *map(Adapter, files)) as of_three:
        of_three.adapt(((0, 1.0),))
        assert (logits(model) == logits(of_three)).all()


@pytest.mark.parametrize("name", ["silent", "ngram"])
def test_each_reply_has_the_scales_of_its_request(name, tmp_path):
    files = [adapter(tmp_path / f"{seed}", seed) for seed in (1, 2)]
    adapters = tuple(Adapter(file, 0.0) for file in files)
    wants = [
        Want(TEXT.tolist(), Settings(max_tokens=20, ignore_end=True, adapters=scales))
        for scales in (None, {0: 1.0}, {1: 1.0}, {0: 0.5, 1: -0.5})
    ]
    with closing(engines.target("mlx llama", adapters=adapters)) as model:
        proposer, _ = engines.proposer(name, model)
        together = said(converse(Engine(model, proposer, 4), wants))
        alone = [said(converse(Engine(model, proposer, 4), [want]))[0] for want in wants]
    assert together == alone
    assert len(set(alone)) == len(wants)


def test_what_is_no_lora_is_taken_alone_and_as_it_is(tmp_path):
    base, made = engines.tiny_folder("llama"), adapter(tmp_path / "dora", kind="dora")
    with opened(base) as alone, opened(base, Adapter(made)) as model:
        assert abs(logits(model) - logits(alone)).max() > 0.05
        with pytest.raises(BackendError, match="adapter 0 is no LoRA"):
            model.adapt(())
    with pytest.raises(UsageError, match="takes it alone"), opened(base, Adapter(made, 0.5)):
        pass


def test_an_adapter_of_another_model_is_refused_by_name(tmp_path):
    made = adapter(tmp_path / "lora")
    with pytest.raises(ModelFileError, match="lora does not fit"):
        mlx.load(
            engines.tiny_folder("gpt_oss"),
            replace(engines.OPTIONS, threads=None, adapters=(Adapter(made),)),
        )


def test_the_folder_of_an_adapter_tells_what_it_is(tmp_path):
    facts = describe(adapter(tmp_path / "lora"))
    assert facts["kind"].startswith("lora adapter")
    assert (facts["rank"], facts["scale"]) == ("4", "20.0")
    assert describe(engines.tiny_folder("llama")) == {}
    (tmp_path / "lora" / "adapter_config.json").write_text("[]")
    assert describe(tmp_path / "lora") == {}
