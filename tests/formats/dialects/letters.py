"""A vocabulary of bytes and control tokens, and replies drawn at random from a grammar over it."""

from __future__ import annotations

import random
import re
from collections.abc import Sequence

import llguidance

END = "<end>"


class Letters:
    """What llguidance asks of a tokenizer."""

    def __init__(self, controls: Sequence[str]) -> None:
        self.controls = [END, *dict.fromkeys(controls)]
        self.tokens = [bytes([byte]) for byte in range(256)]
        self.tokens += [control.encode() for control in self.controls]
        self.special_token_ids = list(range(256, len(self.tokens)))
        self.eos_token_id = 256
        self.bos_token_id = None
        self._marks = re.compile("(" + "|".join(map(re.escape, self.controls)) + ")")
        self._matchers: dict[str, llguidance.LLMatcher] = {}
        wrapper = llguidance.TokenizerWrapper(self)
        self._tokenizer = llguidance.LLTokenizer(wrapper, slices=[])

    def __call__(self, text: bytes | str) -> list[int]:
        return list(text if isinstance(text, bytes) else text.encode())

    def control(self, text: str) -> int | None:
        return 256 + self.controls.index(text) if text in self.controls else None

    def encode(self, text: str) -> list[int]:
        found: list[int] = []
        for piece in self._marks.split(text):
            token = self.control(piece)
            found += self(piece) if token is None else [token]
        return found

    def matcher(self, grammar: str) -> llguidance.LLMatcher:
        if grammar not in self._matchers:
            matcher = llguidance.LLMatcher(self._tokenizer, grammar, log_level=0)
            assert not matcher.is_error(), matcher.get_error()
            self._matchers[grammar] = matcher
        return self._matchers[grammar].deep_copy()

    def accepts(self, grammar: str, text: str) -> bool:
        """Whether a grammar takes a whole text."""
        matcher = self.matcher(grammar)
        tokens = self.encode(text)
        return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()

    def begins(self, grammar: str, text: str) -> bool:
        """Whether a grammar takes a text as the beginning of another."""
        tokens = self.encode(text)
        return self.matcher(grammar).try_consume_tokens(tokens) == len(tokens)

    def draw(self, grammar: str, words: Sequence[str], seed: int) -> str | None:
        """A random reply of the grammar, made of these words and of letters; None: too long."""
        chance = random.Random(seed)
        matcher = self.matcher(grammar)
        said: list[int] = []
        tokens = [self.encode(word) for word in words]
        while len(said) < 600:
            if matcher.is_accepting() and (matcher.is_stopped() or chance.random() < 0.4):
                return b"".join(self.tokens[token] for token in said).decode(errors="replace")
            token_wish = matcher.compute_ff_tokens() or self._wish(matcher, tokens, chance)
            assert matcher.consume_tokens(token_wish), matcher.get_error()
            said += token_wish
        return None

    def _wish(
        self, matcher: llguidance.LLMatcher, known: list[list[int]], chance: random.Random
    ) -> list[int]:
        for word in chance.sample(known, len(known)):
            if matcher.validate_tokens(word) == len(word):
                return word
        allowed = matcher.compute_logit_bias()
        return [
            chance.choice([token for token, bias in enumerate(allowed) if bias and token != 256])
        ]
