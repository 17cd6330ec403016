"""A call as a JSON object: `{"name": ..., "arguments": {...}}`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from localspec.formats.dialects.offered_tools import OfferedTool
from localspec.formats.dialects.parts import Parts
from localspec.formats.dialects.scanner import Scanner, as_json
from localspec.formats.dialects.text_stream import Reading, TextStream

KEYS = ("name", "arguments")  # of the name and of the arguments, as most write them
NAMES = ("name", "function")
ARGUMENTS = ("arguments", "parameters")
OTHERS = ("id", "type")
NESTED = "function"  # the key of an object that has both, where it is one within the call


def arguments(stream: TextStream, parts: Parts, name: str) -> Reading[bool]:
    """Read the object that a call is given; return whether there was one.

    The call is made at its brace. Where it ends or breaks early, the call stays incomplete.
    """
    if not name.isprintable() or not name or (yield from stream.ahead()) != "{":
        return False
    parts.call(name)
    scanner = Scanner()
    if (yield from stream.value(scanner, parts.argue)):
        parts.end_call()
    parts.argue(scanner.held())
    stream.begin()
    return True


def envelope(
    stream: TextStream,
    parts: Parts,
    tools: Mapping[str, OfferedTool] | None,
    keys: tuple[str, str] = KEYS,
    nested: bool = False,
) -> Reading[bool]:
    """Read a call; return whether it was made.

    With `tools`, only those are called, and only with arguments. Arguments that come whole
    follow their schema; a grammar holds those that stream to it. The call may be nested once, in
    an object under the key `function`.
    """
    if not (yield from stream.starts("{")):
        return False
    fields = _Fields(tools, keys)
    while True:
        yield from stream.blank()
        if (yield from stream.starts("}")):
            return fields.call(stream, parts)
        key = yield from _key(stream, fields)
        if key is None:
            return False
        may_nest = key == NESTED and not fields.name and not nested
        if may_nest and (yield from stream.ahead()) == "{":
            called = yield from envelope(stream, parts, tools, keys, nested=True)
            if called:
                yield from _read_rest(stream, parts)
            return called
        if key in fields.argument_keys and (yield from arguments(stream, parts, fields.name)):
            yield from _read_rest(stream, parts)
            parts.say(stream.written())
            return True
        if not fields.accept(key, (yield from read_json(stream))):
            return False
        yield from stream.blank()
        yield from stream.starts(",")


def _key(stream: TextStream, fields: _Fields) -> Reading[str | None]:
    """Read a key and what precedes its value; return None if a call has no such key."""
    key = yield from read_json(stream)
    yield from stream.blank()
    if not fields.may_have(key) or not (yield from stream.starts(":")):
        return None
    yield from stream.blank()
    return str(json.loads(key))


def _read_rest(stream: TextStream, parts: Parts) -> Reading[None]:
    """Read what follows complete arguments: other fields, and a brace that may be missing."""
    while parts.complete:
        yield from stream.blank()
        yield from stream.starts(",")
        yield from stream.blank()
        if (yield from stream.starts("}")):
            return stream.begin()
        if (yield from stream.ahead()) != '"' or not (yield from read_json(stream)):
            return None
        yield from stream.blank()
        if not (yield from stream.starts(":")):
            return None
        yield from stream.blank()
        if not (yield from read_json(stream)):
            return None
    return None


def read_json(stream: TextStream) -> Reading[str]:
    """Read one value as JSON; return nothing where there is none."""
    pieces: list[str] = []
    whole = yield from stream.value(Scanner(), pieces.append)
    return "".join(pieces) if whole else ""


class _Fields:
    """The fields of a call that were read so far."""

    def __init__(self, tools: Mapping[str, OfferedTool] | None, keys: tuple[str, str]) -> None:
        self._tools = tools
        self._names = {*NAMES, keys[0]}
        self.argument_keys = {*ARGUMENTS, keys[1]}
        self.name = ""
        self._arguments = "{}" if tools is None else ""

    def may_have(self, key: str) -> bool:
        if not key.startswith('"'):
            return False
        keys = {*self._names, *self.argument_keys, *OTHERS}
        return self._tools is None or json.loads(key) in keys

    def accept(self, key: str, value: str) -> bool:
        """Keep a field; return whether this can still be a call."""
        if key in self.argument_keys:
            self._arguments = as_object(value)
        elif key in self._names and value.startswith('"'):
            self.name = str(json.loads(value))
            return self._tools is None or self.name in self._tools
        return bool(value)

    def call(self, stream: TextStream, parts: Parts) -> bool:
        """Make the call if all of it is there; return whether it is."""
        if not (self.name and self.name.isprintable() and self._arguments):
            return False
        if self._tools is not None and not self._tools[self.name].takes(self._arguments):
            return False
        parts.add_call(self.name, self._arguments)
        stream.begin()
        return True


def as_object(value: str) -> str:
    """Return a JSON object, also one within a string; nothing for any other value."""
    if value == "null":
        return "{}"
    if value.startswith('"'):
        value = as_json(str(json.loads(value))) or ""
    return value if value.startswith("{") else ""
