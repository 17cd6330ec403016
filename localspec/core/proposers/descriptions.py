"""Proposers in words that readers of a chat know."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localspec.core.proposers.registry import CORPUS, DRAFT, HEADS

OWN_HEAD = "the model's own drafting head"
PLACES: Mapping[str, str] = {
    DRAFT: "a small model",
    **dict.fromkeys(HEADS, "a drafting head"),
    "mtp": OWN_HEAD,
    "layerskip": "some of the model's own layers",
    CORPUS: "files and replies on disk",
    "ngram": "the text itself",
    "suffix": "the text itself",
    "prediction": "a text that was given as a prediction",
    "forced": "what a JSON schema or a budget for thought leaves no choice about",
}
# Beside a colour, where there is little room.
SHORT: Mapping[str, str] = {
    "draft-model": "a small model",
    CORPUS: "files on disk",
    "ngram": "the text itself",
    "suffix": "the text itself",
    "prediction": "the prediction",
    "forced": "the form",
    "mtp": "its head",
}
ON_REQUEST = ("prediction", "forced")  # where a request has something for them


def in_words(proposers: Sequence[str]) -> str:
    """Say where drafts come from; those that every model has, and few requests use, are implied."""
    shown = [name for name in proposers if name not in ON_REQUEST]
    places = dict.fromkeys(PLACES.get(name, name) for name in (shown or proposers))
    return f"drafts from {' and '.join(places)}" if places else "no drafts"
