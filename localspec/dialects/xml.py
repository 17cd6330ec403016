"""Calls as Qwen3-Coder writes them: a function's tag around a tag for each parameter."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

from localspec.dialects.form import Bare
from localspec.dialects.functions import Function
from localspec.dialects.lark import Lark, choice, quoted, schema
from localspec.dialects.parts import Parts
from localspec.dialects.tape import Reading, Tape
from localspec.dialects.values import kinds, strings, value

CALL, CALL_END = "<tool_call>", "</tool_call>"
FUNCTION, FUNCTION_END = "<function=", "</function>"
PARAMETER, PARAMETER_END = "<parameter=", "</parameter>"
LINE = quoted("\n")
NAME = re.compile(r"[^\s<>]+")


@dataclass(frozen=True, slots=True)
class Xml:
    marks: tuple[str, ...] = (CALL, CALL_END)
    openings: tuple[str, ...] = (CALL, FUNCTION)
    bare: str = ""
    repeats: str | None = "\n"

    def read(
        self, tape: Tape, parts: Parts, functions: Sequence[Function], opening: str
    ) -> Reading[None]:
        yield from tape.blank()
        found = opening if opening == FUNCTION else (yield from tape.starts(FUNCTION))
        name = (yield from tape.run(NAME)) if found else ""
        if name.isprintable() and name and (yield from tape.starts(">")):
            known = {each.name: each for each in functions}
            given = yield from _parameters(tape, known.get(name))
            if given is not None:
                parts.make(name, given)
                tape.begin()
                yield from tape.blank()
                if (yield from tape.starts(CALL_END)):
                    tape.begin()
        parts.say(tape.written())

    def after(self, lark: Lark, functions: Sequence[Function], parallel: bool) -> str:
        end = lark.mark(CALL_END)
        calls = choice([_written(lark, each) for each in functions])
        return f"{LINE} {calls} {LINE} {end}"

    def alone(self, lark: Lark, functions: Sequence[Function], parallel: bool) -> Sequence[Bare]:
        return ()


def _parameters(tape: Tape, function: Function | None) -> Reading[str | None]:
    """Arguments as JSON, or nothing where they are not written as they should be."""
    given: dict[str, str] = {}
    while True:
        yield from tape.blank()
        tag = yield from tape.starts(PARAMETER, FUNCTION_END)
        if tag == FUNCTION_END:
            fields = (f"{json.dumps(name)}: {value}" for name, value in given.items())
            return "{" + ", ".join(fields) + "}"
        name = (yield from tape.run(NAME)) if tag else ""
        pieces: list[str] = []
        if not (yield from tape.starts(">")):
            return None
        if not (yield from tape.until((PARAMETER_END,), pieces.append)):
            return None
        text = "".join(pieces).removeprefix("\n").removesuffix("\n")
        given[name] = value(text, function.parameter(name) if function else {})


def _written(lark: Lark, function: Function) -> str:
    """An expression for a call of this function, its parameters in the order of the schema."""
    expressions = [
        f"({_parameter(lark, function, name)})" + ("" if name in function.required else "?")
        for name in function.properties
    ]
    head, end = quoted(f"{FUNCTION}{function.name}>\n"), quoted(FUNCTION_END)
    return " ".join([head, *expressions, end])


def _parameter(lark: Lark, function: Function, name: str) -> str:
    wanted = function.parameter(name)
    head = quoted(f"{PARAMETER}{name}>\n")
    end = quoted(f"\n{PARAMETER_END}\n")
    if listed := strings(wanted):
        return f"{head} {choice([quoted(each) for each in listed])} {end}"
    if "string" in (kinds(wanted) or ()):
        return f"{head} {lark.upto(PARAMETER_END)} {LINE}"
    return f"{head} {schema(wanted, function)} {end}"
