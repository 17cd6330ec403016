"""The prefix cache in the slots of a model: the texts that each holds for later requests."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress

import numpy as np

from localspec.base.errors import BackendError, NotOffered, SlotBusy, UsageError
from localspec.base.tokens import NONE, Tokens, common_prefix
from localspec.core.prefix_cache import matching
from localspec.core.prefix_cache.kept_file import ReadText
from localspec.core.prefix_cache.matching import SlotChoice
from localspec.core.prefix_cache.slot_files import SlotFiles
from localspec.core.prefix_cache.tiers import MIN_DISK_TOKENS, MIN_TOKENS, CacheTiers
from localspec.interfaces.adapter import Scales
from localspec.interfaces.backend import Model

# An idle text leaves a pool once other texts ran so many tokens: attention goes over the cells of
# all. On a CPU, moving a text away and back takes as long as 40 to 80 tokens lose by it.
MAX_IDLE_TOKENS = 64
# One in so many tokens of a text may be lost to another, as when a reply is regenerated.
MAX_LOSS = 4
IDLE_CHECKS = 3  # in a row, about a second apart, after which texts are written to disk


class Slots:
    """Gives slots to texts, and keeps the texts of free slots for as long as possible."""

    def __init__(self, model: Model, tiers: CacheTiers, files: SlotFiles | None = None) -> None:
        self._model = model
        self._tiers = tiers
        self._files = files
        self._is_pool_shared = model.pool < model.slots * model.context
        self._held: list[Tokens] = [NONE] * model.slots  # of slots that are free
        self._adapters: list[Scales] = [()] * model.slots  # by which the held texts were computed
        self._free = list(range(model.slots))  # the longest unused first
        self._tokens_since_use = [0] * model.slots  # that others ran
        self._unwritten: set[int] = set()  # slots left since they were last looked at
        self._idle_checks = 0  # since anything ran

    @property
    def free(self) -> bool:
        """Whether any slot is free."""
        return bool(self._free)

    def spare_tokens(self, active: int) -> int:
        """Return how many tokens there is room for beside so many active ones and idle texts."""
        return self._model.pool - active - sum(len(self._held[slot]) for slot in self._free)

    def choose(
        self, tokens: Tokens, active: Mapping[int, Tokens], adapters: Scales = ()
    ) -> SlotChoice:
        """Take a free slot for a text; `active` has what those in use share with it."""
        held = [active.get(slot, text) for slot, text in enumerate(self._held)]
        shared = [
            common_prefix(text, tokens) if slot in active or ours == adapters else 0
            for slot, (text, ours) in enumerate(zip(held, self._adapters, strict=True))
        ]
        choice = matching.choose(held, self._free, shared)
        self._free.remove(choice.slot)
        return choice

    def settle(self, choice: SlotChoice, tokens: Tokens, adapters: Scales = ()) -> int:
        """Make a slot hold the beginning of a text, from wherever most of it is cached."""
        held = self._held[choice.slot]
        if len(held) - choice.own > len(held) // MAX_LOSS:
            self._tiers.keep(self._model, choice.slot, held, self._adapters[choice.slot])
        restored = self._tiers.recall(self._model, choice, tokens, adapters)
        count = restored or matching.settle(self._model, choice)
        if count + MIN_TOKENS <= choice.shared:  # what this model holds cannot be cut
            less = SlotChoice(choice.slot, count, choice.slot, count)
            restored = self._tiers.recall(self._model, less, tokens, adapters)
            count = restored or self._model.truncate(choice.slot, count)
        return count

    def parting(self, choice: SlotChoice, count: int, tokens: Tokens, adapters: Scales) -> int:
        """Return where a text parts from another that is held or stored; 0: not to be saved there.

        Where what others hold can be cut, the `count` tokens up to there are held already.
        """
        if len(tokens) < count + MIN_DISK_TOKENS:
            return 0
        shared = max(choice.shared, self._tiers.shared(tokens, adapters))
        return shared if shared >= count + MIN_DISK_TOKENS else 0

    def longest_beginning(
        self, tokens: Tokens, active: Mapping[int, Tokens], adapters: Scales
    ) -> tuple[int, int]:
        """Find the longest text that a text begins with; return its length and its slot.

        `active` has what slots in use hold for these adapters.
        """
        texts = {slot: self._held[slot] for slot in self._free if self._adapters[slot] == adapters}
        texts.update(active)
        lengths = (
            (len(text), slot)
            for slot, text in texts.items()
            if np.array_equal(text, tokens[: len(text)])
        )
        return max(lengths, default=(0, -1))

    def leave(self, slot: int, held: Tokens, adapters: Scales = ()) -> None:
        """Free a slot, which keeps its KV cache for another text to go on from."""
        self._held[slot], self._adapters[slot] = held, adapters
        self._free.append(slot)
        self._tokens_since_use[slot] = 0
        self._unwritten.add(slot)
        self._idle_checks = 0

    @property
    def waits(self) -> bool:
        """Whether there may be something to write to disk, or to restore, while nothing runs."""
        return self._tiers.has_newest or (self._tiers.has_disk and bool(self._unwritten))

    def idle(self) -> None:
        """Write a text to disk: who ends the process may not wait until all of them are."""
        self._restore_newest()
        self._idle_checks += 1
        while self._idle_checks > IDLE_CHECKS and self._unwritten and not self._tiers.is_writing:
            slot = self._unwritten.pop()
            if slot in self._free and self._tiers.write_early(
                self._model, slot, self._held[slot], self._adapters[slot]
            ):
                return

    def _restore_newest(self) -> None:
        """Restore the text that was used last, once it is read, if a slot is empty."""
        newest = self._tiers.take_newest()
        empty = [slot for slot in self._free if not len(self._held[slot])]
        if newest and empty and len(newest.text.tokens) <= self.spare_tokens(0):
            with suppress(BackendError):  # a request for it reads it anew
                self._fill(empty[0], newest)

    def tidy(self, tokens: int) -> None:
        """Move an idle text out of a pool in which a round ran so many tokens of others."""
        if not self._is_pool_shared or not self._tiers.has_memory:
            return
        for slot in self._free:
            self._tokens_since_use[slot] += tokens
        late = [slot for slot in self._free if self._is_late(slot)]
        if late:
            self.put_aside(late[0])

    def _is_late(self, slot: int) -> bool:
        """Whether the text of a slot is worth keeping, but not here."""
        return (
            self._tokens_since_use[slot] > MAX_IDLE_TOKENS and len(self._held[slot]) >= MIN_TOKENS
        )

    def put_aside(self, slot: int) -> None:
        """Save the KV cache of a free slot elsewhere, and empty the slot."""
        self._tiers.keep(self._model, slot, self._held[slot], self._adapters[slot])
        self.empty(slot)

    def give_up(self) -> bool:
        """Put the longest unused text aside; return whether there was any."""
        full = [slot for slot in self._free if len(self._held[slot])]
        if full:
            self.put_aside(full[0])
        return bool(full)

    def empty(self, slot: int) -> None:
        self._held[slot] = NONE
        self._model.truncate(slot, 0)

    def make_room(self) -> bool:
        """Empty free slots and the memory of texts put aside; return whether there were any."""
        full = [slot for slot in self._free if len(self._held[slot])]
        for slot in full:
            self.empty(slot)
        return self._tiers.spare() or bool(full)

    def save(self, slot: int, name: str) -> tuple[int, int]:
        """Save a free slot to a file; return its tokens and bytes."""
        files, held = self._require_files(slot), self._held[slot]
        files.file_path(name)
        if not len(held):
            raise UsageError(f"slot {slot} holds nothing to save")
        saved = self._model.save(slot, files.allowed_bytes)
        if saved is None:
            raise UsageError(
                f"slot {slot} was not saved: it holds more than the {files.allowed_bytes:,} bytes "
                "that may be, or its engine saves nothing of this model"
            )
        return len(held), files.write(name, held, saved, self._adapters[slot])

    def restore(self, slot: int, name: str) -> tuple[int, int]:
        """Restore a free slot from a file; return its tokens and bytes."""
        saved = self._require_files(slot).read(name)
        self.put_aside(slot)
        if not self._fill(slot, saved):
            raise UsageError(f"the engine could not restore {name}")
        return len(saved.text.tokens), len(saved.data)

    def _fill(self, slot: int, saved: ReadText) -> bool:
        """Restore a text in a free, empty slot; return whether the engine could."""
        tokens = saved.text.tokens
        if self._model.restore(slot, saved.data, len(tokens)) != len(tokens):
            self.empty(slot)
            return False
        self._free.remove(slot)
        self.leave(slot, tokens, saved.text.adapters)
        return True

    def erase(self, slot: int) -> tuple[int, int]:
        """Empty a free slot; return the tokens that it held."""
        self._require_files(slot)
        count = len(self._held[slot])
        self.empty(slot)
        return count, 0

    def _require_files(self, slot: int) -> SlotFiles:
        """Return the files of slots, if clients may use them and the slot exists and is free."""
        if self._files is None:
            raise NotOffered("this server saves no slots: start it with --cache-dir")
        if not 0 <= slot < self._model.slots:
            raise UsageError(f"there is no slot {slot}; slots are 0 to {self._model.slots - 1}")
        if slot not in self._free:
            raise SlotBusy(f"slot {slot} is busy: try again when its request has ended")
        return self._files

    def close(self) -> None:
        """Save the texts of free slots to disk, if there is one."""
        held = [(slot, self._held[slot], self._adapters[slot]) for slot in self._free]
        self._tiers.close(self._model, held)
