"""KV caches of texts that no slot holds any longer, in memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.base.system import free_memory
from localspec.base.tokens import Tokens
from localspec.core.prefix_cache.stored_text import MEMORY_SHARE, StoredText, best, needless
from localspec.interfaces.adapter import Scales
from localspec.interfaces.backend import Saved

MAX_TEXTS = 256


@dataclass(frozen=True, slots=True, eq=False)
class MemoryText(StoredText):
    saved: Saved
    stays: bool = False  # for others that begin with it, also where a slot goes on from it


class Ram:
    """Texts of at most `limit_bytes` together, and of a share of the free memory."""

    def __init__(self, limit_bytes: int) -> None:
        self.limit = limit_bytes
        self._texts: list[MemoryText] = []  # the longest unused first

    @property
    def texts(self) -> Sequence[StoredText]:
        return self._texts

    @property
    def allowed_bytes(self) -> int:
        """Return the bytes that all texts may take."""
        free = free_memory.memory().free_bytes + self.bytes
        return min(self.limit, free // MEMORY_SHARE)

    @property
    def bytes(self) -> int:
        return sum(len(text.saved.data) for text in self._texts)

    def best_for(self, tokens: Tokens, adapters: Scales = ()) -> MemoryText | None:
        """Find the text that serves another best, if any does."""
        return best(self._texts, tokens, adapters)

    def put(
        self, tokens: Tokens, saved: Saved, adapters: Scales = (), *, stays: bool = False
    ) -> None:
        """Add a text, in place of those that it serves as well as themselves."""
        for text in [] if saved.whole else needless(self._texts, tokens, adapters):
            self._texts.remove(text)
        self._texts.append(MemoryText(tokens, saved.whole, saved, stays, adapters=adapters))

    def use(self, text: MemoryText, tokens: Tokens) -> None:
        """Use a text for another; remove it if a slot now holds all of it."""
        self._texts.remove(text)
        if text.stays or text.serves(tokens) < len(text.tokens):
            self._texts.append(text)

    def surplus(self) -> list[MemoryText]:
        """Remove and return the texts that there is no room for."""
        if not self._texts:  # finding the free memory takes as long as a short round
            return []
        limit, surplus = self.allowed_bytes, []
        while self._texts and (self.bytes > limit or len(self._texts) > MAX_TEXTS):
            surplus.append(self._texts.pop(0))
        return surplus

    def clear(self) -> list[MemoryText]:
        """Remove and return all texts."""
        texts, self._texts = self._texts, []
        return texts
