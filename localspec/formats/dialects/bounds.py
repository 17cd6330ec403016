"""Bounds of a reply: its tools, its format, and what a prompt has begun."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from localspec.formats.dialects.lark import Control, Lark
from localspec.formats.dialects.offered_tools import OfferedTool, offered_tools
from localspec.formats.templates.message import Json, Tool


@dataclass(frozen=True)
class Bounds:
    """Bound a reply: calls follow the schemas of their tools, other text follows `form`.

    If calls are `required`, a reply is one call, after reasoning if the model reasons; with
    `parallel`, as many calls as the family can write. Without a form, other text is free.
    """

    tools: Sequence[Tool]
    control: Control
    required: bool = False
    parallel: bool = True
    form: Mapping[str, Json] | None = None  # a JSON schema
    prompt_end: str = ""

    @cached_property
    def offered(self) -> Sequence[OfferedTool]:
        return offered_tools(self.tools)

    def lark(self) -> Lark:
        return Lark(self.control)
