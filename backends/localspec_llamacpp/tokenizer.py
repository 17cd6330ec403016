"""A GGUF's vocabulary behind the core's protocol."""

from __future__ import annotations

from localspec.templates.fill_in_middle import known
from localspec.tokens import Tokens
from localspec_llamacpp.bindings.weights import ModelWeights


class GgufTokenizer:
    def __init__(self, weights: ModelWeights, kind: str, chat_template: str | None) -> None:
        self.kind = kind
        self.chat_template = chat_template
        self.size = weights.vocabulary
        self.bos, self.eos = weights.bos, weights.eos
        self.starts = weights.starts
        self.ends = weights.ends()
        self.infill = known(weights.control, weights.infill())
        self._weights = weights
        self._bytes: dict[int, bytes] = {}

    def encode(self, text: str, *, special: bool = False) -> Tokens:
        return self._weights.tokenize(text.encode("utf-8", "replace"), special)

    def token_bytes(self, token: int) -> bytes:
        known = self._bytes.get(token)
        if known is None:
            known = self._bytes[token] = self._weights.token_bytes(token)
        return known

    def token_text(self, token: int) -> str:
        return self._weights.token_text(token)
