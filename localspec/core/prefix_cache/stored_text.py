"""A text whose KV cache is stored, and the texts that it serves."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TypeVar

from localspec.base.tokens import Tokens, common_prefix
from localspec.interfaces.adapter import Scales

MEMORY_SHARE = 4  # stored texts may take one in so many bytes of the free memory
RESTORED_PER_READ = 16  # tokens restored in no more time than it takes to read one


@dataclass(frozen=True, slots=True, eq=False)
class StoredText:
    """A text, wherever its KV cache is stored."""

    tokens: Tokens
    whole: bool  # it serves texts that begin with all of it only
    adapters: Scales = field(default=(), kw_only=True)  # that it was computed with

    def serves(self, tokens: Tokens) -> int:
        """Count the tokens of another text that can be restored from it."""
        shared = common_prefix(self.tokens, tokens)
        return 0 if self.whole and shared < len(self.tokens) else shared

    def pays(self, tokens: Tokens, reused: int, least: int) -> bool:
        """Whether it serves another text by enough tokens more than the `reused` ones."""
        return self.serves(tokens) - reused >= max(least, len(self.tokens) // RESTORED_PER_READ)


Kind = TypeVar("Kind", bound=StoredText)


def best(texts: Iterable[Kind], tokens: Tokens, adapters: Scales) -> Kind | None:
    """Find the text that serves another best, if any does; the shortest of those."""
    texts = (text for text in texts if text.adapters == adapters)
    best_text = max(texts, key=lambda text: (text.serves(tokens), -len(text.tokens)), default=None)
    return best_text if best_text and best_text.serves(tokens) else None


def needless(texts: Iterable[Kind], tokens: Tokens, adapters: Scales) -> list[Kind]:
    """Find the texts that another one serves as well as themselves, if it can be cut."""
    texts = (text for text in texts if text.adapters == adapters)
    return [text for text in texts if text.serves(tokens) == len(text.tokens)]


def shared(texts: Iterable[StoredText], tokens: Tokens, adapters: Scales) -> int:
    """Count the tokens of a text with which some stored one begins."""
    texts = (text for text in texts if text.adapters == adapters)
    return max((common_prefix(text.tokens, tokens) for text in texts), default=0)
