"""A folder made of a recipe, as transformers saves it and a hub holds it."""

from __future__ import annotations

import json
from fnmatch import fnmatch
from pathlib import Path

import torch
import transformers

from architectures.making import vocabularies, weights
from architectures.parts import VOCABULARY, base
from architectures.recipe import Recipe, Values

VISION = {
    "hidden_size": 64,
    "intermediate_size": 64,
    "depth": 1,
    "num_hidden_layers": 1,
    "num_heads": 2,
    "num_attention_heads": 2,
    "embed_dim": 64,
    "patch_size": 14,
    "image_size": 28,
    "deepstack_visual_indexes": [0],
}
MARKS = {
    "image_token_id": 700,
    "image_token_index": 700,
    "video_token_id": 701,
    "vision_start_token_id": 702,
    "vision_end_token_id": 703,
}


def make(name: str, recipe: Recipe, width: int, folder: Path) -> None:
    """Write configuration, weights and vocabulary; the same each time."""
    folder.mkdir(parents=True, exist_ok=True)
    torch.manual_seed(7)
    model = build(recipe, width)
    with torch.no_grad():
        weights.randomise(model, sum(map(ord, name)))
    model.eval()
    model.to(torch.bfloat16).save_pretrained(folder)
    vocabularies.save(folder, recipe, VOCABULARY)
    if recipe.drafts:
        weights.add_drafting_block(folder, width)
    if recipe.spare:
        weights.add_spare(folder)
    for old, new in recipe.renames.items():
        weights.rename(folder, old, new)
    publish(folder / "config.json", recipe)
    if recipe.vision:
        text = json.dumps(recipe.vision.processor, indent=1)
        (folder / "preprocessor_config.json").write_text(text, encoding="utf-8")


def build(recipe: Recipe, width: int) -> torch.nn.Module:
    config = configuration(recipe, width)
    classes = [transformers.AutoModelForImageTextToText]
    if not recipe.wrapped:
        classes.insert(0, transformers.AutoModelForCausalLM)
    for candidate in classes:
        if type(config) in candidate._model_mapping:
            return candidate.from_config(config, dtype=torch.float32)
    raise ValueError(f"transformers has no model for {recipe.kind}")


def configuration(recipe: Recipe, width: int) -> transformers.PretrainedConfig:
    values = base(width)
    if recipe.vocabulary == "sentencepiece" and "bos_token_id" not in recipe.values:
        values |= {"bos_token_id": 1, "eos_token_id": 2, "pad_token_id": None}
    values |= recipe.values
    if not recipe.wrapped:
        return transformers.AutoConfig.for_model(recipe.kind, **values)
    vision = {**VISION, "out_hidden_size": width}
    whole: Values = MARKS
    if recipe.vision:
        # Tied to embeddings, random weights repeat the last token, whatever they saw.
        whole = {**MARKS, "tie_word_embeddings": False, **recipe.vision.whole}
        values["tie_word_embeddings"] = whole["tie_word_embeddings"]
        vision = {**recipe.vision.values}
    return transformers.AutoConfig.for_model(
        recipe.kind, text_config=values, vision_config=vision, **whole
    )


def publish(file: Path, recipe: Recipe) -> None:
    """Write a configuration's keys as published ones have them."""
    config = json.loads(file.read_text(encoding="utf-8"))
    text = config.get("text_config", config)
    for key in [key for key in text if any(fnmatch(key, pattern) for pattern in recipe.lacks)]:
        del text[key]
    text.update(recipe.says)
    if recipe.vision:
        config["vision_config"].update(recipe.vision.says)
    file.write_text(json.dumps(config, indent=1), encoding="utf-8")
