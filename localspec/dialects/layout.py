"""The layout of calls: the texts around names, identifiers and arguments."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

ID, INDEX = "\ue000", "\ue001"  # in a text: where the identifier or the number of a call stands
SLOT = re.compile(f"([{ID}{INDEX}])")
KEY = "\ue002"  # in the end of a value: where its key stands again
NAME = "\ue003"  # after the name of a call: where it stands again


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
    """Arguments that are written one by one."""

    key: str  # opens a key
    middles: tuple[Middle, ...]
    end: str = ""  # closes a value
    between: str = ""
    quotes: tuple[str, str] | None = None  # around strings; None: they stand as they are
    wrapping: tuple[str, str] | None = None  # around some of the strings that have no quotes
    python: bool = False  # whether words are those of Python: True, None
    raw: bool = False  # whether nothing but what follows a value, and its quote, tells its end
    joined: bool = False  # whether arguments may follow one another without what is between
    nested: bool = False  # whether lists and objects are those of Python, too
    in_order: bool = False  # whether keys are in the order of the alphabet
    inner_in_order: bool = False  # whether those of nested objects are, too
    item: str | None = None  # the key of a list's items, where what is nested is written alike
    shared: str = ""  # begins a key and the end of all arguments; `end` has it already

    def of(self, key: str) -> Fields:
        """The same, for one key."""
        return replace(self, end=self.end.replace(KEY, key)) if KEY in self.end else self

    @property
    def own(self) -> bool:
        """Whether values are in a notation that is not JSON."""
        return self.quotes is not None and self.quotes[0] not in "'\""


@dataclass(frozen=True, slots=True)
class Layout:
    """`head` NAME `name_end` ARGUMENTS `end`, then `again` with the next NAME, at last `close`.

    Where the name stands last, it and the arguments change places.
    """

    head: str
    name_end: str
    end: str
    again: str | None = None  # None: a reply has one call
    close: str = ""
    closes_one: bool = True  # whether a single call is closed, too
    name_last: bool = False  # only where calls are JSON objects
    keys: tuple[str, str] | None = None  # of an object that is a call: its name and arguments
    fields: Fields | None = None  # None: arguments are one JSON object
    style: ObjectStyle = PLAIN  # of that object
    empty: str | None = None  # what follows a name without arguments, where it is not the usual
    openings: tuple[str, ...] = ()  # marks that begin calls; none: they have none
    blanks: tuple[str, str] = ("", "")  # before all calls where no content is, and after them
    within: bool = False  # whether calls without marks may follow content
    followed: bool = False  # whether content may follow them

    def of(self, name: str) -> Layout:
        """The same, for one tool."""
        if NAME not in self.name_end + self.end:
            return self
        name_end, end = (text.replace(NAME, name) for text in (self.name_end, self.end))
        empty = self.empty and self.empty.replace(NAME, name)
        return replace(self, name_end=name_end, end=end, empty=empty)
