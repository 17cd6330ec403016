"""Dialects: calls and reasoning as families of models write them, for streams and grammars."""

from localspec.formats.dialects.bounds import Bounds
from localspec.formats.dialects.dialect import Dialect, dialect_of
from localspec.formats.dialects.lark import Control
from localspec.formats.dialects.parts import Arguments, Call, Content, Part, Reasoning
from localspec.formats.dialects.plain_calls import PlainCalls
from localspec.formats.dialects.reader import Reader, ReplyReader

__all__ = [
    "Arguments",
    "Bounds",
    "Call",
    "Content",
    "Control",
    "Dialect",
    "Part",
    "PlainCalls",
    "Reader",
    "Reasoning",
    "ReplyReader",
    "dialect_of",
]
