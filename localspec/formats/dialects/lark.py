"""Grammars as llguidance reads them, put together rule by rule."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence

from localspec.formats.dialects.layout import ID, INDEX, PLAIN, SLOT, ObjectStyle
from localspec.formats.dialects.offered_tools import OfferedTool
from localspec.formats.dialects.segments import MARK
from localspec.formats.grammar.grammar import LAYOUT
from localspec.formats.templates.message import Json, rewrite_objects

Control = Callable[[str], int | None]  # the control token with this text

SPLIT = re.compile(f"({MARK.pattern})")
# JSON on several lines, as some templates write it.
LINES = {
    "whitespace_flexible": True,
    "whitespace_pattern": r"[ \n]{0,64}",
    "item_separator": ",",
    "key_separator": ":",
}
IDENTIFIER = "/[A-Za-z0-9_.:-]{1,64}/"
NUMBER = "/[0-9]{1,3}/"
TERMINALS = (
    "TEXT: /(?s:.*)/",
    "BLANKS: /[ \\t\\r\\n]{0,32}/",
    r"""KEY: /[^\s,:{}\[\]<>|"']{1,64}/""",
)


class Lark:
    """Collects rules, and names them in the order in which they come."""

    def __init__(self, control: Control) -> None:
        self._control = control
        self._rules = list(TERMINALS)
        self._shared: dict[str, str] = {}

    def mark(self, text: str) -> str:
        """A mark, as the control token it is or as plain text."""
        token = self._control(text)
        return quoted(text) if token is None else f"<[{token}]>"

    def is_text(self, mark: str) -> bool:
        """Whether a mark is plain text, without a control token in it."""
        return all(self._control(piece) is None for piece in self._cut(mark))

    def literal(self, text: str) -> str:
        """A text, with the control tokens that are in it."""
        return " ".join(map(self.mark, self._cut(text)))

    def slots(self, text: str) -> str:
        """An expression for a text, with a place for each identifier."""
        expressions = []
        for part in SLOT.split(text):
            if part == ID:
                expressions.append(IDENTIFIER)
            elif part == INDEX:
                expressions.append(NUMBER)
            elif part:
                expressions.append(self.literal(part))
        return " ".join(expressions)

    def after_blanks(self, text: str) -> str:
        """An expression for a text after blanks, in one piece with what is no control token."""
        first, *others = self._cut(text)
        if self._control(first) is not None:
            return f"BLANKS {self.literal(text)}"
        return " ".join([self.terminal(f"BLANKS {quoted(first)}"), *map(self.mark, others)])

    def first(self, text: str) -> str:
        """Return what a text begins with: a control token, or all before one."""
        return self._cut(text)[0]

    def _cut(self, text: str) -> list[str]:
        """A text cut at its control tokens."""
        if self._control(text) is not None:
            return [text]
        pieces = [""]
        for piece in SPLIT.split(text):
            if piece and self._control(piece) is not None:
                pieces += [piece, ""]
            else:
                pieces[-1] += piece
        return [piece for piece in pieces if piece]

    def optional(self, text: str) -> str:
        """An expression for a text that may be missing."""
        return f"({self.literal(text)})?" if text else ""

    def rule(self, body: str, option: str = "") -> str:
        """Add a rule; return its name."""
        name = f"r{len(self._rules)}"
        self._rules.append(f"{name}{option}: {body}")
        return name

    def shared(self, body: str) -> str:
        """Find the rule that says this, or add it; return its name."""
        if body not in self._shared:
            self._shared[body] = self.rule(body)
        return self._shared[body]

    def reserved(self) -> str:
        """The name of a rule that is yet to be filled."""
        self._rules.append("")
        return f"r{len(self._rules) - 1}"

    def fill(self, name: str, body: str) -> None:
        self._rules[int(name[1:])] = f"{name}: {body}"

    def named(self, name: str, body: str) -> None:
        """Add a rule that may name itself, if it is not there."""
        if not any(rule.startswith(f"{name}:") for rule in self._rules):
            self._rules.append(f"{name}: {body}")

    def terminal(self, body: str) -> str:
        name = f"T{len(self._rules)}"
        self._rules.append(f"{name}: {body}")
        return name

    def upto(self, mark: str, text: str = "TEXT") -> str:
        """Any text up to the first place of a mark, and the mark; its blanks come apart."""
        first, *others = self._cut(mark)
        if self._control(first) is not None:
            return " ".join([text, *map(self.mark, filter(None, [first, *others]))])
        visible = first.rstrip()
        closing = map(self.mark, filter(None, [first[len(visible) :], *others]))
        return " ".join([self.rule(f"{text} {quoted(visible)}", "[lazy]"), *closing])

    def through(self, end: str, text: str) -> str:
        """Any text up to an end, of which a beginning that is no control token may recur before."""
        first, *others = self._cut(end)
        if not others or self._control(first) is not None:
            return self.upto(end, text)
        whole = self.terminal(f"{text} & (TEXT {quoted(first)})")
        return " ".join([whole, *map(self.mark, others)])

    def source(self, start: str) -> str:
        return "\n".join(["%llguidance {}", f"start: {start}", *self._rules, ""])


def quoted(text: str) -> str:
    return json.dumps(text)


def choice(expressions: Sequence[str]) -> str:
    return "(" + " | ".join(expressions) + ")"


def separated(lark: Lark, between: str, members: Sequence[tuple[bool, str]]) -> str:
    """Members in order with a text between them; each is paired with whether it is required."""
    first, later = "", ""  # what follows if nothing was written so far, and if something was
    for is_needed, member in reversed(members):
        begun = f"{member} {later}"
        first = begun if is_needed else f"({begun} | {first})" if first else f"({begun})?"
        later = lark.rule(f"{between} {begun}" if is_needed else f"({between} {member})? {later}")
        first = lark.rule(first)
    return first


def json_value(schema: Mapping[str, Json], tool: OfferedTool, style: ObjectStyle = PLAIN) -> str:
    """A value that follows a schema; only a strict tool's must be followed to the letter."""
    layout = {**LAYOUT, "item_separator": style.comma, "key_separator": style.colon}
    layout = {**LAYOUT, **LINES} if style.lines else layout
    ordered = rewrite_objects(dict(schema), _in_order) if style.in_order else schema
    assert isinstance(ordered, Mapping)
    return "%json " + json.dumps({**ordered, "x-guidance": {**layout, "lenient": not tool.strict}})


def _in_order(schema: dict[str, Json]) -> Json:
    """Sort the properties of an object by their names."""
    match schema.get("properties"):
        case dict() as members if schema.get("type", "object") == "object":
            schema["properties"] = dict(sorted(members.items()))
    return schema


def json_reply(schema: Mapping[str, Json]) -> str:
    """A reply that follows a schema."""
    guidance = schema.get("x-guidance")
    lenient = isinstance(guidance, Mapping) and guidance.get("lenient") is True
    return "%json " + json.dumps({**schema, "x-guidance": {**LAYOUT, "lenient": lenient}})


def matching(lark: Lark, schema: Mapping[str, Json], end: str) -> str:
    """An expression for a text that matches the whole of a pattern, where a schema has one."""
    pattern = schema.get("pattern")
    if schema.get("type") != "string" or not isinstance(pattern, str):
        return ""
    if not (pattern.startswith("^(?:") and pattern.endswith(")$")):
        return ""
    inner = re.sub(r"(\\.)|/", lambda match: match[1] or r"\/", pattern[1:-1], flags=re.DOTALL)
    if lark.is_text(end):  # in one piece, as a text may hold what begins its end
        return lark.terminal(f"/{inner}/ {quoted(end)}")
    return f"/{inner}/ {lark.literal(end)}"
