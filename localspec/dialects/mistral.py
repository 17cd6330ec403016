"""Mistral's calls: a name, and its arguments after a mark of their own."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from localspec.dialects.envelope import arguments
from localspec.dialects.form import Bare
from localspec.dialects.functions import Function
from localspec.dialects.lark import Lark, choice, quoted, schema
from localspec.dialects.parts import Parts
from localspec.dialects.tagged import Tagged
from localspec.dialects.tape import Reading, Tape

CALLS, ID, ARGUMENTS = "[TOOL_CALLS]", "[CALL_ID]", "[ARGS]"
NAME = re.compile(r"[^\s\[\]{}]+")
LIST = Tagged((CALLS,), listed=True)


@dataclass(frozen=True, slots=True)
class Named:
    marks: tuple[str, ...] = (CALLS, ID, ARGUMENTS)
    openings: tuple[str, ...] = (CALLS,)
    bare: str = ""
    repeats: str | None = ""

    def read(
        self, tape: Tape, parts: Parts, functions: Sequence[Function], opening: str
    ) -> Reading[None]:
        yield from tape.blank()
        if (yield from tape.ahead()) in ("[", "{"):
            yield from LIST.read(tape, parts, functions, opening)
            return
        name = yield from tape.run(NAME)
        if (yield from tape.starts(ID)):
            yield from tape.run(NAME)
        yield from tape.starts(ARGUMENTS)
        yield from tape.blank()
        yield from arguments(tape, parts, name)
        parts.say(tape.written())

    def after(self, lark: Lark, functions: Sequence[Function], parallel: bool) -> str:
        mark = lark.mark(ARGUMENTS)
        return choice([f"{quoted(f.name)} {mark} {schema(f.schema, f)}" for f in functions])

    def alone(self, lark: Lark, functions: Sequence[Function], parallel: bool) -> Sequence[Bare]:
        return ()
