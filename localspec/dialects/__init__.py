"""Dialects: calls and reasoning as families of models write them, for streams and grammars."""

from localspec.dialects.bounds import Bounds
from localspec.dialects.dialect import Dialect, dialect_of
from localspec.dialects.lark import Control
from localspec.dialects.parts import Arguments, Call, Content, Part, Reasoning
from localspec.dialects.plain_calls import PlainCalls
from localspec.dialects.reader import Reader, ReplyReader

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
