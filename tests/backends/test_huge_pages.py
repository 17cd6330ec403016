"""Memory that was allocated between two looks at it."""

from __future__ import annotations

import mmap
import sys

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec_llamacpp.bindings.huge_pages import added, allocated

EDGES = st.lists(st.integers(0, 40), unique=True, max_size=12).map(sorted)


def spans(edges):
    return list(zip(edges[::2], edges[1::2], strict=False))


def inside(some):
    return {at for start, end in some for at in range(start, end)}


@given(before=EDGES, now=EDGES)
def test_what_was_added_is_what_was_not_there_before(before, now):
    listed = list(added(spans(before), spans(now)))
    assert inside(listed) == inside(spans(now)) - inside(spans(before))
    assert all(start < end for start, end in listed)
    assert sum(end - start for start, end in listed) == len(inside(listed))


@pytest.mark.skipif(sys.platform != "linux", reason="there is no /proc")
def test_memory_of_this_process_is_found():
    # Taken from the kernel itself: malloc may have as much left from before.
    before = allocated()
    with mmap.mmap(-1, 64 << 20, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS):
        grown = sum(end - start for start, end in added(before, allocated()))
    assert 64 << 20 <= grown < 80 << 20
