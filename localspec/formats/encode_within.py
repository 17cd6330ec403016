"""The tokens of a text that stands within another one."""

from __future__ import annotations

from localspec.base.tokenizer import Tokenizer


def encode_within(tokenizer: Tokenizer, text: str, *, special: bool = False) -> list[int] | None:
    """Tokenise a text that stands within another one; None if its tokens spell something else."""
    spelling = text.encode()
    for lead in ("", "\n"):  # some tokenizers begin every text with a space
        tokens: list[int] = tokenizer.encode(lead + text, special=special).tolist()
        while len(spelled := _spell(tokenizer, tokens, special)) > len(spelling):
            del tokens[0]
        if spelled == spelling:
            return tokens
    return None


def _spell(tokenizer: Tokenizer, tokens: list[int], special: bool) -> bytes:
    pieces = [tokenizer.token_bytes(token) for token in tokens]
    if special:
        texts = zip(pieces, tokens, strict=True)
        pieces = [piece or tokenizer.token_text(token).encode() for piece, token in texts]
    return b"".join(pieces)
