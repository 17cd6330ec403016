"""Grammars as llguidance reads them, put together rule by rule."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence

from localspec.dialects.functions import Function
from localspec.grammar.grammar import LAYOUT
from localspec.templates.message import Json

Control = Callable[[str], int | None]  # the control token with this text

TERMINALS = ("TEXT: /(?s:.*)/", "BLANKS: /[ \\t\\r\\n]{0,32}/")


class Lark:
    """Rules named in the order they came."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._rules = list(TERMINALS)

    def mark(self, text: str) -> str:
        """A mark, as the control token it is or as plain text."""
        token = self._control(text)
        return quoted(text) if token is None else f"<[{token}]>"

    def is_text(self, mark: str) -> bool:
        return self._control(mark) is None

    def rule(self, body: str, option: str = "") -> str:
        """Add a rule; return its name."""
        name = f"r{len(self._rules)}"
        self._rules.append(f"{name}{option}: {body}")
        return name

    def terminal(self, body: str) -> str:
        name = f"T{len(self._rules)}"
        self._rules.append(f"{name}: {body}")
        return name

    def upto(self, mark: str, text: str = "TEXT") -> str:
        """Any text up to the first such mark, and the mark."""
        if self.is_text(mark):
            return self.rule(f"{text} {quoted(mark)}", "[lazy]")
        return f"{text} {self.mark(mark)}"

    def source(self, start: str) -> str:
        return "\n".join(["%llguidance {}", f"start: {start}", *self._rules, ""])


def quoted(text: str) -> str:
    return json.dumps(text)


def choice(expressions: Sequence[str]) -> str:
    return "(" + " | ".join(expressions) + ")"


def schema(value: Mapping[str, Json], function: Function) -> str:
    """A value that follows a schema; only a strict function's must be followed to the letter."""
    return "%json " + json.dumps(
        {**value, "x-guidance": {**LAYOUT, "lenient": not function.strict}}
    )


def formed(value: Mapping[str, Json]) -> str:
    """A reply that follows a schema."""
    return "%json " + json.dumps({**value, "x-guidance": dict(LAYOUT)})
