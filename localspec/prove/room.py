"""Loading options of a proof: with slots to spare."""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import replace

from localspec.models import trial
from localspec.runtime.loaded_pair import LoadedPair, PairFiles, opened
from localspec.runtime.loading import Loading

SLOTS = 6  # three replies at once, and as many slots for what `refeed` puts aside
CONTEXT = 2048  # tokens for each slot, if the user wishes no other number


def roomy(places: PairFiles, loading: Loading, slots: int) -> AbstractContextManager[LoadedPair]:
    wished = loading.options
    with places.examined() as looks:
        head = looks.head
    context = wished.context or slots * CONTEXT
    options = replace(wished, slots=slots, context=context, head=head)
    return opened(places, options, loading.limits)


def stages(places: PairFiles) -> list[int]:
    """Choose with how many slots to load, one after the other; files are inspected, not loaded.

    A recurrent model that has a single slot takes tokens back in a way of its own.
    """
    with trial.examined(places.target) as looked:
        return [1, SLOTS] if looked.footprint().recurrent else [SLOTS]
