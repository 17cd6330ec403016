"""Several texts decoded at once under the real controller, in rounds whose rows share a batch."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from localspec.base.tokens import Tokens
from localspec.core.control.best import Best
from localspec.core.control.depth import Depth
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import Ask, RoundCost
from simulation.hardware import CURVES, WIDE_CURVES
from simulation.texts import FURTHEST, PlaceDraft, SimulatedText, drafts
from simulation.world import Clock, KnownDrafts, SimulatedMachine, noise, right

LENGTH, REPLY = 600, 64  # tokens of a row, and of each of its replies
DEARER = 1.5  # times what was foreseen, that draft tokens of several rows cost


@dataclass(frozen=True, slots=True)
class RowsMachine:
    """The costs of rounds of several rows."""

    one: SimulatedMachine
    even: bool = False  # rows of unequal widths are run one after the other
    unforeseen: float = 1.0  # the factor that a draft token of several rows costs beyond one row's

    def forward(self, widths: Sequence[int]) -> float:
        """Price a round: in one batch, or in a batch for each width up to which rows are alike."""
        plain = self.one.forward(len(widths))
        if not self.even:
            return plain + self.unforeseen * (self.one.forward(sum(widths)) - plain)
        seconds, done = 0.0, 0
        for width in sorted(set(widths)):
            rows = sum(other >= width for other in widths)
            seconds, done = seconds + self.one.forward(rows * (width - done)), width
        return plain + self.unforeseen * (seconds - plain)


class DraftsOfRows:
    """A proposer whose drafts for each place of several texts are known."""

    def __init__(self, rows: Sequence[KnownDrafts]) -> None:
        self._rows = rows

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [self._rows[ask.slot].propose([ask])[0] if ask.limit else EMPTY for ask in asks]

    def release(self, slot: int) -> None:
        self._rows[slot].read = 1


class Row:
    """One text of several, and how far it has come."""

    def __init__(self, slot: int, text: SimulatedText) -> None:
        self.text, self.place = text, 0
        self._slot = slot
        self._history: Tokens = np.arange(-1, text.length, dtype=np.int32)
        self._sampler = Sampler(GREEDY, 0, self._history[:1])

    @property
    def begins(self) -> bool:
        """Whether its next token is the first one of a text."""
        return self.place == 0 or self.place in self.text.begins

    def ask(self, beside: int) -> Ask:
        """Ask for a draft, beside so many prompts that are read; while its own is, for none."""
        ends = [begin for begin in self.text.begins if begin > self.place]
        left = min([*ends, self.text.length]) - self.place - 1
        limit = 0 if self.begins else min(FURTHEST, left)
        known = self._history[: self.place + 1]
        return Ask(self._slot, known, limit, self._sampler, prompt=1, beside=beside)

    def extend(self, draft: Draft) -> int:
        """Emit what is right of a draft, and a token more; return how many these are."""
        count = 1 + right(draft, self.place)
        self.place += count
        return count


def rows_speed(texts: Sequence[SimulatedText], machine: RowsMachine, seed: int = 0) -> float:
    """Decode texts until the first is over; return the speed, plain decoding being 1."""
    rng, clock, names = np.random.default_rng(seed), Clock(), list(texts[0].drafts)
    proposers = {
        by: DraftsOfRows([KnownDrafts(by, t.drafts[by], clock, machine.one) for t in texts])
        for by in names
    }
    best = Best(proposers, Depth(machine.one.costs(rng, names), even=machine.even), clock)
    rows, emitted = [Row(slot, text) for slot, text in enumerate(texts)], 0
    while all(row.place < row.text.length for row in rows):
        begun, reading = clock.seen, [slot for slot, row in enumerate(rows) if row.begins]
        for slot in reading:
            best.release(slot)
        proposed = best.propose([row.ask(len(reading)) for row in rows])
        widths = [1 + len(draft) for draft in proposed]
        clock.spend(machine.forward(widths), noise(rng))
        came = sum(row.extend(draft) for row, draft in zip(rows, proposed, strict=True))
        best.note(RoundCost(len(rows), sum(widths), came, clock.seen - begun, bool(reading)))
        emitted += came
    return machine.forward([1] * len(rows)) * emitted / len(rows) / clock.true


def lookups(rate: float, share: float, rows: int, length: int = LENGTH) -> list[SimulatedText]:
    """Invent texts of which lookups find a draft at some places, right at a known rate."""
    texts = []
    for row in range(rows):
        dice = np.random.default_rng(row)
        at_each = drafts(np.repeat([rate], length), seed=row)
        some = [draft if dice.random() < share else PlaceDraft((), 0) for draft in at_each]
        begins = range(REPLY, length, REPLY)
        texts.append(SimulatedText(f"{rate:.0%} of {share:.0%}", {"lookup": some}, begins=begins))
    return texts


def lines() -> Iterator[str]:
    """Try lookups in 2, 4 and 8 texts at once on every kind of hardware."""
    texts = [(0.9, 0.2), (0.5, 1.0), (0.95, 1.0)]
    names = " ".join(f"{f'{rate:.0%} of {share:.0%}':>12}" for rate, share in texts)
    yield f"{'hardware':14}{'rows':>5} {'batches':10}{'beyond':>7} {names}"
    for name, curve in {**CURVES, **WIDE_CURVES}.items():
        for rows in (2, 4, 8):
            for even in (True, False):
                for unforeseen in (1.0, DEARER):
                    machine = RowsMachine(SimulatedMachine(curve, 0.0), even, unforeseen)
                    speeds = [rows_speed(lookups(*kind, rows), machine) for kind in texts]
                    shown = " ".join(f"{speed:12.3f}" for speed in speeds)
                    batches = "one width" if even else "any widths"
                    yield f"{name:14}{rows:5} {batches:10}{unforeseen:7.1f} {shown}"


def main() -> None:
    """Print how fast several texts are decoded at once, plain decoding being 1."""
    for line in lines():
        print(line, flush=True)
