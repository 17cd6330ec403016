"""A form that a reply must have, as a caller writes it down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from localspec.errors import UsageError

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

Kind = Literal["json_schema", "json_object", "regex", "lark"]

# JSON as `json.dumps` writes it. Free white space is where models like to lose themselves, and
# leaves them a choice at every comma: nothing could be foreseen.
LAYOUT: JsonCompileOptions = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
}
LONGEST = 1 << 18  # characters


@dataclass(frozen=True, slots=True)
class Grammar:
    """`text` is a JSON Schema, a regular expression or a Lark grammar; any object needs none."""

    kind: Kind
    text: str = ""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise UsageError(f"grammar is {self.kind!r}; known: {', '.join(get_args(Kind))}")
        if len(self.text) > LONGEST:
            raise UsageError(
                f"the {self.kind} has {len(self.text):,} characters; it may have {LONGEST:,}"
            )
        if self.text.encode("utf-8", "replace").decode() != self.text:
            raise UsageError(f"the {self.kind} is no text: it has half a character in it")
