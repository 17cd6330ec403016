"""Calls that models write as plain JSON, bare or behind a code fence, whatever their template says.

Small models often ignore the form that their template shows, and write what they have seen most:

    ```json
    {"name": "get_weather", "arguments": {"city": "Oslo"}}
    ```

So the text that a dialect's own reader leaves over is read once more. An object at the beginning of
a line is a call if its name is that of an offered tool and its arguments follow the tool's schema,
and a list is calls if all its items are. It is held back only while it may become one: the first
word that cannot be in a call lets it go as the text that it was.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from localspec.dialects.envelope import ARGUMENTS, NAMES, NESTED, OTHERS, as_object
from localspec.dialects.functions import Function
from localspec.dialects.parts import Arguments, Call, Content, Part, Parts, Reasoning
from localspec.dialects.reader import Reader
from localspec.dialects.scanner import Scanner
from localspec.dialects.tape import Reading, Tape

FENCE = re.compile("`+")
SHORTEST = 3  # signs of a fence
LANGUAGE = re.compile(r"[\w+.#-]+")
QUOTES = ('"', "'")
KEYS = {quote + key + quote: key for key in (*NAMES, *ARGUMENTS, *OTHERS) for quote in QUOTES}


@dataclass(frozen=True, slots=True)
class PlainCall:
    function: Function
    arguments: str  # a JSON object


class PlainCalls:
    """Reads a reply as its dialect does, and once more what that takes for text."""

    def __init__(self, reader: Reader, functions: Sequence[Function], several: bool = True) -> None:
        self._reader = reader
        self._functions = _spellings(functions)
        self._several = several
        self._parts = Parts()
        self._tape = Tape()
        self._reading = self._text(self._tape)

    @property
    def complete(self) -> bool:
        """Whether every call has all of its arguments; only the last one may lack some."""
        return self._reader.complete

    def read(self, text: str) -> list[Part]:
        """Take in more of the reply; return what became sure."""
        for part in self._reader.read(text):
            self._take(part)
        return self._parts.take()

    def close(self) -> list[Part]:
        """Return what was held back: nothing more is coming."""
        for part in self._reader.close():
            self._take(part)
        self._end_text()
        self._parts.close()
        return self._parts.take()

    def _take(self, part: Part) -> None:
        if isinstance(part, Content):
            self._tape.feed(part.text)
            next(self._reading, None)
            return
        self._end_text()
        match part:
            case Reasoning(text):
                self._parts.think(text)
            case Call(_, name):
                self._parts.call(name)
                self._functions = {}  # who keeps to the template's form writes no other
            case Arguments(_, text):
                self._parts.argue(text)

    def _end_text(self) -> None:
        """End a stretch of text; the next one begins a line of its own."""
        self._tape.end()
        for _ in self._reading:
            pass
        self._tape = Tape()
        self._reading = self._text(self._tape)

    def _text(self, tape: Tape) -> Reading[None]:
        """Read text line by line, for calls where a line may begin some."""
        fence = ""
        while (yield from tape.ahead()):
            tape.begin()
            yield from tape.blank()
            if fence and (yield from tape.starts(fence)):
                fence = ""
            elif not fence:
                signs = yield from tape.run(FENCE)
                if len(signs) >= SHORTEST:
                    yield from tape.run(LANGUAGE)
                    yield from tape.blank()
                    fence = signs
                if fence == signs:
                    fence = yield from self._calls(tape, fence)
            text = tape.written()
            self._parts.say(text)
            if not text.rstrip(" \t").endswith("\n"):
                self._parts.say((yield from tape.until(("\n",), self._parts.say)))

    def _calls(self, tape: Tape, fence: str) -> Reading[str]:
        """Read calls in a row, if there are any; return the fence that is open after them."""
        while calls := (yield from _calls_in_value(tape, self._functions)):
            for call in calls:
                self._parts.make(call.function.name, call.arguments)
            if not self._several:
                self._functions = {}
            tape.begin()
            yield from tape.blank()
            if fence and (yield from tape.starts(fence)):
                tape.begin()
                return ""
            if (yield from tape.starts(",", ";")):
                yield from tape.blank()
        return fence


def _spellings(functions: Sequence[Function]) -> dict[str, Function]:
    """Functions by each way in which their names may be written."""
    found: dict[str, Function] = {}
    for function in functions:
        plain = json.dumps(function.name, ensure_ascii=False)
        found |= dict.fromkeys((plain, json.dumps(function.name), f"'{function.name}'"), function)
    return found


def _calls_in_value(tape: Tape, functions: Mapping[str, Function]) -> Reading[Sequence[PlainCall]]:
    """Read an object or a list; return its calls, or none as soon as anything in it is no call."""
    if not functions:
        return ()
    calls: list[PlainCall] = []
    listed = yield from tape.starts("[")
    while True:
        yield from tape.blank()
        call = yield from _call(tape, functions)
        if call is None:
            return ()
        calls.append(call)
        if not listed:
            return calls
        yield from tape.blank()
        if not (yield from tape.starts(",")):
            break
    return calls if (yield from tape.starts("]")) else ()


def _call(
    tape: Tape, functions: Mapping[str, Function], nested: bool = False
) -> Reading[PlainCall | None]:
    """Read an object; return the call that it is, or None as soon as it cannot be one."""
    function, arguments = None, ""
    keys = dict(KEYS)  # those that have not come
    separator = yield from tape.starts("{")
    while separator and keys:
        yield from tape.blank()
        quote = yield from tape.ahead()
        key = keys.get((yield from tape.starts(*keys)), "") if quote in QUOTES else ""
        keys = {spelling: other for spelling, other in keys.items() if other != key}
        yield from tape.blank()
        if not key or not (yield from tape.starts(":")):
            return None
        yield from tape.blank()
        if key == NESTED and not nested and (yield from tape.ahead()) == "{":
            inner = yield from _call(tape, functions, nested=True)
            if inner is None:
                return None
            function, arguments = inner.function, inner.arguments
        elif key in NAMES:
            function = functions.get((yield from tape.starts(*functions)))
            if function is None:
                return None
        else:
            value = yield from _value(tape)
            arguments = as_object(value) if key in ARGUMENTS else arguments
            if not value or (key in ARGUMENTS and not arguments):
                return None
        if function and arguments and not function.takes(arguments):
            return None
        yield from tape.blank()
        separator = yield from tape.starts(",")
    whole = yield from tape.starts("}")
    return PlainCall(function, arguments) if whole and function and arguments else None


def _value(tape: Tape) -> Reading[str]:
    """Read one value as JSON; empty where there is none."""
    pieces: list[str] = []
    whole = yield from tape.value(Scanner(), pieces.append)
    return "".join(pieces) if whole else ""
