"""All recipes, by name."""

from __future__ import annotations

from architectures.recipe import Recipe
from architectures.recipes import (
    deepseek,
    dense,
    early,
    gemma,
    glm,
    granite,
    llama,
    mixtures,
    phi,
    qwen,
    recurrent,
    sight,
)

TOPICS = (
    *(llama, qwen, gemma, phi, glm, granite, recurrent, deepseek, dense, mixtures, early),
    sight,
)


def all_recipes(width: int) -> dict[str, Recipe]:
    return {name: made.at(width) for topic in TOPICS for name, made in topic.RECIPES.items()}
