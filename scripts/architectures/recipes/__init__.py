"""All recipes, by name."""

from __future__ import annotations

from architectures.recipe import Recipe
from architectures.recipes import (
    deepseek,
    gemma,
    glm,
    granite,
    llama,
    others,
    qwen,
    recurrent,
    sight,
)

TOPICS = (llama, qwen, gemma, glm, granite, recurrent, deepseek, others, sight)


def all_recipes(width: int) -> dict[str, Recipe]:
    return {name: made.at(width) for topic in TOPICS for name, made in topic.RECIPES.items()}
