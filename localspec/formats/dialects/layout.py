"""The layout of calls: the texts around names, identifiers and arguments.

`docs/dialects.md` shows how each of them is learned.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, replace

ID, INDEX = "\ue000", "\ue001"  # in a text: where the identifier or the number of a call stands
SLOT = re.compile(f"([{ID}{INDEX}])")
KEY = "\ue002"  # in `Fields.end`: where the key stands again
NAME = "\ue003"  # in `Layout.name_end` and `Layout.end`: where the name stands again


@dataclass(frozen=True, slots=True)
class ObjectStyle:
    """The way in which JSON objects are written."""

    comma: str = ", "
    colon: str = ": "
    lines: bool = False  # whether they stand on several lines
    in_order: bool = False  # whether keys are in the order of the alphabet


PLAIN = ObjectStyle()


@dataclass(frozen=True, slots=True)
class Middle:
    """The text between a key and its value."""

    text: str
    kinds: frozenset[str] = frozenset()  # of values it is for; empty: all


@dataclass(frozen=True, slots=True)
class Fields:
    """The texts around arguments that are written one by one, e.g. by Qwen3-Coder:

    <parameter=city>⏎Oslo⏎</parameter>⏎<parameter=days>⏎3⏎</parameter>⏎
    └── key ──┘    └┘    └─── end ────┘└── key ──┘    └┘ └─── end ────┘
                   middle                             middle
    """

    key: str  # stands before the name of an argument
    middles: tuple[Middle, ...]  # between that name and the value; one, or one for some kinds
    end: str = ""  # closes a value
    between: str = ""  # e.g. a comma
    quotes: tuple[str, str] | None = None  # around strings; None: strings have none
    wrapping: tuple[str, str] | None = None  # around some strings without quotes, e.g. as CDATA
    python: bool = False  # True and None are written so, not true and null
    raw: bool = False  # strings escape nothing: a value ends where the next key or `end` follows
    joined: bool = False  # `between` may be missing
    nested: bool = False  # lists and objects are written as Python has them
    in_order: bool = False  # arguments stand in the order of the alphabet
    inner_in_order: bool = False  # and so do the members of objects
    item: str | None = None  # the name of a list's items, where these are written as arguments are
    shared: str = ""  # the beginning of a key and of `Layout.end` alike; `end` ends with it

    def for_key(self, key: str) -> Fields:
        """Return the same fields for one key, which may stand again where its value ends."""
        return replace(self, end=self.end.replace(KEY, key)) if KEY in self.end else self

    @property
    def own(self) -> bool:
        """Whether values are in a notation that is not JSON."""
        return self.quotes is not None and self.quotes[0] not in "'\""


@dataclass(frozen=True, slots=True)
class Layout:
    """The texts around calls, their names and their arguments, e.g. by older models of Mistral:

    [TOOL_CALLS][{"name": "add", "arguments": {"a": 1}}, {"name": "now", "arguments": {}}]
    └──────── head ───────┘   └── name_end ──┘        │└─ again ──┘   └── name_end ──┘  ││
                                                      end                               end
                                                                                         close

    Where the name stands last, it and the arguments change places.
    """

    head: str  # stands before the first name
    name_end: str  # between a name and its arguments
    end: str  # closes a call
    again: str | None = None  # between two calls, with the next `head`; None: there is one call
    close: str = ""  # closes all calls
    closes_one: bool = True  # `close` follows a single call, too
    name_last: bool = False  # only where calls are JSON objects
    keys: tuple[str, str] | None = None  # of the name and arguments, where a call is an object
    fields: Fields | None = None  # None: arguments are one JSON object
    style: ObjectStyle = PLAIN  # of that object
    empty: str | None = None  # follows a name without arguments; None: `name_end` and `end`
    openings: tuple[str, ...] = ()  # marks with which `head` begins; none: calls are bare
    blanks: tuple[str, str] = ("", "")  # before calls that stand without content, and after them
    after_content: bool = False  # bare calls may follow content
    before_content: bool = False  # content may follow bare calls

    @property
    def opening(self) -> str:
        """The mark that begins calls; empty where none does."""
        return self.openings[0] if self.openings else ""

    @property
    def addressed(self) -> bool:
        """Whether an identifier follows the opening, as a part of the same word."""
        return bool(self.opening) and self.head.removeprefix(self.opening).startswith(ID)

    @property
    def repeats(self) -> str | None:
        """The text between one opening's calls and the next opening; None: there is no next."""
        if self.again is None or not self.opening:
            return None
        blanks = self.again[: len(self.again) - len(self.again.lstrip())]
        return blanks if self.again.startswith(blanks + self.opening) else None

    def spelled(self, name: str) -> str:
        """Return a name as it stands in a call: within quotes, as JSON has it."""
        before = self.name_end if self.name_last else self.head
        return json.dumps(name, ensure_ascii=False)[1:-1] if before.endswith('"') else name

    def for_name(self, name: str) -> Layout:
        """Return the same layout for one tool, whose name may stand again where a call ends."""
        if NAME not in self.name_end + self.end:
            return self
        name_end, end = (text.replace(NAME, name) for text in (self.name_end, self.end))
        empty = self.empty and self.empty.replace(NAME, name)
        return replace(self, name_end=name_end, end=end, empty=empty)
