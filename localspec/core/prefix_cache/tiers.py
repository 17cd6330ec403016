"""Tiers of the prefix cache behind the slots: memory first, then the disk."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from localspec.base.tokens import Tokens
from localspec.core.decoding.prompt_pace import nearer
from localspec.core.prefix_cache.disk import Disk
from localspec.core.prefix_cache.kept_file import ReadText
from localspec.core.prefix_cache.matching import SlotChoice
from localspec.core.prefix_cache.ram import MemoryText, Ram
from localspec.core.prefix_cache.stored_text import shared
from localspec.interfaces.adapter import Scales
from localspec.interfaces.backend import Model

MIN_TOKENS = 64  # the shortest text that is worth keeping in memory, or restoring
MIN_DISK_TOKENS = 512  # the shortest text that is worth keeping on disk
MIN_GAIN = 256  # the disk is searched if so many tokens are neither in a slot nor in memory
# Saving a text may take so much of the time to read it again, as few are asked for again. An H200
# reads 370 tokens of a model of 8 billion weights in 42 ms, and saves them in 43.
MAX_SAVING_SHARE = 0.25
EARLY_SHARE = 0.75  # of a text that is on disk: it is written anew when its model is closed
UNNOTICED_SECONDS = 0.005  # saving a text is worth so much time in any case


class CacheTiers:
    """Texts beyond the room in memory go to the disk; so do all of them when the engine closes.

    reading_seconds: of the model for a token of a prompt; 0: not known yet
    """

    def __init__(
        self,
        ram: Ram | None = None,
        disk: Disk | None = None,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self.reading_seconds = 0.0
        self._ram = ram or Ram(0)
        self._disk = disk
        self._clock = clock
        self._saving = self._saving_token = 0.0  # recent seconds for a text, and for a token

    @property
    def bytes(self) -> int:
        """Return the bytes of memory in use; any thread may call it."""
        return self._ram.bytes

    @property
    def has_memory(self) -> bool:
        """Whether texts are kept in memory: not where a GPU reads them sooner than they move."""
        noticed = self.reading_seconds and self._saving > UNNOTICED_SECONDS
        slow = noticed and self._saving_token > MAX_SAVING_SHARE * self.reading_seconds
        return self._ram.limit > 0 and not slow

    def keep(
        self, model: Model, slot: int, held: Tokens, adapters: Scales = (), *, stays: bool = False
    ) -> None:
        """Save the KV cache of a slot, if there is room for it, without waiting for the disk.

        stays: for any number of texts that begin with it
        """
        fits = len(held) >= MIN_TOKENS and self.has_memory
        limit = self._ram.allowed_bytes if fits else 0
        start = self._clock()
        if saved := model.save(slot, limit) if limit else None:
            self._note_saving(self._clock() - start, len(held))
            self._ram.put(held, saved, adapters, stays=stays)
            self._make_room()
        elif self._disk and not self._disk.busy:
            self._write(self._disk, model, slot, held, adapters)

    def _note_saving(self, seconds: float, tokens: int) -> None:
        """Learn how long saving takes."""
        self._saving = nearer(self._saving, seconds)
        self._saving_token = nearer(self._saving_token, seconds / tokens)

    def recall(
        self, model: Model, choice: SlotChoice, tokens: Tokens, adapters: Scales = ()
    ) -> int:
        """Fill a slot with a stored prefix of a text, if that is much longer than those in slots.

        Returns how many tokens the slot holds then; where that is 0 it may be empty.
        """
        self._make_room()
        longest, memory_text = choice.shared, self._ram.best_for(tokens, adapters)
        if memory_text and memory_text.pays(tokens, longest, MIN_TOKENS):
            longest = memory_text.serves(tokens)
        disk_text = None
        if self._disk and len(tokens) >= longest + MIN_GAIN:
            disk_text = self._disk.best_for(tokens, adapters)
        if self._disk and disk_text and disk_text.pays(tokens, longest, MIN_GAIN):
            data = self._disk.read(disk_text)
            if data is not None and model.restore(choice.slot, data, len(disk_text.tokens)):
                return model.truncate(choice.slot, disk_text.serves(tokens))
        elif self._disk:
            self._disk.give_up_newest()
        if memory_text and longest > choice.shared:
            self._ram.use(memory_text, tokens)
            if model.restore(choice.slot, memory_text.saved.data, len(memory_text.tokens)):
                return model.truncate(choice.slot, longest)
        return 0

    def shared(self, tokens: Tokens, adapters: Scales) -> int:
        """Count the tokens of a text with which some stored one begins."""
        return shared(
            [*self._ram.texts, *(self._disk.texts if self._disk else ())], tokens, adapters
        )

    @property
    def has_disk(self) -> bool:
        return self._disk is not None

    @property
    def is_writing(self) -> bool:
        return self._disk is not None and self._disk.busy

    def write_early(self, model: Model, slot: int, held: Tokens, adapters: Scales) -> bool:
        """Write a text to disk, if much of it is not there; return whether there was one to write.

        A conversation grows with each turn, and is not written anew for each.
        """
        if self._disk is None or shared(self._disk.texts, held, adapters) > len(held) * EARLY_SHARE:
            return False
        self._write(self._disk, model, slot, held, adapters)
        return True

    @property
    def has_newest(self) -> bool:
        """Whether the text used last is read from disk, and not restored yet."""
        return self._disk is not None and self._disk.has_newest

    def take_newest(self) -> ReadText | None:
        """Return the text used last, once, if it has been read from disk."""
        return self._disk.take_newest() if self._disk else None

    def spare(self) -> bool:
        """Free the memory; return whether any was in use."""
        newest = self.take_newest()
        return bool(self._ram.clear()) or newest is not None

    def take_notices(self) -> list[str]:
        """Return notices for clients, each once."""
        return self._disk.take_notices() if self._disk else []

    def close(self, model: Model, held: Iterable[tuple[int, Tokens, Scales]]) -> None:
        """Save everything to disk, with the KV caches of these slots."""
        self._store(self._ram.clear())
        if self._disk:
            for slot, tokens, adapters in held:
                self._write(self._disk, model, slot, tokens, adapters)
            self._disk.close()
            self._disk = None

    def _make_room(self) -> None:
        """Give up texts when memory has become tight, without waiting for the disk."""
        for text in self._ram.surplus():
            if self._disk and not self._disk.busy:
                self._store([text])

    def _store(self, texts: Iterable[MemoryText]) -> None:
        for text in texts:
            long = len(text.tokens) >= MIN_DISK_TOKENS
            if self._disk and long and self._disk.wants(text.tokens, text.adapters):
                self._disk.keep(text.tokens, text.saved, text.adapters)

    @staticmethod
    def _write(disk: Disk, model: Model, slot: int, held: Tokens, adapters: Scales) -> None:
        if len(held) < MIN_DISK_TOKENS or not disk.wants(held, adapters):
            return
        if saved := model.save(slot, disk.allowed_bytes):
            disk.keep(held, saved, adapters)
