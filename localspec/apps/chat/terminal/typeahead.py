"""Keys that come in while nothing reads them: for the next prompts, lines to send or a draft."""

from __future__ import annotations

import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TextIO

from prompt_toolkit.input import Input, create_input
from prompt_toolkit.input.typeahead import get_typeahead
from prompt_toolkit.key_binding.key_processor import KeyPress

from localspec.apps.chat.terminal.typed_lines import TypedLine, first_line, judged, text_of
from localspec.base.system.signals import handled

if sys.platform != "win32":
    import termios

MARKED, UNMARKED = "\x1b[?2004h", "\x1b[?2004l"  # a terminal marks both ends of a paste
QUIET_SECONDS = 0.03  # after which no more of a paste without marks is waited for
FORGETTING_SECONDS = 1.0  # at most: somebody may lean on a key
BURST_SECONDS = 0.1  # after which a key is none of those before it, if these were a paste

Bursts = list[list[KeyPress]]  # the last one goes on


class TypedAhead:
    """Reads keys in a thread whenever no prompt does.

    Prompts share its keyboard, and so its parser: a paste of which one half comes before a prompt
    is drawn and the other half after it stays one paste.
    """

    def __init__(self, terminal: TextIO) -> None:
        self.keyboard = create_input()
        self._terminal = terminal
        self._bursts: Bursts = [[]]
        self._judged: list[KeyPress] = []  # that were judged before those
        self._reader: KeyReader | None = None

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold keys, and keep them off the terminal, except while `released`."""
        with unechoed() as quieten:

            def go_on(*_: object) -> None:  # after Ctrl-Z, when a shell had the terminal
                quieten()
                os.write(self._terminal.fileno(), MARKED.encode())

            with handled(go_on, "SIGCONT"):
                self._hold()
                try:
                    yield
                finally:
                    if self._release():
                        self._write(UNMARKED)

    @contextmanager
    def released(self, *, whole: bool = False) -> Iterator[TypedLine]:
        """Leave the keyboard to a prompt; yield the first line that was typed, or all as a draft.

        What is typed after a line waits for the next prompt.
        """
        self._release()
        self._catch_up()
        keys = [*self._judged, *judged(self._bursts)]
        line = TypedLine(text_of(keys), False) if whole else first_line(keys)
        self._judged, self._bursts = list(line.after), [[]]
        try:
            yield line
        finally:
            self._bursts[-1] += get_typeahead(self.keyboard)  # that the prompt had no use for
            self._hold()

    def forget(self) -> None:
        """Forget what was typed until now, with the rest of a paste; no prompt may be there."""
        if self._reader is None:
            self._catch_up()
        self._judged.clear()
        end = time.monotonic() + FORGETTING_SECONDS
        while True:
            self._bursts[:] = [[]]
            time.sleep(QUIET_SECONDS)
            if not (any(self._bursts) or self.waits()) or time.monotonic() > end:
                return

    def waits(self) -> bool:
        """Return whether there are keys that were not read yet."""
        return sys.platform != "win32" and can_read(self.keyboard.fileno(), 0.0)

    def _hold(self) -> None:
        if sys.platform != "win32":  # which lets nobody wait for keys and something else
            self._write(MARKED)
            self._reader = KeyReader(self.keyboard, self._bursts)

    def _release(self) -> bool:
        reader, self._reader = self._reader, None
        if reader:
            reader.end()
        return reader is not None

    def _catch_up(self) -> None:
        """Read what the system still holds, and the rest of a paste that is coming in."""
        if sys.platform == "win32":
            while keys := self.keyboard.read_keys():
                self._bursts[-1] += keys
            return
        seconds = 0.0
        while not self.keyboard.closed and can_read(self.keyboard.fileno(), seconds):
            self._bursts[-1] += self.keyboard.read_keys()
            seconds = QUIET_SECONDS

    def _write(self, text: str) -> None:
        with suppress(OSError):  # the terminal may be gone
            self._terminal.write(text)
            self._terminal.flush()


class KeyReader:
    """Reads a keyboard in a thread of its own until it is ended."""

    def __init__(self, keyboard: Input, bursts: Bursts) -> None:
        self._keyboard, self._bursts = keyboard, bursts
        self._ended, self._end = os.pipe()
        self._thread = threading.Thread(target=self._collect, name="localspec-keys", daemon=True)
        self._thread.start()

    def end(self) -> None:
        os.close(self._end)
        self._thread.join()
        os.close(self._ended)

    def _collect(self) -> None:
        keyboard, came = self._keyboard, False
        while not keyboard.closed:
            fd, seconds = keyboard.fileno(), BURST_SECONDS if came else None
            ready, _, _ = select.select([fd, self._ended], [], [], seconds)
            if self._ended in ready or (ready and not os.isatty(fd)):
                return
            if ready:
                self._bursts[-1] += keyboard.read_keys()
            else:
                self._bursts.append([])
            came = bool(ready)


def can_read(fd: int, seconds: float | None, *others: int) -> bool:
    """Wait until a terminal has input, so many seconds at most; False if another file has."""
    ready, _, _ = select.select([fd, *others], [], [], seconds)
    return ready == [fd] and os.isatty(fd)


@contextmanager
def unechoed() -> Iterator[Callable[[], None]]:
    """Keep typed keys off the terminal, each to be read at once; Ctrl-C stays a signal.

    Yield a function that does so again.
    """
    if sys.platform == "win32" or not sys.stdin.isatty():
        yield lambda: None
        return
    before = termios.tcgetattr(sys.stdin)
    quiet = list(before)
    quiet[3] &= ~(termios.ECHO | termios.ICANON | termios.IEXTEN)
    quiet[3] |= termios.NOFLSH  # Ctrl-C would drop what is being drawn
    quiet[6] = [*quiet[6]]
    quiet[6][termios.VMIN], quiet[6][termios.VTIME] = 1, 0

    def quieten() -> None:
        if os.tcgetpgrp(sys.stdin.fileno()) == os.getpgrp():  # else that would stop the process
            termios.tcsetattr(sys.stdin, termios.TCSANOW, quiet)

    quieten()
    try:
        yield quieten
    finally:
        with suppress(termios.error):  # the terminal may be gone
            termios.tcsetattr(sys.stdin, termios.TCSANOW, before)
