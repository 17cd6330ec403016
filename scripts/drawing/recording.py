"""A question in the chat at a terminal, recorded as it happens: what the screen shows, and when."""

from __future__ import annotations

import codecs
import fcntl
import os
import pty
import re
import select
import shutil
import struct
import subprocess
import sys
import tempfile
import termios
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from itertools import groupby
from pathlib import Path

import pyte

from drawing.film import COLUMNS, ROWS, Frame, Row, Run

FILE = Path(__file__).with_name("account.txt")
SHORTEST = 1 / 30  # seconds between two pictures, as the chat draws
PATIENCE = 300.0  # seconds for a model to load and to answer
CURSOR_ASKED = "\x1b[6n"  # the chat asks for the cursor's place when somebody may type
FAINT = re.compile(r"\x1b\[2(?=[;m])")  # pyte knows no faint text: it is drawn in grey


def record(arguments: Sequence[str], question: str) -> list[Frame]:
    """Ask the chat about a file; return what is seen from Enter to the next prompt."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copy(FILE, Path(folder, "account.py"))
        with chat(arguments, folder) as terminal:
            terminal.read_until(lambda: terminal.prompts == 1)
            terminal.type("\x0c")  # clear the screen
            terminal.type(question)
            terminal.read_until(lambda: question[-10:] in "".join(terminal.screen.display))
            terminal.read_until_quiet()
            frames = list(terminal.answer())
            terminal.type("\x04")
        return frames


@contextmanager
def chat(arguments: Sequence[str], folder: str) -> Iterator[Terminal]:
    """Run localspec at a terminal of its own, in a folder."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
    process = subprocess.Popen(
        [sys.executable, "-m", "localspec", *arguments],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=folder,
        env=os.environ | {"TERM": "xterm-256color", "COLORTERM": ""},
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # it is the session's terminal
    )
    os.close(slave)
    try:
        yield Terminal(master)
        process.wait(PATIENCE)
    finally:
        process.kill()
        process.wait()
        os.close(master)


class Terminal:
    def __init__(self, master: int) -> None:
        self._master = master
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.screen.write_process_input = self.type  # a program asks where the cursor is
        self._stream = pyte.Stream(self.screen)
        self.prompts = 0  # that have been shown

    def type(self, text: str) -> None:
        os.write(self._master, text.encode())

    def answer(self) -> Iterator[Frame]:
        """Press Enter; yield what the screen shows whenever that changes, up to the next prompt."""
        yield Frame(0.0, self.rows())
        begun, before = time.monotonic(), self.prompts
        self.type("\r")
        shown = self.rows()
        while self.prompts == before:
            self._read(SHORTEST)
            seconds, rows = time.monotonic() - begun, self.rows()
            if rows != shown:
                yield Frame(seconds, rows)
                shown = rows
            if seconds > PATIENCE:
                raise TimeoutError("the chat did not answer")

    def rows(self) -> tuple[Row, ...]:
        return tuple(tuple(self._runs(at)) for at in range(ROWS))

    def _runs(self, at: int) -> Iterator[Run]:
        """Yield the characters of a row that show, by their styles."""
        line = self.screen.buffer[at]
        cells = [line[column] for column in range(COLUMNS)]
        column = 0
        for (colour, bold), group in groupby(cells, lambda cell: (cell.fg, cell.bold)):
            text = "".join(cell.data for cell in group)
            if shown := text.strip():
                indent = len(text) - len(text.lstrip())
                yield Run(column + indent, shown, colour, bold)
            column += len(text)

    def read_until(self, done: Callable[[], bool]) -> None:
        end = time.monotonic() + PATIENCE
        while not done():
            self._read(SHORTEST)
            if time.monotonic() > end:
                raise TimeoutError("\n".join(self.screen.display))

    def read_until_quiet(self) -> None:
        while self._read(0.3):
            pass

    def _read(self, seconds: float) -> bool:
        """Take in what is written within this time; tell if anything was."""
        ready, _, _ = select.select([self._master], [], [], seconds)
        if ready:
            try:
                text = self._decoder.decode(os.read(self._master, 1 << 16))
            except OSError as error:
                raise EOFError("\n".join(self.screen.display)) from error
            self._stream.feed(FAINT.sub("\x1b[90", text))
            self.prompts += text.count(CURSOR_ASKED)
        return bool(ready)
