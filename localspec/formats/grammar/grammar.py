"""A grammar that a reply must follow, as a caller writes it down."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, get_args

from localspec.base.errors import UsageError

if TYPE_CHECKING:
    from llguidance._lib import JsonCompileOptions

Kind = Literal["json_schema", "json_object", "regex", "lark"]

# JSON as `json.dumps` writes it. Models tend to repeat free white space without end, and a choice
# at every comma would leave no forced tokens to draft.
LAYOUT: JsonCompileOptions = {
    "whitespace_flexible": False,
    "item_separator": ", ",
    "key_separator": ": ",
    "json_allow_general_unicode_escapes": True,  # some models write them, and some templates
}
MAX_CHARACTERS = 1 << 18


@dataclass(frozen=True, slots=True)
class Grammar:
    """Describes what a reply must follow.

    kind: "json_schema", "json_object" (any), "regex" or "lark"
    text: the schema as JSON, the regular expression or the Lark grammar
    """

    kind: Kind
    text: str = ""

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise UsageError(f"grammar is {self.kind!r}; known: {', '.join(get_args(Kind))}")
        if len(self.text) > MAX_CHARACTERS:
            raise UsageError(
                f"the {self.kind} has {len(self.text):,} characters; it may have {MAX_CHARACTERS:,}"
            )
        if self.text.encode("utf-8", "replace").decode() != self.text:
            raise UsageError(f"the {self.kind} is no text: it has half a character in it")
