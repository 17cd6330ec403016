"""Tiers of the prefix cache behind the slots: memory first, then the disk."""

from __future__ import annotations

from collections.abc import Iterable

from localspec.backend import Model
from localspec.prefix_cache.disk import Disk
from localspec.prefix_cache.matching import SlotChoice
from localspec.prefix_cache.ram import MemoryText, Ram
from localspec.tokens import Tokens

MIN_TOKENS = 64  # tokens of a text that is worth keeping in memory, or restoring
MIN_DISK_TOKENS = 512  # tokens of a text that is worth keeping on disk
MIN_GAIN = 256  # tokens that the disk must be able to save before it is searched


class CacheTiers:
    """Texts beyond the room in memory go to the disk; so do all of them when the engine closes."""

    def __init__(self, ram: Ram | None = None, disk: Disk | None = None) -> None:
        self._ram = ram or Ram(0)
        self._disk = disk

    @property
    def bytes(self) -> int:
        """Return the bytes of memory in use; any thread may call it."""
        return self._ram.bytes

    @property
    def has_memory(self) -> bool:
        return self._ram.limit > 0

    def keep(self, model: Model, slot: int, held: Tokens) -> None:
        """Save the KV cache of a slot, if there is room for it, without waiting for the disk."""
        limit = self._ram.allowed_bytes if len(held) >= MIN_TOKENS else 0
        if saved := model.save(slot, limit) if limit else None:
            self._ram.put(held, saved)
            self._make_room()
        elif self._disk and not self._disk.busy:
            self._write(self._disk, model, slot, held)

    def recall(self, model: Model, place: SlotChoice, tokens: Tokens) -> int:
        """Fill a slot with a stored prefix of a text, if that is much longer than those in slots.

        Returns how many tokens the slot holds then; where that is 0 it may be empty.
        """
        self._make_room()
        had, aside = place.shared, self._ram.best_for(tokens)
        if aside and aside.pays(tokens, had, MIN_TOKENS):
            had = aside.serves(tokens)
        kept = self._disk.best_for(tokens) if self._disk and len(tokens) >= had + MIN_GAIN else None
        if self._disk and kept and kept.pays(tokens, had, MIN_GAIN):
            data = self._disk.read(kept)
            if data is not None and model.restore(place.slot, data, len(kept.tokens)):
                return model.truncate(place.slot, kept.serves(tokens))
        if aside and had > place.shared:
            self._ram.use(aside, tokens)
            if model.restore(place.slot, aside.saved.data, len(aside.tokens)):
                return model.truncate(place.slot, had)
        return 0

    def spare(self) -> bool:
        """Free the memory; return whether any was in use."""
        return bool(self._ram.clear())

    def take_notices(self) -> list[str]:
        """Return notices for clients, each once."""
        return self._disk.take_notices() if self._disk else []

    def close(self, model: Model, held: Iterable[tuple[int, Tokens]]) -> None:
        """Save everything to disk, with the KV caches of these slots."""
        self._store(self._ram.clear())
        if self._disk:
            for slot, tokens in held:
                self._write(self._disk, model, slot, tokens)
            self._disk.close()
            self._disk = None

    def _make_room(self) -> None:
        """Give up texts when memory has become tight, without waiting for the disk."""
        for text in self._ram.surplus():
            if self._disk and not self._disk.busy:
                self._store([text])

    def _store(self, texts: Iterable[MemoryText]) -> None:
        for text in texts:
            if self._disk and len(text.tokens) >= MIN_DISK_TOKENS and self._disk.wants(text.tokens):
                self._disk.keep(text.tokens, text.saved)

    @staticmethod
    def _write(disk: Disk, model: Model, slot: int, held: Tokens) -> None:
        if len(held) < MIN_DISK_TOKENS or not disk.wants(held):
            return
        if saved := model.save(slot, disk.allowed_bytes):
            disk.keep(held, saved)
