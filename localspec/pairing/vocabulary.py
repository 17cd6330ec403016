"""Whether two models speak the same tokens, and what to do where they do not.

A draft model with another vocabulary can still guess: token by token, where texts agree
(token-level intersection). Its law is restricted to the shared tokens before anything is drawn,
so acceptance stays exact.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from localspec.errors import PairError
from localspec.tokenizer import Tokenizer

LEAST_SHARED = 0.25  # of the target's vocabulary; below, a draft is rarely worth its time

Spelling = tuple[bytes, str]


@dataclass(frozen=True, slots=True)
class Match:
    """How a draft's vocabulary relates to its target's."""

    difference: str | None  # the first one found; None: the same tokens
    draft_ids: NDArray[np.int64]  # shared tokens, by the draft's ids
    target_ids: NDArray[np.int64]  # the same tokens, by the target's ids, ascending
    share: float  # of the target's vocabulary that the draft can say


def match(target: Tokenizer, draft: Tokenizer) -> Match:
    """Compare by token text; raise PairError where too little is shared."""
    difference = first_difference(target, draft)
    if difference is None:
        ids = np.arange(min(target.size, draft.size))
        return Match(None, ids, ids, len(ids) / target.size)
    found = _shared(target, draft)
    share = len(found) / target.size
    if share < LEAST_SHARED:
        raise PairError(
            f"the draft model's vocabulary does not fit: {difference}; only {share:.0%} of the "
            f"target's {target.size:,} tokens are shared: choose a draft of the same family"
        )
    target_ids, draft_ids = np.array(found, np.int64).T
    return Match(difference, draft_ids, target_ids, share)


def first_difference(target: Tokenizer, draft: Tokenizer) -> str | None:
    """What keeps two vocabularies from being the same; padding at the end does not."""
    if target.kind != draft.kind:
        return f"the tokenizer is {draft.kind!r}, the target's {target.kind!r}"
    if target.bos != draft.bos:
        return f"the first token is {draft.bos}, the target's {target.bos}"
    if target.ends != draft.ends:
        return f"end tokens are {sorted(draft.ends)}, the target's {sorted(target.ends)}"
    for token in range(min(target.size, draft.size)):
        if target.token_text(token) != draft.token_text(token):
            return (
                f"token {token} is {draft.token_text(token)!r}, "
                f"the target's {target.token_text(token)!r}"
            )
    return None


def _shared(target: Tokenizer, draft: Tokenizer) -> list[tuple[int, int]]:
    """(target id, draft id) of tokens that say the same, each once."""
    known = {_spelling(draft, token): token for token in reversed(range(draft.size))}
    pairs = ((token, known.pop(_spelling(target, token), -1)) for token in range(target.size))
    return [pair for pair in pairs if pair[1] >= 0]


def _spelling(tokenizer: Tokenizer, token: int) -> Spelling:
    """What a token says; control tokens say nothing and are known by name."""
    said = tokenizer.token_bytes(token)
    return (said, "") if said else (b"", tokenizer.token_text(token))
