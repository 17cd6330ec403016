"""Feed a text again in the batches of a recording, with nothing drafted and nothing taken back.

This tells rounding from defects. What the recorded run took back goes through the model here as
well, so that every batch is as wide as it was and every token stands where it stood, but in a slot
of its own, which is emptied after each batch. So no slot has to forget a part of what it holds: if
taking back leaves something behind, or a round asked for the wrong thing, the answer differs.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from localspec.apps.prove.recording import RecordedForward, survivors
from localspec.base.tokens import LogitRows, Logits
from localspec.interfaces.backend import Model, Row


def refeed(model: Model, steps: Sequence[RecordedForward], slot: int) -> Logits:
    """Replay a recording; return the logits of a slot's row in the last step.

    Tokens that were taken back go to a slot beside, which is emptied after each step. All slots are
    emptied first and last.
    """
    empty_slots(model)
    kept = survivors(steps)
    spare = model.slots // 2  # from a slot to the one beside it, which no recording has used
    logits: dict[int, LogitRows] = {}
    for at, step in enumerate(steps):
        parts = [part for row in step.rows for part in split(row, kept[at, row.slot], spare)]
        if any(kept[at, row.slot] for row in step.rows):  # else nothing of this step lasted
            logits = dict(zip((part.slot for part in parts), model.forward(parts), strict=True))
        for part in parts:
            if spare and part.slot >= spare:
                model.truncate(part.slot, 0)
    answer = np.array(list(logits[slot]))
    empty_slots(model)
    return answer


def split(row: Row, kept: int, spare: int) -> Iterator[Row]:
    """Split a row: the tokens that are kept, and the others for a second slot, if there is one."""
    lost = len(row.tokens) - kept
    if kept:
        yield Row(row.slot, row.tokens[:kept], max(0, row.outputs - lost))
    if lost and spare:
        yield Row(row.slot + spare, row.tokens[kept:], min(row.outputs, lost))


def empty_slots(model: Model) -> None:
    for slot in range(model.slots):
        model.truncate(slot, 0)
