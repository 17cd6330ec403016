"""Calls as a layout describes them, written as a grammar."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from localspec.formats.dialects.field_values_grammar import parameters, raw_parameters
from localspec.formats.dialects.lark import Lark, choice, json_value, quoted
from localspec.formats.dialects.layout import ID, Layout
from localspec.formats.dialects.offered_tools import OfferedTool

WORD = re.compile(r'"(?:[^"\\]|\\.)*"\s*|\S\s*')


@dataclass(frozen=True, slots=True)
class Bare:
    """The grammar of a call without a mark: the words that begin it, and a rule for the rest."""

    words: tuple[str, ...]
    following: str


@dataclass(frozen=True, slots=True)
class CallGrammar:
    """Writes calls of these tools as rules, one call or in `parallel` several."""

    lark: Lark
    layout: Layout
    tools: Sequence[OfferedTool]
    parallel: bool

    def after_opening(self) -> str:
        """Return an expression for the calls that follow an opening, as far as the next one."""
        layout = self.layout
        head = layout.head.removeprefix(layout.opening)
        head = head.removeprefix(ID) if layout.addressed else head
        if raw := self._raw_calls():
            return f"{self.lark.slots(head)} {choice([' '.join(call) for call in raw.values()])}"
        call = self.lark.rule(choice([self._call_rule(tool) for tool in self.tools]))
        more, close = "", self.lark.slots(layout.close)
        if self._continues and layout.again is not None:
            more = f"({self.lark.slots(layout.again)} {call})*"
        closing = f"{more} {close}" if layout.closes_one or not close else f"({more} {close})?"
        return f"{self.lark.slots(head)} {call} {closing}"

    def bare(self) -> Sequence[Bare]:
        """List calls without a mark, by how they begin."""
        if raw := self._raw_calls():
            return [Bare(self._words(tool), raw[tool.name][1]) for tool in self.tools]
        ends = dict.fromkeys(map(self._end, self.tools), "")
        for end in ends:
            ends[end] = self._bare_end(end)
        return [
            Bare(self._words(tool), f"{self._tail(tool)} {ends[self._end(tool)]}")
            for tool in self.tools
        ]

    def _bare_end(self, end: str) -> str:
        """Return an expression for the end of a bare call, more calls, and what closes all."""
        layout = self.layout
        if not self.parallel or layout.again is None:
            return self.lark.terminal(f"BLANKS {quoted(end + layout.close)}")
        call = choice([self._call_rule(tool) for tool in self.tools])
        more = f"({self.lark.slots(layout.again)} {call})*"
        return self.lark.rule(f"{self.lark.slots(end)} {more} {self.lark.slots(layout.close)}")

    def _raw_calls(self) -> dict[str, tuple[str, str]]:
        """Map tools to expressions for a name and for all after it; empty if values are quoted.

        A raw value ends only at what follows it: the close of the calls, or the next call.
        """
        layout, fields = self.layout, self.layout.fields
        if fields is None or not fields.raw:
            return {}
        name_texts = {t.name: self._name(t) + self._layout_of(t).name_end for t in self.tools}
        # Reserved before they are filled, as each may go on with any other.
        rules = {tool.name: self.lark.reserved() for tool in self.tools}
        for tool in self.tools:
            end = self._layout_of(tool).end
            ends = [(end + layout.close, "")]  # a text that ends a value, and the rule after it
            if self._continues:
                ends += [(f"{end}{layout.again}{name_texts[name]}", rules[name]) for name in rules]
            self.lark.fill(rules[tool.name], raw_parameters(self.lark, fields, tool, ends))
        return {name: (self.lark.literal(name_texts[name]), rules[name]) for name in rules}

    def _words(self, tool: OfferedTool) -> tuple[str, ...]:
        """Cut the beginning of a call where there may be blanks."""
        layout, name = self._layout_of(tool), self._name(tool)
        head, after = layout.head, layout.name_end
        if layout.name_last:
            return tuple(WORD.findall(head))
        if head.endswith('"'):
            return tuple(WORD.findall(head + name + after))
        blanks = after[: len(after) - len(after.lstrip())]
        return (*WORD.findall(head), name + blanks, *WORD.findall(after))

    def _call_rule(self, tool: OfferedTool) -> str:
        """Return an expression for a call from its name on, or from its arguments if these lead."""
        layout = self._layout_of(tool)
        call = f"{self._tail(tool)} {_optional(self.lark, self._end(tool))}"
        if layout.name_last:
            return call
        call = f"{_optional(self.lark, layout.name_end)} {call}"
        if layout.empty is not None and not tool.required:
            call = choice([call, self.lark.slots(layout.empty)])
        return f"{quoted(self._name(tool))} {call}"

    def _tail(self, tool: OfferedTool) -> str:
        """Return an expression for the arguments, and the name where it follows them."""
        arguments = self._arguments(tool)
        if not self.layout.name_last:
            return arguments
        return f"{arguments} {self.lark.slots(self.layout.name_end)} {quoted(self._name(tool))}"

    @property
    def _continues(self) -> bool:
        """Whether a call may follow another one without an opening of its own."""
        return self.parallel and self.layout.again is not None and self.layout.repeats is None

    def _name(self, tool: OfferedTool) -> str:
        return self.layout.spelled(tool.name)

    def _layout_of(self, tool: OfferedTool) -> Layout:
        return self.layout.for_name(self._name(tool))

    def _arguments(self, tool: OfferedTool) -> str:
        if self.layout.fields is None:
            return json_value(tool.schema, tool, self.layout.style)
        return parameters(self.lark, self.layout.fields, tool)

    def _end(self, tool: OfferedTool) -> str:
        return self._layout_of(tool).end


def _optional(lark: Lark, text: str) -> str:
    """Return an expression for a text that may do without its identifiers."""
    before, identifier, after = text.partition(ID)
    if not identifier:
        return lark.slots(text)
    quote = '"' if before.endswith('"') and after.startswith('"') else ""
    after = after.removeprefix(quote)
    return f"({lark.slots(before + ID + quote)})? {_optional(lark, after)}"
