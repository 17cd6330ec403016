"""Tiers of the prefix cache behind the slots: memory first, then the disk."""

from __future__ import annotations

from collections.abc import Iterable

from localspec.backend import Model
from localspec.prefix_cache.disk import Disk
from localspec.prefix_cache.matching import SlotChoice
from localspec.prefix_cache.ram import MemoryText, Ram
from localspec.tokens import Tokens

LEAST = 64  # tokens that are worth keeping in memory, or getting from there
LONG = 512  # tokens of a text that is worth keeping on disk
GAIN = 256  # tokens that must be at stake before a disk is asked


class CacheTiers:
    """What finds no room in memory goes to the disk; so does all of it when the engine closes."""

    def __init__(self, ram: Ram | None = None, disk: Disk | None = None) -> None:
        self._ram = ram or Ram(0)
        self._disk = disk

    @property
    def bytes(self) -> int:
        """Of memory that is in use now; any thread may ask."""
        return self._ram.bytes

    @property
    def has_memory(self) -> bool:
        return self._ram.limit > 0

    def keep(self, model: Model, slot: int, held: Tokens) -> None:
        """Put what a slot holds elsewhere, if there is room for it; nobody waits for the disk."""
        room = self._ram.room if len(held) >= LEAST else 0
        if saved := model.save(slot, room) if room else None:
            self._ram.put(held, saved)
            self._make_room()
        elif self._disk and not self._disk.busy:
            self._write(self._disk, model, slot, held)

    def recall(self, model: Model, place: SlotChoice, tokens: Tokens) -> int:
        """Fill a slot with what is kept of a text, if that is much more than slots have.

        Returns how much the slot holds then; where that is 0 it may be empty.
        """
        self._make_room()
        had, aside = place.shared, self._ram.find(tokens)
        if aside and aside.pays(tokens, had, LEAST):
            had = aside.serves(tokens)
        kept = self._disk.find(tokens) if self._disk and len(tokens) >= had + GAIN else None
        if self._disk and kept and kept.pays(tokens, had, GAIN):
            data = self._disk.read(kept)
            if data is not None and model.restore(place.slot, data, len(kept.tokens)):
                return model.truncate(place.slot, kept.serves(tokens))
        if aside and had > place.shared:
            self._ram.take(aside, tokens)
            if model.restore(place.slot, aside.saved.data, len(aside.tokens)):
                return model.truncate(place.slot, had)
        return 0

    def spare(self) -> bool:
        """Free the memory; whether there was any."""
        return bool(self._ram.clear())

    def take_notices(self) -> list[str]:
        """What clients should know, once."""
        return self._disk.take_notices() if self._disk else []

    def close(self, model: Model, held: Iterable[tuple[int, Tokens]]) -> None:
        """Put everything on disk, with what these slots hold."""
        self._store(self._ram.clear())
        if self._disk:
            for slot, tokens in held:
                self._write(self._disk, model, slot, tokens)
            self._disk.close()
            self._disk = None

    def _make_room(self) -> None:
        """Give up what memory has become too tight for; nobody waits for the disk."""
        for text in self._ram.surplus():
            if self._disk and not self._disk.busy:
                self._store([text])

    def _store(self, texts: Iterable[MemoryText]) -> None:
        for text in texts:
            if self._disk and len(text.tokens) >= LONG and self._disk.wants(text.tokens):
                self._disk.keep(text.tokens, text.saved)

    @staticmethod
    def _write(disk: Disk, model: Model, slot: int, held: Tokens) -> None:
        if len(held) >= LONG and disk.wants(held) and (saved := model.save(slot, disk.room)):
            disk.keep(held, saved)
