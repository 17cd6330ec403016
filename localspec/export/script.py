"""Scripts for a POSIX shell: a command, the files it reads, and what it leaves behind."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Script:
    """The commands that run a pair on another engine, and what does not carry over."""

    commands: Sequence[Sequence[str]]
    notes: Sequence[str] = ()
    file: str = ""  # written before the commands
    content: str = ""

    def __str__(self) -> str:
        lines = [f"# {note}" for note in self.notes]
        if self.content:
            lines += [f"cat > {shlex.quote(self.file)} <<'END'", self.content.rstrip(), "END"]
        return "\n".join([*lines, *map(shell, self.commands)])


def shell(command: Sequence[str]) -> str:
    """Quote a command, one option a line."""
    lines = [""]
    for word in command:
        if word.startswith("--"):
            lines.append(word)
        else:
            lines[-1] = f"{lines[-1]} {shlex.quote(word)}".strip()
    return " \\\n  ".join(lines)
