"""A GGUF's vocabulary behind the core's protocol."""

from __future__ import annotations

from functools import cache

import numpy as np

from localspec.base.interruption import check_patience
from localspec.base.tokens import Tokens
from localspec.formats.templates.fill_in_middle import infill_tokens
from localspec_llamacpp.bindings.weights import ModelWeights
from localspec_llamacpp.deep_stack import on_deep_stack
from localspec_llamacpp.text_pieces import PIECE_BYTES, TextPieces

# Many vocabularies are split by a regular expression of the C++ library, which recurses for each
# letter of a word: 30,000 letters without a break ended the process on a stack of 8 MiB.
SHALLOW_BYTES = 8_000
STACK_PER_BYTE = 600
SHALLOW_STACK = 8 << 20
DEEPEST_STACK = 1 << 30  # of which only what is used takes memory


class GgufTokenizer:
    def __init__(self, weights: ModelWeights, kind: str, chat_template: str | None) -> None:
        self.kind = kind
        self.chat_template = chat_template
        self.size = weights.vocabulary
        self.bos, self.eos = weights.bos, weights.eos
        self.starts = weights.starts
        self.ends = weights.ends()
        self.infill = infill_tokens(weights.control, weights.infill())
        self.token_bytes = cache(weights.token_bytes)
        self.token_text = weights.token_text
        self._weights = weights
        self._pieces: dict[bool, TextPieces] = {}  # by whether control tokens are looked for

    def encode(self, text: str, *, special: bool = False) -> Tokens:
        """Tokenise piece by piece: between two of them it may be given up."""
        data = text.encode("utf-8", "replace")
        if len(data) <= PIECE_BYTES:
            return self._weights.tokenize(data, special)
        if special not in self._pieces:
            self._pieces[special] = TextPieces(self._weights.special_tokens(special))
        parts: list[Tokens] = []
        for piece in self._pieces[special].of(data):
            check_patience()
            parts.append(self._tokens_of(piece, special))
        return np.concatenate(parts)

    def _tokens_of(self, piece: bytes, special: bool) -> Tokens:
        if len(piece) <= SHALLOW_BYTES:
            return self._weights.tokenize(piece, special)
        stack_bytes = min(SHALLOW_STACK + len(piece) * STACK_PER_BYTE, DEEPEST_STACK)
        return on_deep_stack(lambda: self._weights.tokenize(piece, special), stack_bytes)
