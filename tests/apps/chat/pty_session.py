"""A user at a terminal: types, sees what a terminal would show, and may close it."""

from __future__ import annotations

import codecs
import fcntl
import json
import os
import pty
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path

from tests.apps.chat.terminal import Terminal

ROOT = Path(__file__).parents[3]
PATIENCE = 60.0  # seconds until something that has to come is taken for missing
ENTER, ALT_ENTER, TAB, UP = "\r", "\x1b\r", "\t", "\x1b[A"
CTRL_C, CTRL_D = "\x03", "\x04"
PROMPTED = "\x1b[6n"  # a terminal is asked for its cursor when somebody may type
DRAWN = "\x1b[?25h"  # and its cursor is shown once the line is drawn
BARE = {"TERM": "xterm-256color", "LANG": "C.UTF-8", "PATH": "/nowhere"}


class Person:
    """Runs the chat in a child process on a pseudo-terminal of its own."""

    def __init__(
        self,
        home: Path,
        *,
        columns: int = 80,
        rows: int = 30,
        term: str = "",
        command: Sequence[str] = (),
        **wishes: object,
    ) -> None:
        """Start the driver of the tests, or a module with arguments."""
        self.home = home
        self.dumb = term == "dumb"
        self.raw = ""
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._terminal = Terminal(columns, rows)
        self._master, slave = pty.openpty()
        self._terminal.screen.write_process_input = self._report
        self._resize(columns, rows)
        paths = os.pathsep.join(map(str, (ROOT, ROOT / "backends")))
        env = {**BARE, "HOME": str(home), "PYTHONPATH": paths}
        env |= {"XDG_DATA_HOME": str(home / "data"), **({"TERM": term} if term else {})}
        self.process = subprocess.Popen(
            [sys.executable, "-m", *(command or ("tests.apps.chat.driver", json.dumps(wishes)))],
            stdin=slave,
            stdout=slave,
            stderr=slave,
            env=env,
            cwd=home,
            preexec_fn=terminal,
        )
        os.close(slave)

    def _resize(self, columns: int, rows: int) -> None:
        fcntl.ioctl(self._master, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))

    def resize(self, columns: int, rows: int) -> None:
        self._terminal.resize(columns, rows)
        self._resize(columns, rows)

    def unechoed(self) -> None:
        """Wait until the terminal shows no keys by itself."""
        end = time.monotonic() + PATIENCE
        while termios.tcgetattr(self._master)[3] & termios.ECHO:
            assert time.monotonic() < end, "the terminal shows keys"
            self._look(0.01)

    def echo(self) -> None:
        """Let it do so, as shells do."""
        state = termios.tcgetattr(self._master)
        state[3] |= termios.ECHO | termios.ICANON
        termios.tcsetattr(self._master, termios.TCSANOW, state)

    def _report(self, text: str) -> None:
        """Answer the terminal's reports that a program asks for."""
        os.write(self._master, text.encode())

    def type(self, text: str) -> None:
        data = text.encode()
        while data:  # a terminal takes little at a time, and only while its own output is read
            self._look(0.0)
            _, ready, _ = select.select([], [self._master], [], 0.05)
            if ready:
                data = data[os.write(self._master, data[:512]) :]

    def paste(self, text: str) -> None:
        self.type(f"\x1b[200~{text}\x1b[201~")

    def say(self, text: str, *, until: str = "", then: str = "") -> str:
        """Type a line, and more when something was written; all that came up to the next prompt."""
        before, row = len(self.raw), self._row
        self.type(text + ENTER)
        if until:
            self.wait(until, since=before)
            self.watch(0.1)
            self.type(then)
        self.prompted(since=before)
        return "\n".join(self._terminal.text[row:])

    @property
    def _row(self) -> int:
        """Count the cursor's row from the very first line."""
        screen = self._terminal.screen
        return len(screen.above) + int(screen.cursor.y)

    def prompted(self, since: int = 0) -> None:
        """Wait until one may type."""
        if self.dumb:
            self.wait("> ", since=since)
        else:
            self.wait(PROMPTED, since=since)
            self.wait(DRAWN, since=self.raw.index(PROMPTED, since))
        self.settle()

    def _look(self, seconds: float) -> bool:
        ready, _, _ = select.select([self._master], [], [], seconds)
        if not ready:
            return False
        try:
            text = self._decoder.decode(os.read(self._master, 1 << 16))
        except OSError:  # the child has left
            return False
        self.raw += text
        self._terminal.write(text)
        return bool(text)

    def wait(self, text: str, *, since: int = 0) -> None:
        """Wait until a text was written."""
        end = time.monotonic() + PATIENCE
        while text not in self.raw[since:]:
            assert time.monotonic() < end, f"no {text!r} in {self.raw[since:][-2000:]!r}"
            self._look(0.05)

    def shows(self, *endings: str) -> None:
        """Wait until the last thing on the terminal is one of these."""
        end = time.monotonic() + PATIENCE
        while not self.text.endswith(endings):
            assert time.monotonic() < end, f"not {endings!r} at the end of\n{self.text[-2000:]}"
            self._look(0.05)

    def settle(self, seconds: float = 0.02) -> None:
        while self._look(seconds):
            pass

    def watch(self, seconds: float) -> None:
        """Read for so long, whether anything comes or not."""
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self._look(left)

    @property
    def text(self) -> str:
        """All lines, those that scrolled away included."""
        return "\n".join(self._terminal.text)

    @property
    def kept(self) -> list[Path]:
        return sorted((self.home / "data" / "localspec" / "chats").glob("*.json"))

    @property
    def said(self) -> list[tuple[str, str]]:
        """Read the saved messages of the last conversation."""
        record = json.loads(self.kept[-1].read_text())
        return [(each["role"], each["content"]) for each in record["said"]]

    def leave(self, keys: str = CTRL_D) -> int:
        self.type(keys)
        return self.end()

    def end(self) -> int:
        end = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            assert time.monotonic() < end, f"it does not leave:\n{self.text}"
            self._look(0.05)
        self.settle(0.0)
        return self.process.returncode

    def close(self) -> None:
        """Close the terminal, as by its window."""
        if self._master >= 0:
            os.close(self._master)
        self._master = -1

    def gone(self) -> None:
        """Leave nothing behind, whatever became of a test."""
        self.process.kill()
        self.process.wait()
        self.close()

    def kill(self, number: int = signal.SIGKILL) -> int:
        self.process.send_signal(number)
        return self.end()


def terminal() -> None:
    """Make the child's standard input its terminal."""
    os.setsid()
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)
