"""A warning about contexts beyond a model's training."""

from __future__ import annotations

from localspec.backend import Options


def beyond_training(options: Options, trained: int, requested: int | None = None) -> str:
    """Return a warning if a context is longer than the model's training; else "".

    `options` are those that were planned, where it may be shorter than what was asked for.
    """
    texts = 1 if options.shared is False else options.slots  # that share what was asked for
    planned = options.context or 0
    context = max(requested or 0, planned)
    if not trained or context <= trained * texts:
        return ""
    note = f"a context of {context:,} tokens is more than the {trained:,} that the model was"
    if planned < context:
        return f"{note} trained for: a text has {planned:,}"
    return f"{note} trained for: it may answer longer texts badly"
