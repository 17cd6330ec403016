"""A call as a JSON object: `{"name": ..., "arguments": {...}}`."""

from __future__ import annotations

import json
from collections.abc import Mapping

from localspec.formats.dialects.incoming_text import IncomingText, Reading
from localspec.formats.dialects.offered_tools import OfferedTool
from localspec.formats.dialects.parts import Parts
from localspec.formats.dialects.scanner import Scanner, as_json

KEYS = ("name", "arguments")  # of the name and of the arguments, as most write them
NAMES = ("name", "function")
ARGUMENTS = ("arguments", "parameters")
OTHERS = ("id", "type")
NESTED = "function"  # the key of an object that has both, where it is one within the call


def arguments(incoming: IncomingText, parts: Parts, name: str) -> Reading[bool]:
    """Read the object that a call is given; return whether there was one.

    The call is made at its brace. Where it ends or breaks early, the call stays incomplete.
    """
    if not name.isprintable() or not name or (yield from incoming.ahead()) != "{":
        return False
    parts.call(name)
    scanner = Scanner()
    if (yield from incoming.value(scanner, parts.argue)):
        parts.end_call()
    parts.argue(scanner.held())
    incoming.begin()
    return True


def envelope(
    incoming: IncomingText,
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
    if not (yield from incoming.starts("{")):
        return False
    fields = _Fields(tools, keys)
    while True:
        yield from incoming.blank()
        if (yield from incoming.starts("}")):
            return fields.call(incoming, parts)
        key = yield from _key(incoming, fields)
        if key is None:
            return False
        may_nest = key == NESTED and not fields.name and not nested
        if may_nest and (yield from incoming.ahead()) == "{":
            called = yield from envelope(incoming, parts, tools, keys, nested=True)
            if called:
                yield from _read_rest(incoming, parts)
            return called
        if key in fields.argument_keys and (yield from arguments(incoming, parts, fields.name)):
            yield from _read_rest(incoming, parts)
            parts.say(incoming.written())
            return True
        if not fields.accept(key, (yield from read_json(incoming))):
            return False
        yield from incoming.blank()
        yield from incoming.starts(",")


def _key(incoming: IncomingText, fields: _Fields) -> Reading[str | None]:
    """Read a key and what precedes its value; return None if a call has no such key."""
    key = yield from read_json(incoming)
    yield from incoming.blank()
    if not fields.may_have(key) or not (yield from incoming.starts(":")):
        return None
    yield from incoming.blank()
    return str(json.loads(key))


def _read_rest(incoming: IncomingText, parts: Parts) -> Reading[None]:
    """Read what follows complete arguments: other fields, and a brace that may be missing."""
    while parts.complete:
        yield from incoming.blank()
        yield from incoming.starts(",")
        yield from incoming.blank()
        if (yield from incoming.starts("}")):
            return incoming.begin()
        if (yield from incoming.ahead()) != '"' or not (yield from read_json(incoming)):
            return None
        yield from incoming.blank()
        if not (yield from incoming.starts(":")):
            return None
        yield from incoming.blank()
        if not (yield from read_json(incoming)):
            return None
    return None


def read_json(incoming: IncomingText) -> Reading[str]:
    """Read one value as JSON; return nothing where there is none."""
    pieces: list[str] = []
    whole = yield from incoming.value(Scanner(), pieces.append)
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

    def call(self, incoming: IncomingText, parts: Parts) -> bool:
        """Make the call if all of it is there; return whether it is."""
        if not (self.name and self.name.isprintable() and self._arguments):
            return False
        if self._tools is not None and not self._tools[self.name].takes(self._arguments):
            return False
        parts.add_call(self.name, self._arguments)
        incoming.begin()
        return True


def as_object(value: str) -> str:
    """Return a JSON object, also one within a string; nothing for any other value."""
    if value == "null":
        return "{}"
    if value.startswith('"'):
        value = as_json(str(json.loads(value))) or ""
    return value if value.startswith("{") else ""
