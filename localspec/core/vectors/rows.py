"""What is made of the rows that a model gives: normalised vectors, and scores."""

from __future__ import annotations

import numpy as np

from localspec.base.errors import UsageError
from localspec.base.tokens import Vectors

EUCLIDEAN, AS_THEY_ARE, LARGEST = 2, -1, 0  # norms, by llama.cpp's numbers
MAX_NORM = 64  # of which powers stay within numbers of 64 bits
INT16 = 32_760  # the largest number, where the largest of each vector is scaled to it


def normalise(vectors: Vectors, norm: int = EUCLIDEAN) -> Vectors:
    """Scale each vector to length one by a norm; one without length stays as it is."""
    if norm == AS_THEY_ARE:
        return vectors
    values = vectors.astype(np.float64)
    if norm == LARGEST:
        lengths = np.abs(values).max(axis=1, keepdims=True) / INT16
    else:
        lengths = np.linalg.norm(values, ord=norm, axis=1, keepdims=True)
    return (values / np.where(lengths > 0, lengths, 1.0)).astype(np.float32)


def shorten(vectors: Vectors, dimensions: int | None) -> Vectors:
    """Keep the first numbers of each vector."""
    most = vectors.shape[1]
    if dimensions is None:
        return vectors
    if not 1 <= dimensions <= most:
        raise UsageError(f"dimensions is {dimensions:,}; this model has {most:,}")
    return vectors[:, :dimensions]


def scores(rows: Vectors, *, raw: bool = False) -> Vectors:
    """Return a score from 0 to 1 for each row of a reranker, or the model's own number.

    A classifier of one class gives a logit. With several classes the first one tells, and
    llama.cpp has made probabilities of them.
    """
    first = rows[:, 0]
    if raw or rows.shape[1] > 1:
        return first
    return (1.0 / (1.0 + np.exp(-first.astype(np.float64)))).astype(np.float32)
