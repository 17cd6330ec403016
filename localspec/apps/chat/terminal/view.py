"""An answer on a terminal while it comes."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol, TextIO

from localspec.apps.chat.terminal.canvas import Canvas
from localspec.apps.chat.terminal.coloured import THOUGHT, Coloured
from localspec.apps.chat.terminal.ink import Ink, visible, writable
from localspec.apps.chat.terminal.prose import Prose
from localspec.console.speakers.speaker import Piece

SHARE = 0.04  # of all time that drawing may take, the last time left out
LATEST = 0.4  # seconds between two drawings, at most; a single one may be slow
OFTEN = 1 / 30  # seconds between two drawings, at least
TICK = 0.1  # seconds between two pictures of the spinner
SPINNER = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏"
BAR = 24  # characters
LENGTHY = 2.0  # seconds of reading after which one may want to know how far it is


class View(Protocol):
    def add(self, piece: Piece) -> None: ...

    def wait(self, read: float | None) -> float:
        """Show progress or new text; return for how many seconds that will do."""

    def stop(self) -> None:
        """Note that the answer shall stop, which may take a while."""

    def close(self) -> None:
        """Show all that came, for good."""


class TypedView:
    """Shows text as it comes, for pipes and terminals that cannot take anything back."""

    def __init__(self, out: TextIO, *, thoughts: bool = True) -> None:
        self._out = out
        self._thoughts = thoughts
        self._kind = ""

    def add(self, piece: Piece) -> None:
        if not piece.text or (piece.kind == "thought" and not self._thoughts):
            return
        if self._kind not in ("", piece.kind):
            self._say("\n\n")
        self._kind = piece.kind
        self._say(piece.text)

    def wait(self, read: float | None) -> float:
        return TICK

    def stop(self) -> None:
        """Show nothing: it could not be taken back."""

    def close(self) -> None:
        self._say("\n")

    def _say(self, text: str) -> None:
        shown = visible(text) if self._out.isatty() else text
        self._out.write(writable(shown, self._out))
        self._out.flush()


class DrawnView:
    """Shows Markdown, or colours by proposer. Drawing takes a small share of the time."""

    def __init__(
        self,
        canvas: Canvas,
        ink: Ink,
        width: Callable[[], int],
        *,
        lens: bool,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._canvas = canvas
        self._ink = ink
        self._width = width
        self._lens = lens
        self._clock = clock
        self._begun = clock()
        self._due = clock()  # when it may be drawn again
        self._spent = 0.0  # seconds of drawing, and of what goes before it
        self._new = self._stopping = False
        self._kind = ""
        self._text: Prose | Coloured | None = None
        self._settled: list[str] = []  # of parts that are complete, not drawn yet

    def add(self, piece: Piece) -> None:
        if not piece.text:
            return
        start = self._clock()
        if self._text is None or self._kind != piece.kind:
            self._end_part()
            self._kind, self._text = piece.kind, self._part(piece)
        self._new = True
        if isinstance(self._text, Coloured):
            self._text.add(piece.text, piece.spans if self._lens else ())
        else:
            self._text.add(piece.text)
        self._spent += self._clock() - start

    def _part(self, piece: Piece) -> Prose | Coloured:
        if piece.kind == "thought":
            return Coloured(self._ink, THOUGHT)
        return Coloured(self._ink) if self._lens else Prose(self._ink)

    def _end_part(self) -> None:
        if self._text is not None:
            lines, _ = self._text.lines(self._width(), final=True)
            self._settled += [*lines, ""] if lines else []

    def wait(self, read: float | None) -> float:
        now = self._clock()
        if self._text is None:
            self._canvas.draw((), (self._waiting(now - self._begun, read),))
            return TICK
        if self._new and now >= self._due:
            self._draw(final=False)
        return max(self._due - self._clock(), 0.0) if self._new else TICK

    def stop(self) -> None:
        self._stopping = True

    def close(self) -> None:
        self._draw(final=True)

    def _draw(self, *, final: bool) -> None:
        start = self._clock()
        settled, open_ = self._settled, list[str]()
        if self._text is not None:
            more, open_ = self._text.lines(self._width(), final=final)
            settled = [*settled, *more]
        self._canvas.draw(settled, open_)
        self._settled, self._new = [], False
        self._spent += self._clock() - start
        due = max(start + OFTEN, self._begun + self._spent / SHARE)
        self._due = min(due, start + LATEST)

    def _waiting(self, seconds: float, read: float | None) -> str:
        turn = SPINNER[int(seconds / TICK) % len(SPINNER)]
        if self._stopping:
            return f"{turn} stopping; Ctrl-C again waits no longer"
        if read is None or seconds < LENGTHY:
            return f"{turn} {seconds:.0f} s" if seconds >= 1 else turn
        progress = f"{turn} reading {read:.0%}"
        bar = min(self._width() - len(f"{progress} []"), BAR)
        done = int(read * bar)
        return f"{progress} [{'#' * done}{'.' * (bar - done)}]" if bar > 0 else progress
