"""Published heads that a training may begin with: read, or refused in words."""

from __future__ import annotations

import json

import numpy as np
import pytest

from localspec.apps.training.support import CHECKPOINT, layers_read
from localspec.base.errors import UsageError
from localspec.interfaces.trained_head import HeadShape, TrainedHead
from localspec.running.models import trial
from localspec_mlx.folder.head_writing import write_head
from tests import engines

pytestmark = pytest.mark.train  # safetensors are read by torch


@pytest.fixture
def target():
    return trial.footprint(engines.tiny("llama"), "llamacpp")


@pytest.fixture
def head(target):
    """A head of odd numbers, which drafts every third token."""
    width, tokens = target.embedding, np.arange(1, target.vocabulary, 3)
    shape = HeadShape(width, 4, 2, 16, 96, len(tokens), epsilon=1e-5, rope_base=500_000.0)
    random = np.random.default_rng(1)
    tensors = {
        name: random.normal(size=size).astype(np.float16).astype(np.float32)
        for name, size in shape.sizes.items()
    }
    layers = layers_read(target.layers)
    return TrainedHead(shape, layers, tokens, tensors, target.vocabulary, target.context)


@pytest.fixture
def folder(head, tmp_path):
    write_head(head, tmp_path, tmp_path / "head")
    return tmp_path / "head"


def changed(folder, **fields):
    path = folder / "config.json"
    config = json.loads(path.read_text()) | fields
    path.write_text(json.dumps({key: value for key, value in config.items() if value is not None}))


def test_a_head_in_a_folder_is_read_as_it_was_written(head, folder, target):
    from localspec.apps.training.published import read_head

    copy = read_head(folder, target)
    assert (copy.shape, copy.layers, copy.vocabulary) == (head.shape, head.layers, head.vocabulary)
    assert copy.tokens.tolist() == head.tokens.tolist()
    assert copy.tensors.keys() == head.tensors.keys()
    assert all(np.array_equal(copy.tensors[name], head.tensors[name]) for name in head.tensors)
    changed(folder, rope_theta=None, rope_parameters={"rope_theta": 9.0, "rope_type": "default"})
    assert read_head(folder, target).shape.rope_base == 9.0


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"hidden_size": 32}, "it has 32 numbers a state, and must have "),
        ({"vocab_size": 151_936}, "it has 151,936 tokens in its vocabulary, and must have "),
        ({"num_hidden_layers": 2}, "it has 2 layers, and must have 1"),
        ({"norm_before_residual": True}, "norm_before_residual"),
        ({"rope_parameters": {"rope_type": "llama3"}}, "rope_type llama3"),
        ({"eagle_aux_hidden_state_layer_ids": [1, 1, 2]}, "it reads layers (1, 1, 2)"),
        ({"eagle_config": {"eagle_aux_hidden_state_layer_ids": [4, 5, 6]}}, "layers (5, 6, 7)"),
        ({"intermediate_size": 100}, "midlayer.mlp.gate_proj is (96, "),
        ({"draft_vocab_size": 10}, "lm_head is ("),
        ({"num_attention_heads": None}, "lacks 'num_attention_heads'"),
        ({"intermediate_size": "wide"}, "wide"),
        ({"num_attention_heads": 0, "head_dim": None}, "zero"),
        ({"num_key_value_heads": 3}, "it has 1 queries left over by its keys"),
        ({"eagle_config": "none"}, "no attribute"),
    ],
)
def test_a_head_that_does_not_fit_is_refused_with_what_differs(fields, why, folder, target):
    from localspec.apps.training.published import read_head

    changed(folder, **fields)
    with pytest.raises(UsageError, match="cannot be trained on: ") as error:
        read_head(folder, target)
    assert why in str(error.value)


def test_what_is_no_head_is_refused(folder, target, tmp_path):
    from localspec.apps.training.published import read_head

    weights = folder / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    for place in (folder, tmp_path):
        with pytest.raises(UsageError, match="cannot be trained on"):
            read_head(place, target)
    weights.unlink()
    with pytest.raises(UsageError, match="there is no"):
        read_head(folder, target)


def test_tokens_that_are_not_the_targets_are_refused(head, target, tmp_path):
    from dataclasses import replace

    from localspec.apps.training.published import read_head

    for at, tokens in enumerate((head.tokens[::-1], head.tokens + target.vocabulary)):
        write_head(replace(head, tokens=tokens), tmp_path, tmp_path / str(at))
        with pytest.raises(UsageError, match="no rising list of its model's tokens"):
            read_head(tmp_path / str(at), target)


def test_a_training_that_began_otherwise_is_not_begun_anew(folder, target, tmp_path):
    from localspec.apps.training.published import choose_beginning, chosen_beginning

    training = tmp_path / "training"
    assert chosen_beginning(training, target) is None
    choose_beginning(folder, target, training)
    assert chosen_beginning(training, target).shape.rope_base == 500_000.0
    (training / CHECKPOINT).touch()
    choose_beginning(folder, target, training)  # goes on
    changed(folder, torch_dtype="float32")
    with pytest.raises(UsageError, match="began with something else: delete that folder"):
        choose_beginning(folder, target, training)
