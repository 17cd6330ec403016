"""Log-probabilities with the text of their tokens."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from localspec.base.tokenizer import Tokenizer
from localspec.core.sampling.logprobs import EmittedLogprob


@dataclass(frozen=True, slots=True)
class Spelling:
    tokenizer: Tokenizer
    sampled: bool = False  # whether probabilities are those of sampling, as llama.cpp spells them

    def token_text(self, token: int) -> str:
        """Return the text of a token; of a control token, which has none, its name."""
        data = self.tokenizer.token_bytes(token)
        return data.decode("utf-8", "replace") if data else self.tokenizer.token_text(token)

    def text_of(self, tokens: Sequence[int]) -> str:
        """Join the texts of tokens."""
        data = b"".join(map(self.tokenizer.token_bytes, tokens))
        return data.decode("utf-8", "replace")

    def chat_logprobs(self, logprobs: Sequence[EmittedLogprob]) -> list[dict[str, object]]:
        """Format them as chat completions do."""
        if self.sampled:
            return self.llama_cpp_logprobs(logprobs)
        return [
            self._one(emitted.token, emitted.logprob)
            | {"top_logprobs": [self._one(top.token, top.logprob) for top in emitted.top]}
            for emitted in logprobs
        ]

    def llama_cpp_logprobs(self, logprobs: Sequence[EmittedLogprob]) -> list[dict[str, object]]:
        """Format them as llama.cpp's completions do, each with the `id` of its token."""
        likeliest = "top_probs" if self.sampled else "top_logprobs"
        return [
            self._numbered(emitted.token, emitted.logprob)
            | {likeliest: [self._numbered(top.token, top.logprob) for top in emitted.top]}
            for emitted in logprobs
        ]

    def _numbered(self, token: int, logprob: float) -> dict[str, object]:
        entry = {"id": token, **self._one(token, logprob)}
        if self.sampled:
            del entry["logprob"]
            entry["prob"] = math.exp(logprob)
        return entry

    def _one(self, token: int, logprob: float) -> dict[str, object]:
        data = self.tokenizer.token_bytes(token)
        return {"token": self.token_text(token), "logprob": logprob, "bytes": list(data)}

    def completion_logprobs(
        self, logprobs: Sequence[EmittedLogprob], first: Sequence[int] = ()
    ) -> dict[str, object]:
        """Format them as plain completions do; the first token of a prompt has none."""
        texts = [self.token_text(token) for token in (*first, *(e.token for e in logprobs))]
        none = [None] * len(first)
        return {
            "tokens": texts,
            "token_logprobs": [*none, *(emitted.logprob for emitted in logprobs)],
            "top_logprobs": none
            + [
                {self.token_text(top.token): top.logprob for top in emitted.top}
                for emitted in logprobs
            ],
        }
