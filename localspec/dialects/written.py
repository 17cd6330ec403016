"""Calls as a layout describes them: read from a stream, and written as a grammar."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from localspec.dialects.envelope import KEYS, arguments, envelope
from localspec.dialects.field_values import given, parameters, raw_parameters
from localspec.dialects.form import Bare
from localspec.dialects.functions import Function
from localspec.dialects.lark import Lark, choice, quoted, schema
from localspec.dialects.layout import ID, KEY, NAME, SLOT, Layout
from localspec.dialects.literal import literal, rest, whole
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
        found = [mark for text in texts for mark in marks(text) if not {KEY, NAME} & set(mark)]
        whole = (each for each in self.openings if MARK.fullmatch(each) or "<" not in each)
        return tuple(dict.fromkeys((*whole, *found)))

    @property
    def openings(self) -> tuple[str, ...]:
        return (*self.layout.openings, *self.also)

    def within(self, functions: Sequence[Function]) -> tuple[str, ...]:
        if not self.layout.within or self.layout.name_last:
            return ()
        end = self.layout.name_end.rstrip()
        calls = (self.layout.head + self._name(each) + end for each in functions)
        begun = dict.fromkeys(SLOT.split(each)[0] for each in calls)
        return tuple(each for each in begun if len(each) > SHORTEST)

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
        self, tape: Tape, parts: Parts, functions: Sequence[Function], opening: str
    ) -> Reading[None]:
        known = {each.name: each for each in functions}
        strict = not (opening and self.explicit)
        head = _from(self.layout.head, opening)
        yield from tape.blank()
        first = yield from tape.ahead()
        if self.layout.keys or (first in ("{", "[") and first and not head.startswith(first)):
            before, within = _before_object(head)
            yield from rest(tape, before)
            if not within or (yield from whole(tape, within)):
                yield from self._objects(tape, parts, known if strict else None)
        else:
            yield from self._calls(tape, parts, known, head, strict)
        parts.say(tape.written())

    def _objects(
        self, tape: Tape, parts: Parts, known: Mapping[str, Function] | None
    ) -> Reading[None]:
        keys = self.layout.keys or KEYS
        yield from tape.starts("[")
        yield from tape.blank()
        while (yield from envelope(tape, parts, known, keys)) and parts.complete:
            yield from tape.blank()
            yield from tape.starts(",", ";")
            yield from tape.blank()
            if (yield from tape.ahead()) != "{":
                while (yield from tape.starts("}", "]")):
                    tape.begin()
                    yield from tape.blank()
                yield from rest(tape, _after_objects(self.layout))
                return

    def _calls(
        self, tape: Tape, parts: Parts, functions: Mapping[str, Function], head: str, strict: bool
    ) -> Reading[None]:
        again = pieces(self.layout.again or "")
        while (yield from self._one(tape, parts, functions, head, strict)):
            if self.layout.again is None or self.repeats is not None:
                yield from rest(tape, self.layout.close)
                return
            yield from tape.blank()
            if not (yield from self._goes_on(tape, again)):
                yield from rest(tape, self.layout.close)
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
        self, tape: Tape, parts: Parts, functions: Mapping[str, Function], head: str, strict: bool
    ) -> Reading[bool]:
        """Read one call; return whether it was made and is whole."""
        layout = self.layout
        if not (yield from literal(tape, head)):
            return False
        yield from tape.blank()
        name = yield from tape.run(_name(layout))
        right = name in functions if strict else name.isprintable() and name
        layout = layout.of(name)
        if not right or not (yield from literal(tape, layout.name_end)):
            return False
        yield from tape.blank()
        end = layout.end
        if layout.fields is None:
            if not (yield from arguments(tape, parts, name)) or not parts.complete:
                return False
        else:
            first, *_ = pieces(end)
            ends = (first, *_ends(layout, functions))
            values = yield from given(tape, layout.fields, ends, functions.get(name))
            if values is None:
                return False
            parts.make(name, values)
            tape.begin()
            end = end.lstrip()[len(first) :]
        yield from rest(tape, end)
        return True

    def after(self, lark: Lark, functions: Sequence[Function], parallel: bool) -> str:
        if not self.explicit:
            return ""
        layout = self.layout
        head = layout.head.removeprefix(self._opening)
        head = head.removeprefix(ID) if self.addressed else head
        raw = self._raw_calls(lark, functions, parallel)
        if raw:
            return f"{lark.slots(head)} {choice([' '.join(each) for each in raw.values()])}"
        call = lark.rule(choice([self._call(lark, each) for each in functions]))
        again = layout.again
        more, close = "", lark.slots(layout.close)
        if parallel and again is not None and self.repeats is None:
            more = f"({lark.slots(again)} {call})*"
        rest = f"{more} {close}" if layout.closes_one or not close else f"({more} {close})?"
        return f"{lark.slots(head)} {call} {rest}"

    def alone(self, lark: Lark, functions: Sequence[Function], parallel: bool) -> Sequence[Bare]:
        if not self.bare or self.layout.openings:
            return ()
        raw = self._raw_calls(lark, functions, parallel)
        if raw:
            return [Bare(self._words(each), raw[each.name][1]) for each in functions]
        ends = dict.fromkeys(map(self._end, functions), "")
        for end in ends:
            ends[end] = self._alone_end(lark, functions, parallel, end)
        return [
            Bare(self._words(each), f"{self._rest(lark, each)} {ends[self._end(each)]}")
            for each in functions
        ]

    def _alone_end(
        self, lark: Lark, functions: Sequence[Function], parallel: bool, end: str
    ) -> str:
        layout = self.layout
        if not parallel or layout.again is None:
            return lark.terminal(f"BLANKS {quoted(end + layout.close)}")
        call = choice([self._call(lark, each) for each in functions])
        more = f"({lark.slots(layout.again)} {call})*"
        return lark.rule(f"{lark.slots(end)} {more} {lark.slots(layout.close)}")

    def _raw_calls(
        self, lark: Lark, functions: Sequence[Function], parallel: bool
    ) -> dict[str, tuple[str, str]]:
        """Expressions for a name, and for all that follows it, where nothing else ends values."""
        layout, fields = self.layout, self.layout.fields
        if fields is None or not fields.raw:
            return {}
        heads = {each.name: self._name(each) + self._of(each).name_end for each in functions}
        rules = {each.name: lark.reserved() for each in functions}
        several = parallel and layout.again is not None and self.repeats is None
        for each in functions:
            end = self._of(each).end
            ends = [(end + layout.close, "")]
            if several:
                ends += [(f"{end}{layout.again}{heads[name]}", rules[name]) for name in rules]
            lark.fill(rules[each.name], raw_parameters(lark, fields, each, ends))
        return {name: (lark.literal(heads[name]), rules[name]) for name in rules}

    def _words(self, function: Function) -> tuple[str, ...]:
        """Cut the beginning of a call where there may be blanks."""
        layout, name = self._of(function), self._name(function)
        head, after = layout.head, layout.name_end
        if layout.name_last:
            return tuple(WORD.findall(head))
        if head.endswith('"'):
            return tuple(WORD.findall(head + name + after))
        blanks = after[: len(after) - len(after.lstrip())]
        return (*WORD.findall(head), name + blanks, *WORD.findall(after))

    def _call(self, lark: Lark, function: Function) -> str:
        layout = self._of(function)
        whole = f"{self._rest(lark, function)} {_optional(lark, self._end(function))}"
        if layout.name_last:
            return whole
        found = f"{_optional(lark, layout.name_end)} {whole}"
        if layout.empty is not None and not function.required:
            found = choice([found, lark.slots(layout.empty)])
        return f"{quoted(self._name(function))} {found}"

    def _rest(self, lark: Lark, function: Function) -> str:
        """An expression for arguments, and the name where it follows them."""
        given = self._given(lark, function)
        if not self.layout.name_last:
            return given
        return f"{given} {lark.slots(self.layout.name_end)} {quoted(self._name(function))}"

    def _of(self, function: Function) -> Layout:
        return self.layout.of(self._name(function))

    def _name(self, function: Function) -> str:
        before = self.layout.name_end if self.layout.name_last else self.layout.head
        if before.endswith('"'):
            return json.dumps(function.name, ensure_ascii=False)[1:-1]
        return function.name

    def _given(self, lark: Lark, function: Function) -> str:
        if self.layout.fields is None:
            return schema(function.schema, function, self.layout.style)
        return parameters(lark, self.layout.fields, function)

    def _end(self, function: Function) -> str:
        return self._of(function).end


def _ends(layout: Layout, functions: Iterable[str]) -> list[str]:
    """List what ends the last value of a call where no mark does."""
    more = [] if layout.again is None else [layout.again + each for each in functions]
    return [layout.end + each for each in (layout.close, *more)]


def _from(head: str, opening: str) -> str:
    """Return the rest of a head after an opening, which may have left out its first mark."""
    _, found, rest = head.partition(opening) if opening else ("", "", "")
    return rest if found else head


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
    before, found, after = text.partition(ID)
    if not found:
        return lark.slots(text)
    quote = '"' if before.endswith('"') and after.startswith('"') else ""
    after = after.removeprefix(quote)
    return f"({lark.slots(before + ID + quote)})? {_optional(lark, after)}"
