"""Calls as a layout describes them: read from a stream, and written as a grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from localspec.dialects.envelope import KEYS, arguments, envelope
from localspec.dialects.field_values import parameters, raw_parameters, read_arguments
from localspec.dialects.form import Bare
from localspec.dialects.lark import Lark, choice, json_value, quoted
from localspec.dialects.layout import ID, KEY, NAME, SLOT, Layout
from localspec.dialects.literal import read_closing, read_pieces, read_text
from localspec.dialects.offered_tools import OfferedTool
from localspec.dialects.parts import Parts
from localspec.dialects.segments import MARK, marks, pieces
from localspec.dialects.tape import Reading, Tape

SHORTEST = 3  # letters that many texts have; more of them may begin a call
WORD = re.compile(r'"(?:[^"\\]|\\.)*"\s*|\S\s*')


@dataclass(frozen=True, slots=True)
class Written:
    layout: Layout
    explicit: bool = True  # whether a mark is reason enough to take any name for a call
    also: tuple[str, ...] = ()  # marks that may begin calls, though a grammar has none of them
    bare: str = ""

    @property
    def marks(self) -> tuple[str, ...]:
        layout = self.layout
        fields = layout.fields
        texts = [layout.head, layout.name_end, layout.end, layout.again or "", layout.close]
        if fields:
            texts += [fields.key, fields.end, fields.between, *(fields.quotes or ())]
            texts += [middle.text for middle in fields.middles]
        in_texts = [mark for text in texts for mark in marks(text) if not {KEY, NAME} & set(mark)]
        whole = (text for text in self.openings if MARK.fullmatch(text) or "<" not in text)
        return tuple(dict.fromkeys((*whole, *in_texts)))

    @property
    def openings(self) -> tuple[str, ...]:
        return (*self.layout.openings, *self.also)

    def within(self, tools: Sequence[OfferedTool]) -> tuple[str, ...]:
        if not self.layout.within or self.layout.name_last:
            return ()
        end = self.layout.name_end.rstrip()
        calls = (self.layout.head + self._name(tool) + end for tool in tools)
        beginnings = dict.fromkeys(SLOT.split(call)[0] for call in calls)
        return tuple(beginning for beginning in beginnings if len(beginning) > SHORTEST)

    @property
    def blanks(self) -> tuple[str, str]:
        return self.layout.blanks

    @property
    def followed(self) -> bool:
        return self.layout.followed

    @property
    def addressed(self) -> bool:
        opening = self._opening
        return bool(opening) and self.layout.head.removeprefix(opening).startswith(ID)

    @property
    def repeats(self) -> str | None:
        again, opening = self.layout.again, self._opening
        if again is None or not opening or not again.lstrip().startswith(opening):
            return None
        return again[: len(again) - len(again.lstrip())]

    @property
    def _opening(self) -> str:
        return self.layout.openings[0] if self.layout.openings else ""

    def read(
        self, tape: Tape, parts: Parts, tools: Sequence[OfferedTool], opening: str
    ) -> Reading[None]:
        by_name = {tool.name: tool for tool in tools}
        strict = not (opening and self.explicit)
        head = _from(self.layout.head, opening)
        yield from tape.blank()
        first = yield from tape.ahead()
        if self.layout.keys or (first in ("{", "[") and first and not head.startswith(first)):
            before, within = _before_object(head)
            yield from read_closing(tape, before)
            if not within or (yield from read_pieces(tape, within)):
                yield from self._objects(tape, parts, by_name if strict else None)
        else:
            yield from self._calls(tape, parts, by_name, head, strict)
        parts.say(tape.written())

    def _objects(
        self, tape: Tape, parts: Parts, tools: Mapping[str, OfferedTool] | None
    ) -> Reading[None]:
        keys = self.layout.keys or KEYS
        yield from tape.starts("[")
        yield from tape.blank()
        while (yield from envelope(tape, parts, tools, keys)) and parts.complete:
            yield from tape.blank()
            yield from tape.starts(",", ";")
            yield from tape.blank()
            if (yield from tape.ahead()) != "{":
                while (yield from tape.starts("}", "]")):
                    tape.begin()
                    yield from tape.blank()
                yield from read_closing(tape, _after_objects(self.layout))
                return

    def _calls(
        self, tape: Tape, parts: Parts, tools: Mapping[str, OfferedTool], head: str, strict: bool
    ) -> Reading[None]:
        again = pieces(self.layout.again or "")
        while (yield from self._one(tape, parts, tools, head, strict)):
            if self.layout.again is None or self.repeats is not None:
                yield from read_closing(tape, self.layout.close)
                return
            yield from tape.blank()
            if not (yield from self._goes_on(tape, again)):
                yield from read_closing(tape, self.layout.close)
                return
            head = self.layout.again.lstrip()[len(again[0]) :] if again else ""

    def _goes_on(self, tape: Tape, again: Sequence[str]) -> Reading[bool]:
        """Whether another call follows, of which the first piece is then read."""
        closing = pieces(self.layout.close)[:1]
        begins_alike = again and closing and closing[0].startswith(again[0])
        if begins_alike and (yield from tape.starts(*closing)):
            tape.back(closing[0])
            return False
        if again:
            return bool((yield from tape.starts(again[0])))
        ahead = yield from tape.ahead()
        return bool(ahead) and not self.layout.close.lstrip().startswith(ahead)

    def _one(
        self, tape: Tape, parts: Parts, tools: Mapping[str, OfferedTool], head: str, strict: bool
    ) -> Reading[bool]:
        """Read one call; return whether it was made and is whole."""
        layout = self.layout
        if not (yield from read_text(tape, head)):
            return False
        yield from tape.blank()
        name = yield from tape.run(_name(layout))
        right = name in tools if strict else name.isprintable() and name
        layout = layout.of(name)
        if not right or not (yield from read_text(tape, layout.name_end)):
            return False
        yield from tape.blank()
        end = layout.end
        if layout.fields is None:
            if not (yield from arguments(tape, parts, name)) or not parts.complete:
                return False
        else:
            first, *_ = pieces(end)
            ends = (first, *_ends(layout, tools))
            values = yield from read_arguments(tape, layout.fields, ends, tools.get(name))
            if values is None:
                return False
            parts.make(name, values)
            tape.begin()
            end = end.lstrip()[len(first) :]
        yield from read_closing(tape, end)
        return True

    def after(self, lark: Lark, tools: Sequence[OfferedTool], parallel: bool) -> str:
        if not self.explicit:
            return ""
        layout = self.layout
        head = layout.head.removeprefix(self._opening)
        head = head.removeprefix(ID) if self.addressed else head
        raw = self._raw_calls(lark, tools, parallel)
        if raw:
            return f"{lark.slots(head)} {choice([' '.join(call) for call in raw.values()])}"
        call = lark.rule(choice([self._call(lark, tool) for tool in tools]))
        again = layout.again
        more, close = "", lark.slots(layout.close)
        if parallel and again is not None and self.repeats is None:
            more = f"({lark.slots(again)} {call})*"
        closing = f"{more} {close}" if layout.closes_one or not close else f"({more} {close})?"
        return f"{lark.slots(head)} {call} {closing}"

    def alone(self, lark: Lark, tools: Sequence[OfferedTool], parallel: bool) -> Sequence[Bare]:
        if not self.bare or self.layout.openings:
            return ()
        raw = self._raw_calls(lark, tools, parallel)
        if raw:
            return [Bare(self._words(tool), raw[tool.name][1]) for tool in tools]
        ends = dict.fromkeys(map(self._end, tools), "")
        for end in ends:
            ends[end] = self._alone_end(lark, tools, parallel, end)
        return [
            Bare(self._words(tool), f"{self._tail(lark, tool)} {ends[self._end(tool)]}")
            for tool in tools
        ]

    def _alone_end(self, lark: Lark, tools: Sequence[OfferedTool], parallel: bool, end: str) -> str:
        layout = self.layout
        if not parallel or layout.again is None:
            return lark.terminal(f"BLANKS {quoted(end + layout.close)}")
        call = choice([self._call(lark, tool) for tool in tools])
        more = f"({lark.slots(layout.again)} {call})*"
        return lark.rule(f"{lark.slots(end)} {more} {lark.slots(layout.close)}")

    def _raw_calls(
        self, lark: Lark, tools: Sequence[OfferedTool], parallel: bool
    ) -> dict[str, tuple[str, str]]:
        """Expressions for a name, and for all that follows it, where nothing else ends values."""
        layout, fields = self.layout, self.layout.fields
        if fields is None or not fields.raw:
            return {}
        heads = {f.name: self._name(f) + self._of(f).name_end for f in tools}
        rules = {tool.name: lark.reserved() for tool in tools}
        several = parallel and layout.again is not None and self.repeats is None
        for tool in tools:
            end = self._of(tool).end
            ends = [(end + layout.close, "")]
            if several:
                ends += [(f"{end}{layout.again}{heads[name]}", rules[name]) for name in rules]
            lark.fill(rules[tool.name], raw_parameters(lark, fields, tool, ends))
        return {name: (lark.literal(heads[name]), rules[name]) for name in rules}

    def _words(self, tool: OfferedTool) -> tuple[str, ...]:
        """Cut the beginning of a call where there may be blanks."""
        layout, name = self._of(tool), self._name(tool)
        head, after = layout.head, layout.name_end
        if layout.name_last:
            return tuple(WORD.findall(head))
        if head.endswith('"'):
            return tuple(WORD.findall(head + name + after))
        blanks = after[: len(after) - len(after.lstrip())]
        return (*WORD.findall(head), name + blanks, *WORD.findall(after))

    def _call(self, lark: Lark, tool: OfferedTool) -> str:
        layout = self._of(tool)
        call = f"{self._tail(lark, tool)} {_optional(lark, self._end(tool))}"
        if layout.name_last:
            return call
        call = f"{_optional(lark, layout.name_end)} {call}"
        if layout.empty is not None and not tool.required:
            call = choice([call, lark.slots(layout.empty)])
        return f"{quoted(self._name(tool))} {call}"

    def _tail(self, lark: Lark, tool: OfferedTool) -> str:
        """An expression for arguments, and the name where it follows them."""
        arguments = self._arguments(lark, tool)
        if not self.layout.name_last:
            return arguments
        return f"{arguments} {lark.slots(self.layout.name_end)} {quoted(self._name(tool))}"

    def _of(self, tool: OfferedTool) -> Layout:
        return self.layout.of(self._name(tool))

    def _name(self, tool: OfferedTool) -> str:
        before = self.layout.name_end if self.layout.name_last else self.layout.head
        if before.endswith('"'):
            return json.dumps(tool.name, ensure_ascii=False)[1:-1]
        return tool.name

    def _arguments(self, lark: Lark, tool: OfferedTool) -> str:
        if self.layout.fields is None:
            return json_value(tool.schema, tool, self.layout.style)
        return parameters(lark, self.layout.fields, tool)

    def _end(self, tool: OfferedTool) -> str:
        return self._of(tool).end


def _ends(layout: Layout, tools: Iterable[str]) -> list[str]:
    """List what ends the last value of a call where no mark does."""
    more = [] if layout.again is None else [layout.again + name for name in tools]
    return [layout.end + following for following in (layout.close, *more)]


def _from(head: str, opening: str) -> str:
    """Return the rest of a head after an opening, which may have left out its first mark."""
    _, match, after = head.partition(opening) if opening else ("", "", "")
    return after if match else head


def _before_object(head: str) -> tuple[str, str]:
    """Return the text before all braces, and the beginning of an object that lists all calls."""
    before = re.split(r"[{\[]", head)[0]
    within = head[len(before) : head.rfind("[") + 1]
    return before, within if "{" in within else ""


def _after_objects(layout: Layout) -> str:
    """Find what closes calls after their last brace or bracket."""
    end = layout.end + layout.close
    mark = MARK.search(end)
    return end[mark.start() :] if mark else re.split(r"[}\]]", end)[-1]


def _name(layout: Layout) -> re.Pattern[str]:
    """Letters of a name: none of them begins what follows it."""
    follows = pieces(layout.name_end + (layout.fields.key if layout.fields else ""))
    first = follows[0][0] if follows and not follows[0][0].isalnum() else ""
    return re.compile(rf"""[^\s<>{{}}\[\]()"'=,{re.escape(first)}]+""")


def _optional(lark: Lark, text: str) -> str:
    """An expression for a text that may do without its identifiers."""
    before, identifier, after = text.partition(ID)
    if not identifier:
        return lark.slots(text)
    quote = '"' if before.endswith('"') and after.startswith('"') else ""
    after = after.removeprefix(quote)
    return f"({lark.slots(before + ID + quote)})? {_optional(lark, after)}"
