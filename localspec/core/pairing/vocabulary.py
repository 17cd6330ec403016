"""Compare the vocabularies of target and draft model, and find their shared tokens.

A draft model with another vocabulary can still draft: token by token, where texts agree
(token-level intersection). Its distribution is restricted to the shared tokens before sampling, so
acceptance stays exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localspec.base.errors import PairError
from localspec.base.tokenizer import Tokenizer

MIN_SHARE = 0.25  # of the target's vocabulary; below, a draft is rarely worth its time

Spelling = tuple[bytes, str]


@dataclass(frozen=True, slots=True)
class Match:
    """The relation of a draft model's vocabulary to its target's."""

    difference: str | None  # the first one found; None: the same tokens
    draft_ids: NDArray[np.int64]  # shared tokens, by the draft model's ids
    target_ids: NDArray[np.int64]  # the same tokens, by the target's ids, ascending
    share: float  # of the target's vocabulary that the draft model has


def match(target: Tokenizer, draft_tokenizer: Tokenizer) -> Match:
    """Compare by token text; raise PairError where too little is shared."""
    difference = first_difference(target, draft_tokenizer)
    if difference is None:
        ids = np.arange(min(target.size, draft_tokenizer.size))
        return Match(None, ids, ids, len(ids) / target.size)
    shared = _shared_ids(target, draft_tokenizer)
    share = len(shared) / target.size
    if share < MIN_SHARE:
        raise PairError(
            f"the draft model's vocabulary does not fit: {difference}; only {share:.0%} of the "
            f"target's {target.size:,} tokens are shared: choose a draft model of the same family"
        )
    target_ids, draft_ids = np.array(shared, np.int64).T
    return Match(difference, draft_ids, target_ids, share)


def first_difference(target: Tokenizer, draft_tokenizer: Tokenizer) -> str | None:
    """Find the first difference of two vocabularies; padding at the end is none."""
    if target.kind != draft_tokenizer.kind:
        return f"the tokenizer is {draft_tokenizer.kind!r}, the target's {target.kind!r}"
    if target.bos != draft_tokenizer.bos:
        return f"the first token is {draft_tokenizer.bos}, the target's {target.bos}"
    if target.ends != draft_tokenizer.ends:
        return f"end tokens are {sorted(draft_tokenizer.ends)}, the target's {sorted(target.ends)}"
    for token in range(min(target.size, draft_tokenizer.size)):
        if target.token_text(token) != draft_tokenizer.token_text(token):
            return (
                f"token {token} is {draft_tokenizer.token_text(token)!r}, "
                f"the target's {target.token_text(token)!r}"
            )
    return None


def _shared_ids(target: Tokenizer, draft_tokenizer: Tokenizer) -> list[tuple[int, int]]:
    """Pair the ids, target first, of tokens with the same text, each once."""
    by_spelling = {
        _spelling(draft_tokenizer, token): token for token in reversed(range(draft_tokenizer.size))
    }
    pairs = ((token, by_spelling.pop(_spelling(target, token), -1)) for token in range(target.size))
    return [pair for pair in pairs if pair[1] >= 0]


def _spelling(tokenizer: Tokenizer, token: int) -> Spelling:
    """Return the bytes of a token, or the name of a control token, which has none."""
    data = tokenizer.token_bytes(token)
    return (data, "") if data else (b"", tokenizer.token_text(token))
