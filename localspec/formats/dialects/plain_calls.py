"""Calls that models write as plain JSON, whatever their template says.

Small models often ignore the form that their template shows, and write what they have seen most:

    ```json
    {"name": "get_weather", "arguments": {"city": "Oslo"}}
    ```

So the text that a dialect's own reader leaves over is read once more. An object at the beginning of
a line, bare, after a fence or within a tag (`<tools>`), is a call if its name is that of a tool
that may be called and its arguments follow the tool's schema; a list is calls if all its items are.
Text is held back only while it may become a call, and then shown as it was written.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence

from localspec.formats.dialects.envelope import (
    ARGUMENTS,
    NAMES,
    NESTED,
    OTHERS,
    as_object,
    read_json,
)
from localspec.formats.dialects.offered_tools import OfferedTool
from localspec.formats.dialects.parts import Arguments, Call, Content, Part, Parts, Reasoning
from localspec.formats.dialects.reader import Reader
from localspec.formats.dialects.text_stream import Reading, TextStream

FENCE = re.compile("`+")
MIN_FENCE = 3  # signs of a fence
WORD = re.compile(r"[\w+.#-]+")  # a language, or the name of a tag
QUOTES = ('"', "'")
KEYS = {quote + key + quote: key for key in (*NAMES, *ARGUMENTS, *OTHERS) for quote in QUOTES}


class PlainCalls:
    """Reads a reply as its dialect does, and once more what that takes for text."""

    def __init__(self, reader: Reader, tools: Sequence[OfferedTool], several: bool = True) -> None:
        self._reader = reader
        self._tools = _spellings(tools)
        self._several = several
        self._parts = Parts()
        self._stream = TextStream()
        self._reading = self._text(self._stream)

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
            self._stream.feed(part.text)
            next(self._reading, None)
            return
        self._end_text()
        match part:
            case Reasoning(text):
                self._parts.think(text)
            case Call(_, name):
                self._parts.call(name)
                self._tools = {}  # who keeps to the template's form writes no other
            case Arguments(_, text):
                self._parts.argue(text)

    def _end_text(self) -> None:
        """End a stretch of text; the next one begins a line of its own."""
        self._stream.end()
        for _ in self._reading:
            pass
        self._stream = TextStream()
        self._reading = self._text(self._stream)

    def _text(self, stream: TextStream) -> Reading[None]:
        """Read text line by line, for calls where a line may begin some."""
        fence = ""
        while (yield from stream.ahead()):
            stream.begin()
            yield from stream.blank()
            if not fence:
                fence = yield from self._beginning(stream)
            elif (yield from stream.starts(fence)):
                fence = ""
            text = stream.written()
            self._parts.say(text)
            if not text.rstrip(" \t").endswith("\n"):
                self._parts.say((yield from stream.until(("\n",), self._parts.say)))

    def _beginning(self, stream: TextStream) -> Reading[str]:
        """Read a fence or a tag, and calls, where a line begins so; return the open fence."""
        fence = yield from stream.run(FENCE)
        if 0 < len(fence) < MIN_FENCE:
            return ""
        tag = "" if fence else (yield from stream.starts("<"))
        if fence or tag:
            yield from stream.run(WORD)
        if tag and not (yield from stream.starts(">")):
            return ""
        yield from stream.blank()
        while calls := (yield from _calls(stream, self._tools)):
            for call in calls:
                self._parts.add_call(call.name, call.arguments)
            if not self._several:
                self._tools = {}
            stream.begin()
            yield from stream.blank()
            if (fence or tag) and (yield from stream.starts(fence or "</")):
                if tag:  # by whatever name, which may be another
                    yield from stream.run(WORD)
                    yield from stream.starts(">")
                stream.begin()
                return ""
            if (yield from stream.starts(",", ";")):
                yield from stream.blank()
        return fence


def _spellings(tools: Sequence[OfferedTool]) -> dict[str, OfferedTool]:
    """Map each spelling of a tool's name to the tool."""
    spellings: dict[str, OfferedTool] = {}
    for tool in tools:
        plain = json.dumps(tool.name, ensure_ascii=False)
        written = plain, json.dumps(tool.name), f"'{tool.name}'"
        spellings |= dict.fromkeys(written, tool)
    return spellings


def _calls(stream: TextStream, tools: Mapping[str, OfferedTool]) -> Reading[Sequence[_Call]]:
    """Read an object or a list; return its calls, or none as soon as anything in it is no call."""
    if not tools:
        return ()
    calls: list[_Call] = []
    listed = yield from stream.starts("[")
    while True:
        yield from stream.blank()
        calls.append(_Call(tools))
        if not (yield from calls[-1].read(stream)):
            return ()
        if not listed:
            return calls
        yield from stream.blank()
        if not (yield from stream.starts(",")):
            return calls if (yield from stream.starts("]")) else ()


class _Call:
    """An object that may be a call, field by field."""

    def __init__(self, tools: Mapping[str, OfferedTool], may_nest: bool = True) -> None:
        self.arguments = ""  # a JSON object
        self._tool: OfferedTool | None = None
        self._tools = tools
        self._may_nest = may_nest
        self._keys = dict(KEYS)  # those that have not come: each comes once

    @property
    def name(self) -> str:
        return self._tool.name if self._tool else ""

    def read(self, stream: TextStream) -> Reading[bool]:
        """Read an object; return whether it is a call, as soon as that is sure."""
        separator = yield from stream.starts("{")
        while separator:
            yield from stream.blank()
            if not (yield from self._field(stream)):
                return False
            yield from stream.blank()
            separator = yield from stream.starts(",")
        return bool(self.name and self.arguments and (yield from stream.starts("}")))

    def _field(self, stream: TextStream) -> Reading[bool]:
        """Read a field; return whether the object can still be a call."""
        key = yield from self._key(stream)
        if not key:
            return False
        if key in ARGUMENTS:
            self.arguments = as_object((yield from read_json(stream)))
            may_call = bool(self.arguments)
        elif key == NESTED and self._may_nest and (yield from stream.ahead()) == "{":
            inner = _Call(self._tools, may_nest=False)
            may_call = yield from inner.read(stream)
            self._tool, self.arguments = inner._tool, inner.arguments
        elif key in NAMES:
            self._tool = self._tools.get((yield from stream.starts(*self._tools)))
            may_call = self._tool is not None
        else:
            may_call = bool((yield from read_json(stream)))
        if may_call and self._tool and self.arguments:
            return self._tool.takes(self.arguments)
        return may_call

    def _key(self, stream: TextStream) -> Reading[str]:
        """Read the key of a field; empty where a call has none such."""
        if (yield from stream.ahead()) not in QUOTES:  # which spares most texts the look for keys
            return ""
        key = self._keys.get((yield from stream.starts(*self._keys)), "")
        self._keys = {spelling: other for spelling, other in self._keys.items() if other != key}
        yield from stream.blank()
        if not key or not (yield from stream.starts(":")):
            return ""
        yield from stream.blank()
        return key
