"""MLX folders that turn whole texts into vectors, held against plain runs of their definitions."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor, TimeoutError
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Lock

import numpy as np
import pytest

pytest.importorskip("mlx_lm")

import mlx.core as mx

from localspec.base.errors import BackendError, ModelFileError, UsageError
from localspec.core.vectors.rows import normalise
from localspec.interfaces.adapter import Adapter
from localspec.interfaces.backend import Options, Row
from localspec_mlx import backend as mlx
from localspec_mlx.folder.footprint import inspect
from localspec_mlx.folder.tokenizer import load_tokenizer
from localspec_mlx.heads.target import output
from localspec_mlx.loading import load_weights
from localspec_mlx.model import SharedModel
from localspec_mlx.spec import SPEC
from localspec_mlx.vectors import (
    PADDING,
    TEXTS,
    MlxVectors,
    groups,
    inner,
    load_vectors,
    vectors_beside,
)
from localspec_mlx.working import TEXT_BATCH
from tests import engines, tiny_mlx
from tests.tiny_vocabulary import BEGIN, END, vocabulary

TEXTS_OF_ALL_LENGTHS = ("the code is the code", "a", "the sea, and not the sea " * 3, "return", "")
OPTIONS = Options(context=1024)
CLOSE = 1e-4
ENDING = vocabulary("plain").id_of(END)
FILES = {name: mode for mode, name in tiny_mlx.POOLINGS.items() if name}


@pytest.fixture(scope="module", params=FILES)
def embedder(request, tmp_path_factory):
    folder = tmp_path_factory.mktemp(request.param) / "embedder"
    return tiny_mlx.write_embedder(folder, FILES[request.param])


def pooled(states: np.ndarray, pooling: str) -> np.ndarray:
    return {"cls": states[0], "mean": states.mean(axis=0), "last": states[-1]}[pooling]


def distance(rows, expected) -> float:
    return np.abs(normalise(np.array(rows)) - normalise(np.array(expected))).max()


def test_vectors_become_the_logits_of_mlx_lm_several_at_once(embedder):
    """The states are those after the last norm, which the output is computed from."""
    plain = load_weights(embedder)
    with closing(load_vectors(embedder, OPTIONS)) as model:
        texts = [model.text(text) for text in TEXTS_OF_ALL_LENGTHS]
        rows = model.read(texts)
        assert rows.shape == (len(texts), model.dimensions) == (5, tiny_mlx.WIDTH)
        assert rows.dtype == np.float32
        logits = [np.array(plain(mx.array(text[None]))[0]) for text in texts]
        expected = [pooled(of_tokens, model.pooling) for of_tokens in logits]
        assert distance(output(plain)(mx.array(rows)), expected) < CLOSE


def test_a_text_does_not_depend_on_those_beside_it(embedder):
    with closing(load_vectors(embedder, OPTIONS)) as model:
        texts = [model.text(text) for text in TEXTS_OF_ALL_LENGTHS]
        together = model.read(texts)
        assert distance(together, [model.read([text])[0] for text in texts]) < 1e-5
        assert distance(together[::-1], model.read(texts[::-1])) < 1e-5


@pytest.mark.train
def test_vectors_are_those_of_transformers(embedder):
    import torch
    from transformers import AutoModel

    plain = AutoModel.from_pretrained(embedder, dtype=torch.float32)
    with closing(load_vectors(embedder, OPTIONS)) as model, torch.no_grad():
        texts = [model.text(text) for text in (*TEXTS_OF_ALL_LENGTHS[:3], "code is " * 300)]
        states = [plain(torch.tensor(text[None]).long()).last_hidden_state[0] for text in texts]
        expected = [pooled(of_tokens.numpy(), model.pooling) for of_tokens in states]
        assert len(texts[-1]) > TEXT_BATCH
        rows = [*model.read(texts[:-1]), *model.read(texts[-1:])]
        assert distance(rows, expected) < CLOSE


ALL = [*tiny_mlx.ARCHITECTURES, *tiny_mlx.TARGETS]


@pytest.mark.parametrize(
    ("architecture", "pooling"),
    [*((name, "mean") for name in ALL), ("llama", "cls"), ("llama", "last")],
)
def test_a_long_text_is_read_in_pieces_as_it_would_be_whole(architecture, pooling):
    folder = engines.tiny_folder(architecture)
    plain = load_weights(folder)
    tokenizer = load_tokenizer(folder, inspect(folder).vocabulary)
    text = np.arange(TEXT_BATCH + 70, dtype=np.int32) * 7 % tokenizer.size
    with closing(MlxVectors(SharedModel(plain, tokenizer, Lock()), pooling, 1024)) as model:
        [row] = model.read([text])
        states = np.array(inner(plain)(mx.array(text[None]))[0].astype(mx.float32))
        assert distance([row], [pooled(states, pooling)]) < CLOSE


def test_a_text_has_the_marks_of_its_tokenizer(embedder, tmp_path):
    with closing(load_vectors(embedder, OPTIONS)) as model:
        assert model.text("").tolist() == [ENDING]
        tokens = model.text("the code").tolist()
        assert tokens == [*model.tokenizer.encode("the code").tolist(), ENDING]
        assert model.text("the code", 2).tolist() == [tokens[0], ENDING]
        assert model.text("the code", 0).tolist() == [ENDING]
    begun = tiny_mlx.write(tmp_path / "begun", "llama")
    path = begun / "tokenizer_config.json"
    marked = {"add_bos_token": True, "add_eos_token": True}
    path.write_text(json.dumps(json.loads(path.read_text()) | marked))
    before, behind = load_tokenizer(begun, inspect(begun).vocabulary).around
    assert (before.tolist(), behind.tolist()) == ([vocabulary("plain").id_of(BEGIN)], [ENDING])


def test_texts_of_similar_lengths_are_read_together():
    assert groups([4, 5, 3]) == [[1, 0, 2]]
    assert groups([600, 590, 4]) == [[0], [1], [2]]
    lengths = [1 + 7 * at % 60 for at in range(TEXTS)]
    divided = groups(lengths)
    assert sorted(at for group in divided for at in group) == [*range(TEXTS)]
    for group in divided:
        of_group = [lengths[at] for at in group]
        assert max(of_group) * len(group) - sum(of_group) <= PADDING
    assert len(divided) < 16


def test_more_than_was_planned_for_is_refused(embedder):
    model = load_vectors(embedder, OPTIONS)
    text = np.zeros(400, np.int32)
    for texts in ([text] * 3, [text[:1]] * (TEXTS + 1)):
        with pytest.raises(BackendError, match="are too many at once"):
            model.read(texts)
    with pytest.raises(BackendError, match="a token is not within 0 to 383"):
        model.read([text - 1])
    model.close()
    model.close()
    with pytest.raises(BackendError, match="this model was closed"):
        model.read([text])


# What a folder says


def test_a_folder_says_how_it_pools(embedder):
    modes = json.loads((embedder / "1_Pooling" / "config.json").read_text())
    assert modes[f"pooling_mode_{FILES[inspect(embedder).pooling]}"] is True
    assert inspect(embedder).kind == "embedding"
    assert inspect(engines.tiny_folder("qwen3")).kind == "text"
    with pytest.raises(ModelFileError, match="does not say how a text becomes a vector"):
        load_vectors(engines.tiny_folder("qwen3"), OPTIONS)


@pytest.mark.parametrize("mode", ["mean", "lasttoken"])
def test_later_files_name_the_mode(mode, tmp_path):
    folder = tiny_mlx.write_embedder(tmp_path / "tiny")
    (folder / "1_Pooling" / "config.json").write_text(json.dumps({"pooling_mode": mode}))
    (folder / "modules.json").unlink()
    assert inspect(folder).pooling == mode.removesuffix("token")


FAULTS = {
    "1_Pooling/config.json is missing, and says how a text": {"1_Pooling/config.json": None},
    "pools by max_tokens; here it is one of": {
        "1_Pooling/config.json": {"pooling_mode_max_tokens": True}
    },
    "pools by cls_token and mean_tokens; here": {
        "1_Pooling/config.json": {"pooling_mode_cls_token": True, "pooling_mode_mean_tokens": True}
    },
    "pools by nothing; here": {"1_Pooling/config.json": {"word_embedding_dimension": 64}},
    "modules.json lists a Dense, which MLX does not compute": {
        "modules.json": [{"type": "sentence_transformers.models.Dense"}]
    },
    "modules.json has an object as its content, not a list": {"modules.json": {}},
    "modules.json has a number as a module": {"modules.json": [7]},
}


@pytest.mark.parametrize("message", FAULTS)
def test_a_folder_that_pools_otherwise_is_refused(message, tmp_path):
    folder = tiny_mlx.write_embedder(tmp_path / "tiny")
    for name, content in FAULTS[message].items():
        (folder / name).unlink()
        if content is not None:
            (folder / name).write_text(json.dumps(content))
    with pytest.raises(ModelFileError, match=message):
        inspect(folder)


@pytest.mark.parametrize("setting", [{"use_bidirectional_attention": True}, {"is_causal": False}])
def test_a_model_that_reads_both_ways_is_refused(setting, tmp_path):
    folder = tiny_mlx.write_embedder(tmp_path / "tiny", **setting)
    with pytest.raises(ModelFileError, match="reads both ways; MLX reads forward: give the GGUF"):
        inspect(folder)


def test_weights_may_have_an_output_that_is_not_read(tmp_path):
    folder = tiny_mlx.write_embedder(tmp_path / "tiny")
    text = np.arange(20, dtype=np.int32)
    with closing(load_vectors(folder, OPTIONS)) as model:
        expected = model.read([text])
    path = str(folder / "model.safetensors")
    weights = {f"model.{name}": array for name, array in mx.load(path).items()}
    mx.eval(weights)
    output_of_4_bits = {f"lm_head.{part}": mx.ones((384, 8)) for part in ("weight", "scales")}
    mx.save_safetensors(path, weights | output_of_4_bits)
    with closing(load_vectors(folder, OPTIONS)) as model:
        assert distance(model.read([text]), expected) < 1e-6


def test_a_repository_brings_what_says_how_it_pools():
    names = ["1_Pooling/config.json", "2_Dense/config.json", "config.json", "model.safetensors"]
    [model] = SPEC.models(names)
    assert model.files == ("config.json", "model.safetensors", "1_Pooling/config.json")


# Options and memory


def test_what_it_takes_is_counted_before_it_is_loaded(embedder):
    with mlx.rehearse(embedder) as rehearsal:
        short, long = (
            rehearsal.needs(replace(OPTIONS, context=context)) for context in (512, 2048)
        )
        assert rehearsal.footprint.kind == "embedding"
    assert short.weights == long.weights == inspect(embedder).weight_bytes
    assert 0 < short.cache < long.cache
    assert 0 < short.working < long.working


def test_a_second_reader_is_counted_beside_a_model():
    with mlx.rehearse(engines.tiny_folder("llama")) as rehearsal:
        alone, beside = (rehearsal.needs(Options(pooling=pooling)) for pooling in ("", "mean"))
    assert beside.cache > alone.cache
    assert beside.working >= alone.working


def test_a_text_and_vectors_of_others_take_turns():
    """A head reads states as layers return them, whoever runs these."""
    text, beside = np.arange(9, dtype=np.int32), Options(pooling="mean")
    model = engines.target("mlx llama", slots=1)
    with closing(model), closing(vectors_beside(model, beside)) as vectors:
        for run in (partial(vectors.read, [text]), partial(model.forward, [Row(0, text)])):
            with ThreadPoolExecutor(1) as pool:
                with model.shared.turn:
                    running = pool.submit(run)
                    with pytest.raises(TimeoutError):
                        running.result(0.1)
                assert len(running.result(30)) == 1


def test_vectors_that_would_change_with_a_text_are_refused():
    options = Options(pooling="mean", adapters=(Adapter(Path("adapter")),))
    with pytest.raises(UsageError, match="vectors would change with the adapters of the text"):
        mlx.load(engines.tiny_folder("llama"), options)


def test_brain_floats_may_become_halves(tmp_path):
    folder = tiny_mlx.write_embedder(tmp_path / "tiny")
    tiny_mlx.store_in_16_bits(folder)
    text = np.arange(20, dtype=np.int32)
    with closing(load_vectors(folder, OPTIONS)) as model:
        brain = model.read([text])
    with closing(load_vectors(folder, replace(OPTIONS, compute="float16"))) as model:
        half = model.read([text])
    assert 0 < distance(half, brain) < 0.05
    with pytest.raises(UsageError, match="vectors and float16 are for one machine"):
        load_vectors(folder, replace(OPTIONS, members=2, pooling="mean"))
