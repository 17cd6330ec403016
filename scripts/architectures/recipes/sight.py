"""Models that see: the language models of other recipes, with a small vision model before them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from architectures.parts import share
from architectures.recipe import Recipe, Values, Vision
from architectures.recipes import gemma, llama, qwen, recurrent

PATCH = 14  # pixels
TOWER: Values = {  # of a vision model, by the names that most families give its sizes
    "hidden_size": 64,
    "intermediate_size": 64,
    "num_hidden_layers": 4,  # fewer have no names for all parts of a projector
    "num_attention_heads": 2,
    "patch_size": PATCH,
    "image_size": 8 * PATCH,
}
HALF: Values = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
QWEN: Values = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "depth": 4,
    "num_heads": 2,
    "patch_size": PATCH,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": share(1),
}
QWEN_TOKENS = ("<|image_pad|>", "<|vision_start|>", "<|vision_end|>")
# Positions of 4 x 4 patches of 16 pixels, stretched to those of a picture.
QWEN3: Values = {**QWEN, "patch_size": 16, "num_position_embeddings": 16}
SIGLIP = {"vision_tower.": "vision_tower.vision_model."}  # its names as published
TILES = 4  # in a row, at most


def seeing(recipe: Recipe, kind: str, vision: Vision, text: str = "", name: str = "") -> Recipe:
    """Put a vision model before a language model, of a type and a class if they need saying."""
    values = {**recipe.values, **({"model_type": text} if text else {})}
    says = {**recipe.says, **({"architectures": [name]} if name else {})}
    return replace(recipe, kind=kind, values=values, says=says, wrapped=True, vision=vision)


RECIPES: Mapping[str, Recipe] = {
    # A picture is read in both directions at once.
    "gemma3-sees": seeing(
        replace(gemma.RECIPES["gemma3"], renames=SIGLIP),
        "gemma3",
        Vision(
            TOWER,
            {**HALF, "image_seq_length": 16},
            ("<image_soft_token>", "<start_of_image>", "<end_of_image>"),
            {"mm_tokens_per_image": 16},
        ),
    ),
    # Positions in three dimensions (M-RoPE), for one picture of any size.
    "qwen25vl": seeing(
        qwen.RECIPES["qwen2vl"],
        "qwen2_5_vl",
        Vision({**QWEN, "fullatt_block_indexes": [1, 3]}, HALF, QWEN_TOKENS),
    ),
    # Likewise; layers of the vision model are added to those of the text (deepstack).
    "qwen3vl-sees": seeing(
        qwen.RECIPES["qwen3vl"],
        "qwen3_vl",
        Vision({**QWEN3, "deepstack_visual_indexes": [0]}, HALF, QWEN_TOKENS),
    ),
    # Likewise, with recurrent layers.
    "qwen35-sees": seeing(qwen.RECIPES["qwen35-wrap"], "qwen3_5", Vision(QWEN3, HALF, QWEN_TOKENS)),
    # A picture is cut into tiles, with tokens between these.
    "smolvlm": seeing(
        llama.RECIPES["llama3"],
        "smolvlm",
        Vision(
            {**TOWER, "image_size": 4 * PATCH},
            {**HALF, "size": {"longest_edge": 8 * PATCH}},
            (
                "<image>",
                "<fake_token_around_image>",
                "<global-img>",
                "\n\n",
                *(f"<row_{y}_col_{x}>" for y in range(1, TILES) for x in range(1, TILES)),
            ),
            {"scale_factor": 2},
        ),
        "llama",
        "VLlama3ForCausalLM",
    ),
    "llama4-sees": seeing(
        llama.RECIPES["llama4"],
        "llama4",
        Vision(
            {
                **TOWER,
                "intermediate_size": 256,
                "projector_input_dim": 64,
                "projector_output_dim": 64,
                "vision_output_dim": 64,
                "pixel_shuffle_ratio": 0.5,
            },
            HALF,
            ("<|patch|>", "<|image_start|>", "<|image_end|>", "<|image|>"),
        ),
        "llama4_text",
    ),
    # A picture has rows, with a token after each.
    "mistral3-sees": seeing(
        replace(
            llama.RECIPES["mistral3-wrap"],
            # The converter looks for an embedding among tensors of the vision model alone.
            renames={"language_model.model.embed_tokens.": "model.embed_tokens."},
        ),
        "mistral3",
        Vision({**TOWER, "head_dim": 32}, HALF, ("[IMG]", "[IMG_BREAK]", "[IMG_END]")),
    ),
    "internvl": seeing(
        replace(
            qwen.RECIPES["qwen2"],
            renames={
                "vision_tower.": "model.vision_tower.",
                "multi_modal_projector.": "model.multi_modal_projector.",
            },
        ),
        "internvl",
        Vision(
            {**TOWER, "image_size": [8 * PATCH] * 2, "patch_size": [PATCH] * 2},
            HALF,
            ("<IMG_CONTEXT>", "<img>", "</img>"),
            says={"architectures": ["InternVisionModel"]},
        ),
        "qwen2",
        "Qwen2ForCausalLM",
    ),
    # A picture is cut into slices after one of the whole; positions count as in a text.
    "minicpmv": seeing(
        qwen.RECIPES["qwen35-wrap"],
        "minicpmv4_6",
        Vision(
            {**TOWER, "image_size": 70 * PATCH},  # llama.cpp counts with so many positions
            {**HALF, "scale_resolution": 8 * PATCH, "max_slice_nums": 4},
            ("<unk>", "<image>", "</image>", "<slice>", "</slice>"),
            {"insert_layer_id": 1},
        ),
        "qwen3_5_text",
    ),
    # Short convolutions take the place of most attention layers.
    "lfm2vl": seeing(
        replace(recurrent.RECIPES["lfm2"], renames=SIGLIP),
        "lfm2_vl",
        Vision(
            {**TOWER, "patch_size": 16, "num_patches": 16, "vision_use_head": False},
            HALF,
            (
                "<image>",
                "<|image_start|>",
                "<|image_end|>",
                "<|img_thumbnail|>",
                *(f"<|img_row_{y}_col_{x}|>" for y in range(1, TILES) for x in range(1, TILES)),
            ),
            {"downsample_factor": 2, "projector_hidden_size": 128, "tie_word_embeddings": True},
        ),
        "lfm2",
        "Lfm2ForCausalLM",
    ),
}
