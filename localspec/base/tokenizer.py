"""The interface of a vocabulary, whichever engine it comes from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from localspec.base.tokens import Tokens

LONG_TOKEN = 256  # characters: no vocabulary has a token of more, but for runs of blanks


@dataclass(frozen=True, slots=True)
class Infill:
    """The tokens that ask a model for the text between two others (fill-in-the-middle)."""

    prefix: int
    suffix: int
    middle: int | None  # None: what comes after the prefix is the middle
    suffix_first: bool = False
    separator: int | None = None  # begins a file, with its name
    repository: int | None = None  # names what the files belong to
    ends: frozenset[int] = frozenset()  # all of its kind: after any of them a middle is over


class Tokenizer(Protocol):
    kind: str  # the algorithm and its family, e.g. "bpe"
    size: int  # how many tokens there are
    bos: int | None  # the token that stands for the start of a text
    starts: bool  # whether a text should begin with it
    eos: int | None  # the token chat templates know as the end
    ends: frozenset[int]  # all tokens that end a reply
    chat_template: str | None  # jinja2 source, from the model file
    infill: Infill | None  # None: it was not trained to fill in a middle

    def encode(self, text: str, *, special: bool = False) -> Tokens:
        """Tokenise; `special` lets the text of control tokens stand for those tokens.

        No start token is added.
        """

    def token_bytes(self, token: int) -> bytes:
        """Return the bytes that a token adds to the text; empty for control tokens."""

    def token_text(self, token: int) -> str:
        """Return a token as the vocabulary spells it, control tokens included."""


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
