"""Calls as JSON objects, within marks or bare: Hermes, Qwen, Llama, Granite and many more."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from localspec.dialects.envelope import envelope
from localspec.dialects.form import Bare
from localspec.dialects.functions import Function
from localspec.dialects.lark import Lark, choice, quoted, schema
from localspec.dialects.parts import Parts
from localspec.dialects.tape import Reading, Tape


@dataclass(frozen=True, slots=True)
class Tagged:
    openings: tuple[str, ...]
    close: str = ""
    repeats: str | None = None
    key: str = "arguments"
    listed: bool = False  # whether the objects of one opening are written as a list
    gap: str = ""  # between the marks and what is in them
    bare: str = ""
    explicit: bool = True  # whether a mark is reason enough to take any name for a call

    @property
    def marks(self) -> tuple[str, ...]:
        return tuple(mark for mark in (*self.openings, self.close) if mark)

    def read(
        self, tape: Tape, parts: Parts, functions: Sequence[Function], opening: str
    ) -> Reading[None]:
        known = None if opening and self.explicit else {each.name for each in functions}
        yield from tape.blank()
        yield from tape.starts("[")
        while (yield from envelope(tape, parts, known)) and parts.complete:
            yield from tape.blank()
            yield from tape.starts(",", ";")
            yield from tape.blank()
            if (yield from tape.ahead()) != "{":
                yield from self._end(tape, opening)
                break
        parts.say(tape.written())

    def _end(self, tape: Tape, opening: str) -> Reading[None]:
        """Read what closes the calls; a bracket too many is left out, too."""
        while (yield from tape.starts("}", "]")):
            tape.begin()
            yield from tape.blank()
        if opening and self.close and (yield from tape.starts(self.close)):
            tape.begin()

    def after(self, lark: Lark, functions: Sequence[Function], parallel: bool) -> str:
        if not self.explicit:
            return ""
        calls = choice([self._call(each) for each in functions])
        if self.listed:
            more = f'(", " {calls})*' if parallel else ""
            calls = f'" "? "[" {calls} {more} "]"'
        gap = quoted(self.gap) if self.gap else ""
        return f"{gap} {calls} {gap} {lark.mark(self.close) if self.close else ''}"

    def alone(self, lark: Lark, functions: Sequence[Function], parallel: bool) -> Sequence[Bare]:
        if not self.bare:
            return ()
        end = lark.terminal('BLANKS "}"')
        return [
            Bare(
                ("{", '"name"', ": ", _text(each.name), ", ", _text(self.key), ": "),
                f"{schema(each.schema, each)} {end}",
            )
            for each in functions
        ]

    def _call(self, function: Function) -> str:
        head = f'{{"name": {_text(function.name)}, "{self.key}": '
        return f"{quoted(head)} {schema(function.schema, function)} {quoted('}')}"


def _text(name: str) -> str:
    return json.dumps(name, ensure_ascii=False)
