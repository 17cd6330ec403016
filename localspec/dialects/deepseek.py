"""DeepSeek's calls: a name between marks of their own, then its arguments."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from localspec.dialects.envelope import arguments
from localspec.dialects.form import Bare
from localspec.dialects.functions import Function
from localspec.dialects.lark import Lark, choice, quoted, schema
from localspec.dialects.parts import Parts
from localspec.dialects.tape import Reading, Tape

BAR = "\uff5c"  # a full-width bar
CALLS, CALLS_END = f"<{BAR}tool▁calls▁begin{BAR}>", f"<{BAR}tool▁calls▁end{BAR}>"
CALL, CALL_END = f"<{BAR}tool▁call▁begin{BAR}>", f"<{BAR}tool▁call▁end{BAR}>"
NAME_END = f"<{BAR}tool▁sep{BAR}>"
NAME = re.compile(r"[^\s<{`]+")
FENCE, FENCE_END = "```json", "```"
FENCE_LINE = f"\n{FENCE_END}"


@dataclass(frozen=True, slots=True)
class DeepSeek:
    fenced: bool  # R1 and V3 write a kind of call, then name and fenced arguments; V3.1 does not
    marks: tuple[str, ...] = (CALLS, CALLS_END, CALL, CALL_END, NAME_END)
    openings: tuple[str, ...] = (CALLS, CALL)
    bare: str = ""
    repeats: str | None = None

    def read(
        self, tape: Tape, parts: Parts, functions: Sequence[Function], opening: str
    ) -> Reading[None]:
        yield from tape.blank()
        more = opening if opening == CALL else (yield from tape.starts(CALL))
        while more and (yield from self._call(tape, parts)):
            yield from tape.blank()
            more = yield from tape.starts(CALL)
            if not more:
                yield from tape.starts(CALLS_END)
                tape.begin()
        parts.say(tape.written())

    def _call(self, tape: Tape, parts: Parts) -> Reading[bool]:
        """Read one call; return whether it was made and is whole."""
        name = yield from tape.run(NAME)
        if not (yield from tape.starts(NAME_END)):
            return False
        yield from tape.blank()
        if (yield from tape.ahead()) != "{":
            name = yield from tape.run(NAME)
            yield from tape.blank()
            yield from tape.starts(FENCE)
            yield from tape.blank()
        if not (yield from arguments(tape, parts, name)) or not parts.complete:
            return False
        yield from tape.blank()
        yield from tape.starts(FENCE_END)
        yield from tape.blank()
        yield from tape.starts(CALL_END)
        return True

    def after(self, lark: Lark, functions: Sequence[Function], parallel: bool) -> str:
        begin, end = lark.mark(CALL), lark.mark(CALL_END)
        calls = choice([self._written(lark, each) for each in functions])
        more = f'("\\n" {begin} {calls} {end})*' if parallel else ""
        return f"{begin} {calls} {end} {more} {lark.mark(CALLS_END)}"

    def _written(self, lark: Lark, function: Function) -> str:
        mark, name = lark.mark(NAME_END), function.name
        given = schema(function.schema, function)
        if not self.fenced:
            return f"{quoted(name)} {mark} {given}"
        head = quoted(f"{name}\n{FENCE}\n")
        return f'"function" {mark} {head} {given} {quoted(FENCE_LINE)}'

    def alone(self, lark: Lark, functions: Sequence[Function], parallel: bool) -> Sequence[Bare]:
        return ()
