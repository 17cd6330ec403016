"""Loading options of a proof: with slots to spare."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

from localspec.models import trial
from localspec.runtime.loaded_pair import LoadedPair, resolve_and_load
from localspec.runtime.loading import Loading
from localspec.runtime.pair_files import PairFiles

SLOTS = 6  # three replies at once, and as many slots for what `refeed` puts aside
CONTEXT = 2048  # tokens for each slot, unless the user sets another number


def open_with_spare_slots(
    files: PairFiles, loading: Loading, slots: int
) -> AbstractContextManager[LoadedPair]:
    chosen = loading.options
    with files.examine() as examined:
        head = examined.head
    context = chosen.context or slots * CONTEXT
    options = replace(chosen, slots=slots, context=context, head=head)
    return resolve_and_load(files, options, loading.limits)


def slot_counts(files: PairFiles) -> list[int]:
    """Choose with how many slots to load, one after the other; files are inspected, not loaded.

    A recurrent model that has a single slot takes tokens back in a way of its own.
    """
    with trial.examine(files.target) as model:
        return [1, SLOTS] if model.footprint().recurrent else [SLOTS]
