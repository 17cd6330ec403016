"""Calls as a layout describes them, read from a stream."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from localspec.formats.dialects.envelope import KEYS, arguments, envelope
from localspec.formats.dialects.field_values import read_arguments
from localspec.formats.dialects.layout import KEY, NAME, SLOT, Layout
from localspec.formats.dialects.literal import read_closing, read_pieces, read_text
from localspec.formats.dialects.offered_tools import OfferedTool
from localspec.formats.dialects.parts import Parts
from localspec.formats.dialects.segments import MARK, marks, pieces
from localspec.formats.dialects.text_stream import Reading, TextStream

MAX_COMMON_BEGINNING = 3  # letters that many texts have; more of them may begin a call


@dataclass(frozen=True, slots=True)
class Written:
    """A layout as the calls of a family: their marks, and how they are read."""

    layout: Layout
    explicit: bool = True  # whether a mark is reason enough to take any name for a call
    also: tuple[str, ...] = ()  # marks that may begin calls, though a grammar has none of them
    bare: str = ""  # characters that may begin a call without a mark, where a reply begins

    @property
    def marks(self) -> tuple[str, ...]:
        """All marks in the layout that may be control tokens."""
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
        """Marks that begin calls; the first one is how they should be written, if any is."""
        return (*self.layout.openings, *self.also)

    def within(self, tools: Sequence[OfferedTool]) -> tuple[str, ...]:
        """List beginnings of calls that may stand within content without a mark."""
        if not self.layout.after_content or self.layout.name_last:
            return ()
        end = self.layout.name_end.rstrip()
        calls = (self.layout.head + self.layout.spelled(tool.name) + end for tool in tools)
        beginnings = dict.fromkeys(SLOT.split(call)[0] for call in calls)
        return tuple(beginning for beginning in beginnings if len(beginning) > MAX_COMMON_BEGINNING)

    def read(
        self, stream: TextStream, parts: Parts, tools: Sequence[OfferedTool], opening: str
    ) -> Reading[None]:
        """Read the calls that follow an opening, or calls without a mark where it is empty.

        `stream` stands just after the opening. Calls go to `parts` as they become sure; the text
        from the first piece on that belongs to no call goes there as content. A mark that nothing
        but calls has makes a call of any name; without one, only `tools` are called.
        """
        by_name = {tool.name: tool for tool in tools}
        strict = not (opening and self.explicit)
        head = _after_opening(self.layout.head, opening)
        yield from stream.blank()
        if (yield from self._begins_object(stream, head)):
            yield from self._objects(stream, parts, by_name if strict else None, head)
        else:
            yield from self._calls(stream, parts, by_name, head, strict)
        parts.say(stream.written())

    def _begins_object(self, stream: TextStream, head: str) -> Reading[bool]:
        """Whether calls are JSON objects, by the layout or because a model writes them so here."""
        if self.layout.keys:
            return True
        first = yield from stream.ahead()
        return first in ("{", "[") and not head.startswith(first)

    def _objects(
        self, stream: TextStream, parts: Parts, tools: Mapping[str, OfferedTool] | None, head: str
    ) -> Reading[None]:
        """Read calls that are JSON objects, bare, in a list, or in a list within an object."""
        before, within = _before_object(head)
        yield from read_closing(stream, before)
        if within and not (yield from read_pieces(stream, within)):
            return
        keys = self.layout.keys or KEYS
        yield from stream.starts("[")
        yield from stream.blank()
        while (yield from envelope(stream, parts, tools, keys)) and parts.complete:
            yield from stream.blank()
            yield from stream.starts(",", ";")
            yield from stream.blank()
            if (yield from stream.ahead()) != "{":
                while (yield from stream.starts("}", "]")):
                    stream.begin()
                    yield from stream.blank()
                yield from read_closing(stream, _after_objects(self.layout))
                return

    def _calls(
        self,
        stream: TextStream,
        parts: Parts,
        tools: Mapping[str, OfferedTool],
        head: str,
        strict: bool,
    ) -> Reading[None]:
        """Read calls as the layout has them, up to one that is none or is not whole."""
        again = pieces(self.layout.again or "")
        while (yield from self._one(stream, parts, tools, head, strict)):
            if self.layout.again is None or self.layout.repeats is not None:
                yield from read_closing(stream, self.layout.close)
                return
            yield from stream.blank()
            if not (yield from self._goes_on(stream, again)):
                yield from read_closing(stream, self.layout.close)
                return
            head = self.layout.again.lstrip()[len(again[0]) :] if again else ""

    def _goes_on(self, stream: TextStream, again: Sequence[str]) -> Reading[bool]:
        """Whether another call follows, of which the first piece is then read."""
        closing = pieces(self.layout.close)[:1]
        begins_alike = again and closing and closing[0].startswith(again[0])
        if begins_alike and (yield from stream.starts(*closing)):
            stream.back(closing[0])
            return False
        if again:
            return bool((yield from stream.starts(again[0])))
        ahead = yield from stream.ahead()
        return bool(ahead) and not self.layout.close.lstrip().startswith(ahead)

    def _one(
        self,
        stream: TextStream,
        parts: Parts,
        tools: Mapping[str, OfferedTool],
        head: str,
        strict: bool,
    ) -> Reading[bool]:
        """Read one call; return whether it was made and is whole."""
        layout = self.layout
        if not (yield from read_text(stream, head)):
            return False
        yield from stream.blank()
        name = yield from stream.run(_name(layout))
        right = name in tools if strict else name.isprintable() and name
        layout = layout.for_name(name)
        if not right or not (yield from read_text(stream, layout.name_end)):
            return False
        yield from stream.blank()
        end = layout.end
        if layout.fields is None:
            if not (yield from arguments(stream, parts, name)) or not parts.complete:
                return False
        else:
            first, *_ = pieces(end)
            ends = (first, *_ends(layout, tools))
            values = yield from read_arguments(stream, layout.fields, ends, tools.get(name))
            if values is None:
                return False
            parts.add_call(name, values)
            stream.begin()
            end = end.lstrip()[len(first) :]
        yield from read_closing(stream, end)
        return True


def _ends(layout: Layout, tools: Iterable[str]) -> list[str]:
    """List what ends the last value of a call where no mark does."""
    more = [] if layout.again is None else [layout.again + name for name in tools]
    return [layout.end + following for following in (layout.close, *more)]


def _after_opening(head: str, opening: str) -> str:
    """Return what follows the opening in a head, all of it where the opening is not in it."""
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
    """Return a pattern for a name, without the first character of what follows names."""
    follows = pieces(layout.name_end + (layout.fields.key if layout.fields else ""))
    first = follows[0][0] if follows and not follows[0][0].isalnum() else ""
    return re.compile(rf"""[^\s<>{{}}\[\]()"'=,{re.escape(first)}]+""")
