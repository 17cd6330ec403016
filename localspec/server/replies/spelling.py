"""Log-probabilities with the text of their tokens."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.sampling.logprobs import EmittedLogprob
from localspec.tokenizer import Tokenizer


@dataclass(frozen=True, slots=True)
class Spelling:
    tokenizer: Tokenizer

    def text(self, token: int) -> str:
        """Show a control token by its name: it has no text, but was sampled."""
        said = self.tokenizer.token_bytes(token)
        return said.decode("utf-8", "replace") if said else self.tokenizer.token_text(token)

    def whole(self, tokens: Sequence[int]) -> str:
        """Join the texts of tokens."""
        said = b"".join(map(self.tokenizer.token_bytes, tokens))
        return said.decode("utf-8", "replace")

    def chat_logprobs(self, logprobs: Sequence[EmittedLogprob]) -> list[dict[str, object]]:
        """Format them as chat completions do."""
        return [
            self._one(each.token, each.logprob)
            | {"top_logprobs": [self._one(other.token, other.logprob) for other in each.top]}
            for each in logprobs
        ]

    def llama_cpp_logprobs(self, logprobs: Sequence[EmittedLogprob]) -> list[dict[str, object]]:
        """Format them as llama.cpp's completions do, each with the number of its token."""
        return [
            self._numbered(each.token, each.logprob)
            | {"top_logprobs": [self._numbered(other.token, other.logprob) for other in each.top]}
            for each in logprobs
        ]

    def _numbered(self, token: int, logprob: float) -> dict[str, object]:
        return {"id": token, **self._one(token, logprob)}

    def _one(self, token: int, logprob: float) -> dict[str, object]:
        said = self.tokenizer.token_bytes(token)
        return {"token": self.text(token), "logprob": logprob, "bytes": list(said)}

    def completion_logprobs(self, logprobs: Sequence[EmittedLogprob]) -> dict[str, object]:
        """Format them as plain completions do."""
        texts = [self.text(each.token) for each in logprobs]
        return {
            "tokens": texts,
            "token_logprobs": [each.logprob for each in logprobs],
            "top_logprobs": [
                {self.text(other.token): other.logprob for other in each.top} for each in logprobs
            ],
        }
