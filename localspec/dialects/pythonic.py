"""Calls as a list in Python: `[f(a=1), g(b="x")]`, bare or within marks."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence, Set
from dataclasses import dataclass

from localspec.dialects.form import Bare
from localspec.dialects.functions import Function
from localspec.dialects.lark import Lark, choice, quoted, schema
from localspec.dialects.parts import Parts
from localspec.dialects.scanner import Scanner
from localspec.dialects.tape import Reading, Tape
from localspec.dialects.values import kinds

NAME = re.compile(r"[^\s()\[\]{}=,\"']+")


@dataclass(frozen=True, slots=True)
class Pythonic:
    openings: tuple[str, ...]
    close: str
    bare: str = ""
    repeats: str | None = None

    @property
    def marks(self) -> tuple[str, ...]:
        return (*self.openings, self.close)

    def read(
        self, tape: Tape, parts: Parts, functions: Sequence[Function], opening: str
    ) -> Reading[None]:
        known = None if opening else {each.name for each in functions}
        yield from tape.blank()
        yield from tape.starts("[")
        yield from tape.blank()
        while (yield from _call(tape, parts, known)):
            tape.begin()
            yield from tape.blank()
            if not (yield from tape.starts(",")):
                yield from self._end(tape, parts)
                return
            yield from tape.blank()
        parts.say(tape.written())

    def _end(self, tape: Tape, parts: Parts) -> Reading[None]:
        if (yield from tape.starts("]")):
            tape.begin()
            yield from tape.blank()
            if (yield from tape.starts(self.close)):
                tape.begin()
        parts.say(tape.written())

    def after(self, lark: Lark, functions: Sequence[Function], parallel: bool) -> str:
        rests = _rests(lark, functions, parallel)
        calls = [f"{quoted(f'[{name}(')} {rest}" for name, rest in rests]
        return f"{choice(calls)} {lark.mark(self.close)}"

    def alone(self, lark: Lark, functions: Sequence[Function], parallel: bool) -> Sequence[Bare]:
        if not self.bare:
            return ()
        return [Bare(("[", name, "("), rest) for name, rest in _rests(lark, functions, parallel)]


def _call(tape: Tape, parts: Parts, known: Set[str] | None) -> Reading[bool]:
    """Read one call; return whether it was made."""
    name = yield from tape.run(NAME)
    yield from tape.blank()
    right = name in known if known is not None else name.isprintable() and name
    if not right or not (yield from tape.starts("(")):
        return False
    given: dict[str, str] = {}
    yield from tape.blank()
    while not (yield from tape.starts(")")):
        key = yield from tape.run(NAME)
        yield from tape.blank()
        if not key or not (yield from tape.starts("=")):
            return False
        yield from tape.blank()
        pieces: list[str] = []
        if not (yield from tape.value(Scanner(), pieces.append)):
            return False
        given[key] = "".join(pieces)
        yield from tape.blank()
        yield from tape.starts(",")
        yield from tape.blank()
    fields = (f"{json.dumps(key)}: {value}" for key, value in given.items())
    parts.make(name, "{" + ", ".join(fields) + "}")
    return True


def _rests(lark: Lark, functions: Sequence[Function], parallel: bool) -> list[tuple[str, str]]:
    """Each function's name, and an expression for all that follows its first bracket."""
    given = [(each.name, f'{_arguments(lark, each)} ")"') for each in functions]
    more = choice([f"{quoted(f', {name}(')} {rest}" for name, rest in given])
    end = lark.rule(f'{more}* "]"' if parallel else '"]"')
    return [(name, f"{rest} {end}") for name, rest in given]


def _arguments(lark: Lark, function: Function) -> str:
    """An expression for what is needed, and after it for what may be given."""
    needed = [name for name in function.properties if name in function.required]
    others = [name for name in function.properties if name not in function.required]
    rest, firsts = "", list[str]()
    for name in reversed(others):
        given = _argument(function, name)
        firsts.append(f"{given} {rest}")
        rest = lark.rule(f'(", " {given})? {rest}')
    if needed:
        return ' ", " '.join(_argument(function, name) for name in needed) + f" {rest}"
    return f"{choice(firsts)}?" if firsts else ""


def _argument(function: Function, name: str) -> str:
    wanted = function.parameter(name)
    if kinds(wanted) == frozenset({"boolean"}):
        return f'{quoted(f"{name}=")} ("True" | "False")'
    return f"{quoted(f'{name}=')} {schema(wanted, function)}"
