"""The share of time that drawing answers takes: real drawing, but no waiting."""

from __future__ import annotations

import io
import os
import random
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from benchmarks.machine import heading
from localspec.chat.speakers.speaker import Piece
from localspec.chat.terminal.canvas import Canvas
from localspec.chat.terminal.ink import Ink
from localspec.chat.terminal.view import DrawnView
from localspec.engine.figures import TARGET

RATE = 200  # tokens a second
TOKEN = 4  # characters
COLUMNS, ROWS = 100, 40
GOAL = 0.05  # of the time
LATE = 0.5  # seconds after which all that came must be seen
SAID = "the model guesses **what follows** and `then` looks whether it was right about that"
WORDS = SAID.split()


def words(count: int, rng: random.Random) -> str:
    return " ".join(rng.choice(WORDS) for _ in range(count))


def code(lines: int) -> str:
    parts = ("def part_{0}(value: int) -> int:", '    """Say {0}."""', "    return value + {0}", "")
    return "\n".join(parts[at % len(parts)].format(at) for at in range(lines))


def texts() -> Mapping[str, str]:
    rng = random.Random(0)
    rows = (f"| name {at} | {at * 37:,} | {words(8, rng)} |" for at in range(100))
    nested = ("  " * (at % 3) + f"- {words(9, rng)}" for at in range(300))
    return {
        "twenty paragraphs": "\n\n".join(words(80, rng) for _ in range(20)),
        "one paragraph, 1,500 words": words(1500, rng),
        "list, 300 items": "\n".join(f"{at}. {words(9, rng)}" for at in range(1, 301)),
        "nested list, 300 items": "\n".join(nested),
        "table, 100 rows": "\n".join(("| a | b | c |", "|---|--:|---|", *rows)),
        "code, 300 lines": f"```python\n{code(300)}\n```",
        "code in a list, 300 lines": "- so:\n\n  ```python\n" + code(300).replace("\n", "\n  "),
    }


class CountedOutput(io.TextIOWrapper):
    """An output that counts bytes and writes."""

    def __init__(self, descriptor: int) -> None:
        super().__init__(os.fdopen(descriptor, "wb"), encoding="utf-8")
        self.bytes = self.times = 0

    def write(self, text: str) -> int:
        self.bytes += len(text.encode())
        self.times += 1
        return super().write(text)


@contextmanager
def terminal() -> Iterator[CountedOutput]:
    """Open a terminal that is read as fast as possible, as by a good one."""
    master, slave = os.openpty()

    def read() -> None:
        while not over.is_set():
            os.read(master, 1 << 16)

    over = threading.Event()
    reader = threading.Thread(target=read)
    reader.start()
    with CountedOutput(slave) as out:
        yield out
        over.set()
        out.write("\n")
    reader.join()
    os.close(master)


@dataclass(slots=True)
class QuickClock:
    """A clock of real time, on which waiting takes none."""

    skipped: float = 0.0

    def __call__(self) -> float:
        return time.perf_counter() + self.skipped


@dataclass(slots=True)
class Taken:
    """Times in seconds."""

    drawing: list[float] = field(default_factory=list)
    late: float = 0.0  # what was longest not seen
    whole: float = 0.0


def stream(text: str, out: CountedOutput, *, lens: bool) -> Taken:
    clock, taken = QuickClock(), Taken()
    view = DrawnView(
        Canvas(out, lambda: (COLUMNS, ROWS)), Ink(colours=True), lambda: 99, lens=lens, clock=clock
    )
    begun, unseen = clock(), list[float]()
    for at in range(0, len(text), TOKEN):
        due = begun + at / TOKEN / RATE
        while clock() < due:
            before, times = clock(), out.times
            wait = view.wait(None)
            taken.drawing.append(clock() - before)
            if out.times > times and unseen:
                taken.late = max(taken.late, clock() - unseen[0])
                unseen = []
            clock.skipped += max(min(wait, due - clock()), 0.0)
        before = clock()
        piece = text[at : at + TOKEN]
        view.add(Piece(piece, said=[(len(piece), TARGET if at % 3 else "ngram")]))
        taken.drawing.append(clock() - before)
        unseen.append(due)
    before = clock()
    view.close()
    taken.drawing.append(clock() - before)
    taken.whole = clock() - begun
    return taken


def main() -> bool:
    """Print the table; False if drawing took more than its share, or came too late."""
    print(heading())
    print(f"\na terminal of {COLUMNS} x {ROWS}, {RATE} tokens/s of {TOKEN} characters")
    print("(other work on the machine makes all of these larger)\n")
    print(f"{'':30} seconds  share of the time  longest ms  seen within ms      bytes")
    met = True
    for name, text in texts().items():
        for lens in (False, True) if name.startswith("twenty") else (False,):
            with terminal() as out:
                taken = stream(text, out, lens=lens)
                written = out.bytes
            share = sum(taken.drawing) / taken.whole
            within = share <= GOAL and taken.late <= LATE
            met = met and within
            print(
                f"{name + (', by source' if lens else ''):30} {taken.whole:7.1f}"
                f"  {share:17.1%}  {max(taken.drawing) * 1e3:10.1f}  {taken.late * 1e3:14.0f}"
                f"  {written:9,}{'' if within else '   MISSED'}",
                flush=True,
            )
    return met
