"""Patterns and bounds that the grammar engine can follow, and patterns in place of a grammar."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from functools import lru_cache

from localspec.formats.grammar.compile_trial import fault_of_pattern, fault_of_schema
from localspec.formats.templates.message import Json, rewrite_objects

MAX_PATTERN = 20_000  # characters of a regular expression
BOUNDS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum")
EXACT = 1 << 53  # no bound up to this is too large for the engine
MAX_DEPTH = 64  # rules and groups within one another
TOKEN = re.compile(
    r"""\s*(?://[^\n]*|(?P<string>"(?:\\.|[^"\\\n])*")(?P<i>i?)"""
    r"""|/(?P<regex>(?:\\.|[^/\\\n])+)/(?P<flags>[imslux]*)|(?P<name>[?!]?\w+)(?:\.-?\d+)?"""
    r"""|~\s*(?P<count>\d+(?:\s*\.\.\s*\d+)?)|(?P<arrow>->)|(?P<sign>[:|()\[\]+*?]))"""
)
IMPORT = re.compile(r"%import\s+common\.(\w+)(?:\s*->\s*(\w+))?\s*$", re.MULTILINE)
COMMON: Mapping[str, str] = {
    "LF": r"\n",
    "CR": r"\r",
    "NEWLINE": r"(?:\r?\n)+",
    "WS": r"[ \t\f\r\n]+",
    "WS_INLINE": r"[ \t]+",
    "DIGIT": "[0-9]",
    "INT": "[0-9]+",
    "NUMBER": r"[0-9]+(?:\.[0-9]+)?",
    "LETTER": "[a-zA-Z]",
    "WORD": "[a-zA-Z]+",
    "CNAME": "[a-zA-Z_][a-zA-Z0-9_]*",
    "ESCAPED_STRING": r'"(?:[^"\\]|\\.)*"',
}


@lru_cache(maxsize=512)
def followable(pattern: str) -> bool:
    """Whether the grammar engine can hold strings to a regular expression."""
    try:
        return not fault_of_pattern(pattern)
    except ValueError:  # half a character
        return False


@lru_cache(maxsize=512)
def followable_bound(kind: str, name: str, power: float) -> bool:
    """Whether the grammar engine can hold numbers to a bound of this size."""
    return not fault_of_schema(json.dumps({"type": kind, name: power}))


def without_unfollowable(schema: Json) -> Json:
    """Leave out of a schema the patterns and bounds that cannot be followed."""
    return rewrite_objects(schema, _without_unfollowable)


def _without_unfollowable(schema: dict[str, Json]) -> Json:
    pattern = schema.get("pattern")
    if isinstance(pattern, str) and not followable(pattern):
        del schema["pattern"]
    kind = "integer" if schema.get("type") == "integer" else "number"
    for name in BOUNDS:
        value = schema.get(name)
        if isinstance(value, int | float) and _is_too_large(kind, name, value):
            del schema[name]
    return schema


def _is_too_large(kind: str, name: str, value: float) -> bool:
    """Return whether a bound is too large, by the power of two above it: of these there are few."""
    if abs(value) <= EXACT:
        return False
    try:
        power = math.ldexp(math.copysign(1, value), math.frexp(value)[1])
    except OverflowError:
        return True
    return not followable_bound(kind, name, power)


def pattern_of(syntax: str, definition: str) -> str | None:
    """Return a pattern for all texts of a grammar; None if there is none that can be followed.

    A Lark grammar has one if no rule leads back to itself and nothing is ignored.
    """
    if len(definition) > MAX_PATTERN:
        return None
    try:
        pattern = definition if syntax == "regex" else _Grammar(definition).pattern()
    except (ValueError, KeyError, IndexError, RecursionError):
        return None
    whole = f"^(?:{pattern})$"
    return whole if len(whole) <= MAX_PATTERN and followable(whole) else None


class _Grammar:
    """The rules of a grammar as Lark writes them, each a list of tokens."""

    def __init__(self, definition: str) -> None:
        self._patterns = {name or of: COMMON[of] for of, name in IMPORT.findall(definition)}
        rules = IMPORT.sub("", definition)
        if "%" in re.sub(r'"(?:\\.|[^"\\\n])*"|/(?:\\.|[^/\\\n])+/', "", rules):
            raise ValueError("a directive")
        self._rules = dict(_rules(rules))

    def pattern(self) -> str:
        return self._of("start", ())

    def _of(self, name: str, within: Sequence[str]) -> str:
        if name in self._patterns:
            return self._patterns[name]
        if name in within or len(within) > MAX_DEPTH:
            raise ValueError("a rule that leads back to itself")
        pattern, left = self._either(self._rules[name], (*within, name))
        if left or len(pattern) > MAX_PATTERN:
            raise ValueError("what is no rule, or a long one")
        self._patterns[name] = pattern
        return pattern

    def _either(
        self, tokens: Sequence[re.Match[str]], within: Sequence[str]
    ) -> tuple[str, list[re.Match[str]]]:
        """Read alternatives up to the bracket that ends them."""
        left, options, current = list(tokens), list[str](), ""
        while left and left[0]["sign"] not in (")", "]"):
            token = left.pop(0)
            if token["sign"] == "|":
                options.append(current)
                current = ""
            elif token["arrow"]:
                left.pop(0)
            else:
                piece, left = self._piece(token, left, within)
                current += piece
        return f"(?:{'|'.join([*options, current])})", left

    def _piece(
        self, token: re.Match[str], left: list[re.Match[str]], within: Sequence[str]
    ) -> tuple[str, list[re.Match[str]]]:
        """Read one piece, and how often it comes."""
        if token["sign"] in ("(", "["):
            pattern, after = self._either(left, (*within, "("))
            left = after[1:]
            pattern += "?" if token["sign"] == "[" else ""
        elif token["string"]:
            pattern = re.escape(_unquoted(token["string"]))
            pattern = f"(?i:{pattern})" if token["i"] else f"(?:{pattern})"
        elif token["regex"]:
            pattern = token["regex"].replace("\\/", "/")
            pattern = f"(?{token['flags']}:{pattern})" if token["flags"] else f"(?:{pattern})"
        else:
            pattern = self._of(token["name"].lstrip("?!"), within)
        if left and left[0]["sign"] and left[0]["sign"] in "+*?":
            pattern = f"(?:{pattern}){left.pop(0)['sign']}"
        elif left and left[0]["count"]:
            least, _, most = left.pop(0)["count"].replace(" ", "").partition("..")
            pattern = f"(?:{pattern}){{{least},{most or least}}}"
        return pattern, left


def _unquoted(text: str) -> str:
    return text[1:-1].encode().decode("unicode_escape").encode("latin-1").decode()


def _rules(text: str) -> list[tuple[str, list[re.Match[str]]]]:
    """Cut a grammar at its rules, and each at its tokens."""
    at, rules = 0, list[tuple[str, list[re.Match[str]]]]()
    text = "\n" + text.strip() + "\n"
    current: list[re.Match[str]] = []
    while at < len(text.rstrip()):
        token = TOKEN.match(text, at)
        if token is None or token.end() == at:
            raise ValueError(f"what is no token at {at}")
        at = token.end()
        if token[0].lstrip().startswith("//"):
            continue
        if token["sign"] == ":":
            name = current.pop()["name"]
            if rules:
                rules[-1][1].extend(current)
            rules.append((name.lstrip("?!"), []))
            current = []
        else:
            current.append(token)
    rules[-1][1].extend(current)
    return rules
