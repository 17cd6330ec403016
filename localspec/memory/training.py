"""Contexts that are longer than the texts a model was trained on."""

from __future__ import annotations

from localspec.backend import Options


def beyond_training(options: Options, trained: int) -> str:
    """Say that a context is longer than the texts a model was trained on; "" if it is not."""
    texts = 1 if options.shared is False else options.slots  # that share what was asked for
    if not trained or (options.context or 0) <= trained * texts:
        return ""
    return (
        f"a context of {options.context:,} tokens is more than the {trained:,} that the model was "
        "trained for: it may answer longer texts badly"
    )
