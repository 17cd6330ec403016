"""Requests made wrong or odd, reproducibly: first what they say, then how it is written."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Sequence
from copy import deepcopy

from tests.apps.server.absurd import FIELDS

ODD: tuple[object, ...] = (
    None,
    True,
    False,
    0,
    -1,
    1,
    255,
    257,
    1 << 31,
    -(1 << 31) - 1,
    1 << 63,
    1 << 64,
    1 << 200,
    0.5,
    -0.0,
    1e-320,
    1e308,
    float("nan"),
    float("inf"),
    float("-inf"),
    "",
    " ",
    "\0",
    "\x1b[31m\r\n\t",
    "\ud800",
    "\udfff\ud800",
    "\ufeff\u202e\u2028",
    "💥" * 50,
    "<|im_start|>system\n<|im_end|><tool_call>",
    "{{ 7 * 7 }}{% for x in range(9) %}",
    "../../etc/passwd",
    "a" * 70_000,
    "1e400",
    "auto",
    "here",
    [],
    [[]],
    [None],
    {},
    {"": ""},
    {"type": "text"},
    {"type": "object", "properties": {"a": {"$ref": "#"}}, "required": ["a"]},
    {"type": "string", "pattern": "(a+)+$("},
    {"anyOf": []},
    {"enum": []},
    {"$ref": "http://example.invalid/schema"},
    {"minLength": 1 << 40, "type": "string"},
    {"allOf": [{"type": "string"}, {"type": "number"}]},
)
NAMES = ("", "\0", "__class__", "constructor", "model", "stream", "temperatur", "\ud800", "type")
Place = tuple[dict[str, object] | list[object], str | int]


def places(body: object) -> list[Place]:
    """List the places where a request can be changed."""
    found: list[Place] = []
    nodes = [body]
    while nodes:
        node = nodes.pop()
        if isinstance(node, dict | list):
            keys = list(node) if isinstance(node, dict) else list(range(len(node)))
            found += [(node, key) for key in keys]
            nodes += [node[key] for key in keys]
    return found


def odd(rng: random.Random) -> object:
    return deepcopy(rng.choice(ODD))


def nested(rng: random.Random) -> object:
    """Deep enough for any parser that calls itself, or only for some."""
    made = odd(rng)
    for _ in range(rng.choice((5, 60, 200))):
        made = [made] if rng.random() < 0.5 else {"a": made}
    return made


def change(rng: random.Random, body: dict[str, object] | list[object]) -> None:
    """Make one thing in it wrong, or at least odd."""
    fields = places(body)
    if not fields:
        return
    node, key = rng.choice(fields)
    match rng.randrange(8):
        case 0:
            del node[key]
        case 1:
            node[key] = nested(rng)
        case 2:
            node[key] = [node[key]] * rng.choice((1, 2, 40))
        case 3 if isinstance(node, dict):
            node[rng.choice(NAMES)] = odd(rng)
        case 4 if isinstance(node, dict):
            name = rng.choice(list(node))
            node[name] = node.pop(key)
        case 5:
            other, where = rng.choice(fields)
            node[key] = deepcopy(other[where])
        case 6 if isinstance(body, dict):
            name = rng.choice(list(FIELDS))
            body[name] = deepcopy(rng.choice(FIELDS[name]))
        case _:
            node[key] = odd(rng)


def cut(rng: random.Random, text: bytes) -> bytes:
    return text[: rng.randrange(len(text) + 1)]


def twice(rng: random.Random, text: bytes) -> bytes:
    return text * 2


def flipped(rng: random.Random, text: bytes) -> bytes:
    data = bytearray(text)
    for _ in range(rng.randrange(1, 6)):
        data[rng.randrange(len(data))] = rng.randrange(256)
    return bytes(data)


def put_in(rng: random.Random, text: bytes) -> bytes:
    pieces = (b"\0", b"\xff\xfe", b"\xed\xa0\x80", b"\\ud800", b"NaN", b"-Infinity", b"9" * 5000)
    pieces += (
        b"[" * 3000,
        b'{"a":' * 3000,
        b"1e999",
        b"/**/",
        b"\\u0000",
        b'"\n"',
        b"\xef\xbb\xbf",
    )
    at = rng.randrange(len(text) + 1)
    return text[:at] + rng.choice(pieces) + text[at:]


def other_letters(rng: random.Random, text: bytes) -> bytes:
    return text.decode("utf-8", "replace").encode(rng.choice(("utf-16", "utf-32", "utf-7")))


WRITTEN: Sequence[Callable[[random.Random, bytes], bytes]] = (
    cut,
    twice,
    flipped,
    put_in,
    other_letters,
)


def mutated(rng: random.Random, request: object) -> bytes:
    """One to four things of it changed, and now and then how it is written."""
    body = json.loads(json.dumps(request))
    for _ in range(rng.choice((1, 1, 1, 1, 2, 4))):
        change(rng, body)
    text = json.dumps(body, ensure_ascii=rng.random() < 0.5).encode("utf-8", "surrogatepass")
    return rng.choice(WRITTEN)(rng, text) if rng.random() < 0.1 else text
