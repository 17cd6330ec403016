"""MLX folders whose models see: held against transformers' models, scaled, refused."""

from __future__ import annotations

import json
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx
import mlx.nn as nn

from localspec.base.errors import BackendError, ModelFileError, UsageError
from localspec.base.tokens import tokens_of
from localspec.core.proposers.head import HeadProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from localspec.formats.pictures.decoding import rgb_pixels
from localspec.interfaces.backend import Row
from localspec.interfaces.media import Medium
from localspec.interfaces.media_positions import positions
from localspec.running.memory.concessions import TEXT_ONLY
from localspec.running.memory.planner import Limits
from localspec.running.runtime.loading import Loading, load
from localspec_mlx import backend as mlx
from localspec_mlx.folder.pictures import picture_settings, tower_in
from localspec_mlx.sight import scaled
from localspec_mlx.whole_pictures import WholePictures
from tests import engines, tiny_mlx, tiny_mlx_vision
from tests.backends.mlx_folders import reconfigured
from tests.runs import replies
from tests.seeing import pictured
from tests.tiny_mlx_vision import save, tensors
from tests.tiny_vision import picture

OPTIONS = replace(engines.OPTIONS, threads=None)
PLAIN = Loading(replace(OPTIONS, slots=1, context=256), "none", limits=Limits(device="cpu"))
SEEN = Medium("image", picture(1))
WORDS = [5, 3, 1, 4, 1, 5, 2, 6]


@pytest.fixture(params=tiny_mlx_vision.SIGHTED)
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    return tiny_mlx_vision.write(tmp_path / "tiny", request.param)


def seeing(folder: Path, **options: object):
    return mlx.load(folder, replace(OPTIONS, projector=folder, **options))


def text_with_picture(model, medium=SEEN):
    """A text with a picture in its middle, and the runs that somebody has to hold."""
    pieces, runs = [tokens_of(WORDS)], []
    for piece in model.sight.pieces(medium):
        if isinstance(piece, np.ndarray):
            pieces.append(piece)
        else:
            runs.append(piece)
            pieces.append(tokens_of(list(positions(piece))))
    return np.concatenate([*pieces, tokens_of(WORDS[:5])]), runs


def read(model, slot, tokens, outputs=1):
    return np.array(model.forward([Row(slot, tokens, outputs)])[0])


def test_a_head_drafts_behind_a_picture_and_changes_nothing(tmp_path):
    folder = tiny_mlx_vision.write(tmp_path / "tiny", "gemma4")
    twin = tiny_mlx.write(tmp_path / "twin", "gemma4_text")  # the same text, by itself
    head = tiny_mlx.write_assistant(twin, tmp_path / "head")
    settings, texts = Settings(max_tokens=12, ignore_end=True), []
    for options in ({}, {"head": head}):
        with closing(seeing(folder, **options)) as model:
            want = pictured(model, WORDS, SEEN, WORDS, settings=settings)
            proposer = HeadProposer(model.head, floor=0.0) if model.head else Silent()
            [result] = replies(model, proposer, [want])
            texts.append(result.tokens)
    assert texts[0] == texts[1]
    assert result.speculation.drafted > 3


def test_half_of_a_picture_is_not_kept_where_it_sees_all_of_itself(folder):
    with closing(seeing(folder)) as model:
        text, [run] = text_with_picture(model)
        whole = read(model, 0, text)
        start = int(np.flatnonzero(text == run.first)[0])
        kept = model.truncate(0, start + 5)
        assert kept == (start if run.whole else start + 5)
        assert np.allclose(read(model, 0, text[kept:]), whole, atol=1e-3)


def test_half_of_a_restored_picture_is_not_kept_either(tmp_path):
    folder = tiny_mlx_vision.write(tmp_path / "tiny", "gemma3")
    with closing(seeing(folder)) as model:
        text, [run] = text_with_picture(model)
        whole = read(model, 0, text)
        start = int(np.flatnonzero(text == run.first)[0])
        assert model.restore(1, model.save(0, 1 << 30).data, len(text)) == len(text)
        assert model.truncate(1, start + 5) == start
        assert np.allclose(read(model, 1, text[start:]), whole, atol=1e-3)


def test_filters_and_names_may_be_those_of_pytorch(tmp_path):
    folder = tiny_mlx_vision.write(tmp_path / "tiny", "gemma3")
    with closing(seeing(folder)) as model:
        expected = read(model, 0, text_with_picture(model)[0])
    weights = {
        name.replace(".vision_model.", "."): w.transpose(0, 3, 1, 2) if w.ndim == 4 else w
        for name, w in tensors(folder).items()
    }
    save(folder, weights)
    with closing(seeing(folder)) as model:
        assert np.allclose(read(model, 0, text_with_picture(model)[0]), expected, atol=1e-4)


def test_its_weights_are_taken_as_they_were_quantised(folder):
    plain = tensors(folder)
    form = {"group_size": 32, "bits": 8}
    packed = {}
    for name, array in plain.items():
        quantised = name.endswith(("proj.weight", "linear.weight")) and not array.shape[-1] % 32
        if not quantised or "input_proj" in name:
            packed[name] = array
            continue
        parts = mx.quantize(array, **form)
        for part, value in zip(("weight", "scales", "biases"), parts, strict=True):
            packed[name.replace("weight", part)] = value
    with closing(seeing(folder)) as model:
        exact = read(model, 0, text_with_picture(model)[0])
    save(folder, packed)
    reconfigured(folder, quantization=form)
    with closing(seeing(folder)) as model:
        assert any(isinstance(m, nn.QuantizedLinear) for m in tower_of(model).modules())
        rounded = read(model, 0, text_with_picture(model)[0])
    assert 0 < np.abs(exact - rounded).max() < 0.5 * exact.std()


def tower_of(model):
    return model._sight._encode.args[0]


def test_a_picture_that_is_read_at_once_has_room_in_a_batch(tmp_path):
    folder = tiny_mlx_vision.write(tmp_path / "tiny", "gemma3")
    with closing(seeing(folder, batch=12)) as model, closing(seeing(folder)) as roomy:
        assert (model.batch, roomy.batch) == (16, 64)
        (text, runs), (_, others) = map(text_with_picture, (model, roomy))
        assert len(runs) == len(others) == 1
        read(model, 0, text[:8])
        assert np.allclose(read(model, 0, text[8:]), read(roomy, 0, text), atol=1e-3)


def test_the_plan_counts_a_tower_only_where_it_is_loaded(folder):
    plain = mlx.inspect(folder)
    alone = tiny_mlx.write(folder.parent / "alone", f"{plain.architecture}_text")
    with mlx.rehearse(folder) as rehearsal:
        without = rehearsal.needs(OPTIONS)
        seeing = rehearsal.needs(replace(OPTIONS, projector=folder))
    assert without.projector == 0
    assert without.weights == seeing.weights
    assert seeing.projector > 64 << 20
    assert plain.weight_bytes < plain.file_bytes - 50_000
    assert mlx.inspect(alone).weight_bytes <= plain.weight_bytes


def test_a_folder_is_loaded_with_its_tower_unless_one_asks_for_text(folder):
    with load(folder, loading=PLAIN) as runtime:
        assert runtime.sight
        message = {"role": "user", "content": "the code", "images": [picture()]}
        assert runtime.chat([message], max_tokens=4).tokens
    text = replace(PLAIN, limits=replace(PLAIN.limits, text_only=True))
    with load(folder, loading=text) as runtime:
        assert runtime.sight is None
        assert not runtime.facts.plan.concessions


def test_pictures_of_other_families_are_refused_in_one_line(tmp_path):
    assert tower_in(tiny_mlx.write(tmp_path / "text", "llama")) == ""
    folder = tiny_mlx.write(tmp_path / "qwen", "qwen3_5")
    weights = tensors(folder)
    weights["vision_tower.blocks.0.weight"] = mx.zeros(4)
    save(folder, weights)
    why = "pictures of a qwen3_5 are not read from an MLX folder: take its GGUF form for them"
    assert tower_in(folder) == why
    with load(folder, loading=PLAIN) as runtime:
        assert [(c.what, c.why) for c in runtime.facts.plan.concessions] == [(TEXT_ONLY, why)]
    with pytest.raises(UsageError, match=why):
        seeing(folder)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"vision_config": None}, "has no vision_config"),
        ({"vision_config": {"hidden_size": 1 << 20}}, "has hidden_size 1048576 for pictures"),
        ({"vision_config": {"patch_size": "14"}}, "has patch_size '14' for pictures"),
        ({"mm_tokens_per_image": 15}, "makes 15 positions of 32 pixels"),
        ({"boi_token_index": 400_000}, "has no tokens"),
    ],
)
def test_a_tower_whose_numbers_make_no_sense_is_refused(tmp_path, change, fault):
    folder = tiny_mlx_vision.write(tmp_path / "tiny", "gemma3")
    values = json.loads((folder / "config.json").read_text())
    change = {n: {**values[n], **v} if isinstance(v, dict) else v for n, v in change.items()}
    reconfigured(folder, **change)
    with pytest.raises(ModelFileError, match=fault):
        seeing(folder)
    with load(folder, loading=PLAIN) as runtime:  # text needs none of that
        assert runtime.sight is None
        [concession] = runtime.facts.plan.concessions
        assert concession.what == TEXT_ONLY
        assert fault in concession.why


def test_weights_that_are_not_the_towers_are_refused(folder):
    weights = tensors(folder)
    name = next(n for n in weights if "tower" in n and "layers.1.self_attn.k_proj" in n)
    del weights[name]
    save(folder, weights)
    with pytest.raises(ModelFileError, match=r"the tower of tiny cannot be loaded: Missing 1 par"):
        seeing(folder)


def test_a_projector_of_another_kind_is_refused(folder, tmp_path):
    stranger = tmp_path / "mmproj.gguf"
    stranger.write_bytes(b"GGUF")
    with pytest.raises(UsageError, match="an MLX folder sees by its own tower"):
        mlx.load(folder, replace(OPTIONS, projector=stranger))


@pytest.mark.parametrize(
    "size", [(1, 1), (1, 4000), (4000, 1), (3, 700), (7, 5), (300, 40), (32, 32)]
)
def test_pictures_of_all_shapes_take_no_more_positions_than_they_may(folder, size):
    settings = picture_settings(folder)
    made = scaled(rgb_pixels(picture(3, *size)), settings)
    height, width, _ = made.pixels.shape
    assert 1 <= made.length <= settings.most
    assert made.length == (height // settings.unit) * (width // settings.unit)
    assert height % settings.unit == width % settings.unit == 0


def test_what_is_no_picture_is_refused(folder):
    with closing(seeing(folder)) as model:
        for medium in (Medium("image", b"what is this"), Medium("audio", b"RIFF")):
            with pytest.raises(UsageError):
                model.sight.pieces(medium)
        text, runs = text_with_picture(model)
        model.sight._pictures._kept.clear()
        runs.clear()
        with pytest.raises(BackendError, match="without its pictures"):
            model.forward([Row(0, text)])


def test_places_of_pictures_are_kept_by_slot():
    pictures = WholePictures()
    pictures.append(0, 3, 19)
    pictures.append(0, 25, 41)
    assert [pictures.edge(0, length) for length in (3, 4, 19, 30, 41)] == [3, 3, 19, 25, 41]
    pictures.copy(0, 1, 30)
    assert [pictures.edge(1, length) for length in (10, 30)] == [3, 30]
    pictures.fill(2, pictures.content(0))
    assert pictures.edge(2, 30) == 25
    pictures.fill(2, pictures.content(5))
    assert pictures.edge(2, 30) == 30
    pictures.cut(0, 0)
    assert pictures.edge(0, 10) == 10
