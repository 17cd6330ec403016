"""A recording of what a model was fed and answered, to be examined and fed again."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from localspec.base.tokens import LogitRows, Logits
from localspec.core.sampling.highest import top
from localspec.interfaces.backend import Model, Roll, Row
from localspec.interfaces.draft import Draft
from localspec.interfaces.forward_loop import WrappedModel, roll_by_forward


@dataclass(frozen=True, slots=True)
class TopTwo:
    """The two highest logits at one place."""

    best: int
    second: int
    lead: float  # of the one over the other


@dataclass(slots=True)
class RecordedForward:
    """One forward, and the truncations between it and the next: (slot, length that is left)."""

    rows: tuple[Row, ...] = ()
    answers: tuple[tuple[TopTwo, ...], ...] = ()
    cuts: list[tuple[int, int]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class AnswerPlace:
    """The place of an answer in a recording: the step, and the index among the row's outputs."""

    step: int
    output: int
    top_two: TopTwo


class Recorder(WrappedModel):
    """A model that records its calls, and leaves half of its slots unused."""

    def __init__(self, model: Model) -> None:
        super().__init__(model)
        self.slots = max(1, model.slots // 2)
        self.steps = [RecordedForward()]

    def forward(self, rows: Sequence[Row]) -> Sequence[LogitRows]:
        logits = self._model.forward(rows)
        answers = tuple(tuple(map(top_two, outputs)) for outputs in logits)
        self.steps.append(RecordedForward(tuple(rows), answers))
        return logits

    def truncate(self, slot: int, length: int) -> int:
        kept = self._model.truncate(slot, length)
        self.steps[-1].cuts.append((slot, kept))
        return kept

    def copy(self, source: int, target: int, length: int) -> int:
        """Copy nothing: every text is to be read as plain decoding reads it."""
        return self.truncate(target, 0)

    def roll(self, rolls: Sequence[Roll]) -> list[Draft]:
        return roll_by_forward(self, rolls)


def top_two(logits: Logits) -> TopTwo:
    best, second = top(logits, 2).tolist()
    return TopTwo(best, second, float(logits[best] - logits[second]))


def find_answers(
    steps: Sequence[RecordedForward], slot: int, text: list[int]
) -> Mapping[int, AnswerPlace]:
    """Find the answers at those places of a text before which the slot held exactly the text."""
    held: list[int] = []
    places: dict[int, AnswerPlace] = {}
    for at, step in enumerate(steps):
        for row, answers in zip(step.rows, step.answers, strict=True):
            if row.slot == slot:
                held += row.tokens.tolist()
                first = len(held) - row.outputs + 1
                for output, answer in enumerate(answers):
                    place = first + output
                    if place < len(text) and held[:place] == text[:place]:
                        places[place] = AnswerPlace(at, output, answer)
        for _, length in (cut for cut in step.cuts if cut[0] == slot):
            del held[length:]
    return places


def survivors(steps: Sequence[RecordedForward]) -> Mapping[tuple[int, int], int]:
    """Count, by step and slot, the tokens fed there that are still held after the last step."""
    held: defaultdict[int, list[int]] = defaultdict(list)  # the step that each token came with
    for at, step in enumerate(steps):
        for row in step.rows:
            held[row.slot] += [at] * len(row.tokens)
        for slot, length in step.cuts if at + 1 < len(steps) else ():
            del held[slot][length:]
    count: defaultdict[tuple[int, int], int] = defaultdict(int)
    for slot, origins in held.items():
        for origin in origins:
            count[origin, slot] += 1
    return count
