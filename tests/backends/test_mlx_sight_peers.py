"""Models that see by transformers' definitions: the same pixels, and logits behind a picture."""

from __future__ import annotations

import re
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

if sys.platform == "win32":
    pytest.skip("there is no MLX for Windows", allow_module_level=True)

import mlx.core as mx
from PIL import Image

from localspec.formats.pictures.decoding import rgb_pixels
from localspec_mlx.folder.files import read
from localspec_mlx.folder.pictures import picture_settings
from localspec_mlx.sight import normalised, scaled
from tests import tiny_mlx_vision
from tests.backends.test_mlx_sight import SEEN, seeing, text_with_picture
from tests.backends.test_mlx_sight import read as read_text
from tests.tiny_vision import picture
from tests.tiny_vocabulary import vocabulary

pytestmark = pytest.mark.train  # which has PyTorch

NEAR = 2e-3  # of logits that deviate by some
PICTURE = vocabulary().id_of("[unused2]")  # as transformers marks positions in a text
RENAMED = (
    (r"^language_model\.lm_head", "lm_head"),
    (r"^language_model\.model", "model.language_model"),
    (r"^vision_tower\.vision_model", "vision_tower"),
    (r"^(vision_tower|multi_modal_projector|embed_vision)", r"model.\1"),
)
TEXT = (  # settings of texts that transformers has, too
    *("vocab_size", "hidden_size", "num_hidden_layers", "intermediate_size", "head_dim"),
    *("num_attention_heads", "num_key_value_heads", "rms_norm_eps", "max_position_embeddings"),
    *("tie_word_embeddings", "sliding_window"),
)
MORE = {
    "gemma3": (
        *("rope_theta", "rope_local_base_freq", "sliding_window_pattern"),
        "query_pre_attn_scalar",
    ),
    "gemma4": (
        *("num_kv_shared_layers", "global_head_dim", "hidden_size_per_layer_input"),
        *("vocab_size_per_layer_input", "layer_types", "use_double_wide_mlp"),
        "use_bidirectional_attention",
    ),
}

# Without embeddings for each layer, transformers 5.24 fails on its own shortcut.
EACH_LAYER = tiny_mlx_vision.TEXTS["gemma4-small"]


def peer(folder: Path) -> Any:
    """Make transformers' model of a folder, with the folder's weights."""
    import torch
    from transformers.models.gemma3 import modeling_gemma3 as gemma3
    from transformers.models.gemma4 import modeling_gemma4 as gemma4

    values = read(folder / "config.json")
    kind, text = values["model_type"], values["text_config"]
    own = {n: text[n] for n in (*TEXT, *MORE[kind]) if n in text}
    if kind == "gemma4":
        own["final_logit_softcapping"] = 30.0
    modeling = {"gemma3": gemma3, "gemma4": gemma4}[kind]
    names = {"image_token_index": PICTURE, "mm_tokens_per_image": 16}
    names = names if kind == "gemma3" else {"image_token_id": PICTURE, "audio_config": None}
    config = {"gemma3": "Gemma3Config", "gemma4": "Gemma4Config"}[kind]
    made = getattr(modeling, config)(
        text_config=own,
        vision_config=dict(values["vision_config"]),
        tie_word_embeddings=text["tie_word_embeddings"],
        **names,
    )
    made._attn_implementation = "eager"
    model = getattr(modeling, config.replace("Config", "ForConditionalGeneration"))(made).eval()
    state = {}
    for name, array in tiny_mlx_vision.tensors(folder).items():
        for pattern, new in RENAMED:
            name = re.sub(pattern, new, name)
        values = np.array(array.astype(mx.float32))
        values = values.transpose(0, 3, 1, 2) if values.ndim == 4 else values
        state[name] = torch.tensor(values)
    missing, unexpected = model.load_state_dict(state, strict=False)
    assert unexpected == []
    assert [name for name in missing if name != "lm_head.weight"] == []
    return model


def inputs(model: Any, settings: Any) -> dict[str, Any]:
    """The pixels of the picture, as transformers' model takes them."""
    import torch

    pixels = np.array(normalised(scaled(rgb_pixels(SEEN.data), settings).pixels, settings))
    if settings.model_type == "gemma3":
        return {"pixel_values": torch.tensor(pixels.transpose(2, 0, 1)[None])}
    size = settings.patch
    down, across = (side // size for side in pixels.shape[:2])
    patches = pixels.reshape(down, size, across, size, 3).transpose(0, 2, 1, 3, 4)
    places = [[x, y] for y in range(down) for x in range(across)]
    return {
        "pixel_values": torch.tensor(patches.reshape(1, down * across, -1)),
        "image_position_ids": torch.tensor([places]),
    }


@pytest.mark.parametrize("name", tiny_mlx_vision.SIGHTED)
def test_logits_behind_a_picture_are_those_of_transformers(name, tmp_path):
    import torch

    changes = {} if name == "gemma3" else EACH_LAYER
    folder = tiny_mlx_vision.write(tmp_path / "tiny", name, **changes)
    reference, settings = peer(folder), picture_settings(folder)
    with closing(seeing(folder)) as model:
        text, _runs = text_with_picture(model)
        ours = read_text(model, 0, text, outputs=5)
    types = torch.tensor((text < 0)[None].astype(np.int64))
    ids = torch.tensor(np.where(text < 0, PICTURE, text)[None].astype(np.int64))
    named = "token_type_ids" if settings.model_type == "gemma3" else "mm_token_type_ids"
    with torch.no_grad():
        asked = {"input_ids": ids, "attention_mask": torch.ones_like(ids), named: types}
        logits = reference(**asked, **inputs(reference, settings)).logits[0].numpy()
    assert np.abs(logits[-5:] - ours).max() < NEAR * ours.std()


@pytest.mark.parametrize("size", [(48, 32), (300, 40), (7, 5), (33, 700)])
def test_pixels_are_those_of_transformers(size, tmp_path):
    from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
    from transformers.models.gemma4.image_processing_pil_gemma4 import Gemma4ImageProcessorPil

    shown = rgb_pixels(picture(2, *size))
    settings = picture_settings(tiny_mlx_vision.write(tmp_path / "three", "gemma3"))
    means = {"image_mean": [0.5] * 3, "image_std": [0.5] * 3}
    processor = Gemma3ImageProcessorPil(size={"height": 32, "width": 32}, **means)
    [theirs] = processor(images=Image.fromarray(shown))["pixel_values"]
    ours = np.array(normalised(scaled(shown, settings).pixels, settings))
    assert np.allclose(np.array(theirs).transpose(1, 2, 0), ours, atol=1e-5)

    settings = picture_settings(tiny_mlx_vision.write(tmp_path / "four", "gemma4"))
    settings = replace(settings, most=70)
    numbers = {"patch_size": 4, "pooling_kernel_size": 2, "max_soft_tokens": 70}
    made = Gemma4ImageProcessorPil(**numbers)(images=Image.fromarray(shown))
    ours = scaled(shown, settings)
    assert made["num_soft_tokens_per_image"][0] == ours.length
    down, across = (side // 4 for side in ours.pixels.shape[:2])
    patches = ours.pixels.reshape(down, 4, across, 4, 3).transpose(0, 2, 1, 3, 4) / 255
    theirs = np.array(made["pixel_values"][0])[: down * across]
    assert np.allclose(theirs, patches.reshape(down * across, -1), atol=1e-5)
