"""A dialect whose calls stand in the text: reasoning first, then content and calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.base.errors import UsageError
from localspec.formats.dialects.bounds import Bounds
from localspec.formats.dialects.lark import IDENTIFIER, Lark, choice, json_reply, quoted
from localspec.formats.dialects.offered_tools import OfferedTool, offered_tools
from localspec.formats.dialects.parts import Parts
from localspec.formats.dialects.reader import Reader
from localspec.formats.dialects.segments import marks
from localspec.formats.dialects.text_stream import Reading, TextStream
from localspec.formats.dialects.thought import Thought
from localspec.formats.dialects.written import Written
from localspec.formats.dialects.written_grammar import Bare, CallGrammar
from localspec.formats.templates.message import Tool
from localspec.formats.thought.form import ThoughtMarks


@dataclass(frozen=True, slots=True)
class Marked:
    form: Written
    thought: Thought | None = None
    answer: tuple[str, str] | None = None  # marks around content, where it has any
    ending: str = ""  # of a reply, before the token that ends it

    @property
    def marks(self) -> tuple[str, ...]:
        thought = self.thought.marks if self.thought else ()
        answer = marks("".join(self.answer)) or self.answer if self.answer else ()
        texts = (*self.form.marks, *thought, *filter(None, answer), *marks(self.ending))
        return tuple(dict.fromkeys(texts))

    @property
    def reasons(self) -> bool:
        return self.thought is not None

    def reader(self, tools: Sequence[Tool], prompt_end: str) -> Reader:
        stream, parts = TextStream(), Parts()
        stream.feed(begun(self.form, prompt_end))  # so that all replies begin alike
        return Reader(
            stream, parts, self._read_reply(stream, parts, offered_tools(tools), prompt_end)
        )

    def thoughts(self, tools: Sequence[Tool], prompt_end: str) -> ThoughtMarks | None:
        if self.thought is None:
            return None
        may_call = bool(offered_tools(tools))
        calls = self.form.openings if may_call else ()
        breaks = ending_content(self.form) if may_call else ()
        closing = self.thought.end or self.thought.close
        return ThoughtMarks(self.thought.form(prompt_end, calls, breaks), closing)

    def _read_reply(
        self, stream: TextStream, parts: Parts, offered: Sequence[OfferedTool], prompt_end: str
    ) -> Reading[None]:
        """Read reasoning, calls without a mark at the beginning, then content and marked calls.

        Blanks between these belong to none. Reasoning is left out where calls come at once.
        """
        stream.begin()  # the mark that the prompt ends with, and `reader` fed, is no content
        if self.thought and not (
            yield from self._calls_at_once(stream, parts, offered, prompt_end)
        ):
            breaks = ending_content(self.form) if offered else []
            yield from self.thought.read(stream, parts, prompt_end, breaks)
        yield from stream.blank()
        opened = begun(self.form, prompt_end)
        in_marks = yield from self._opens_content(stream)
        if opened and not in_marks and not offered:  # the prompt's mark of a call: drop it
            yield from stream.starts(opened)
            stream.begin()
        first = yield from stream.ahead()
        if offered and first and first in self.form.bare:  # may begin a call without a mark
            yield from self.form.read(stream, parts, offered, "")
        parts.say(stream.written())  # what was read and turned out to be content
        ends = [self.answer[1]] if self.answer and in_marks else []
        ends = [end for end in (*ends, self.ending) if end]
        yield from self._content(stream, parts, offered, ends, opened)

    def _content(
        self,
        stream: TextStream,
        parts: Parts,
        offered: Sequence[OfferedTool],
        ends: Sequence[str],
        opened: str,
    ) -> Reading[None]:
        """Read content and calls; `ends`, and a mark that the prompt `opened`, are neither."""
        within = self.form.within(offered)
        openings = (*self.form.openings, *within) if offered and parts.complete else ()
        while mark := (yield from stream.until((*openings, *ends), parts.say)):
            stream.begin("" if opened or mark in ends else mark)
            opened = ""
            if mark in within:  # the beginning of a bare call, which is read with it
                stream.back(mark)
            if mark in openings:
                yield from self.form.read(stream, parts, offered, "" if mark in within else mark)
            if not parts.complete:  # a call broke off: nothing after it is a call
                openings = ()

    def _calls_at_once(
        self, stream: TextStream, parts: Parts, offered: Sequence[OfferedTool], prompt_end: str
    ) -> Reading[bool]:
        """Read a call where the prompt has begun reasoning; return whether there is one."""
        if not (offered and self.form.openings and self.thought):
            return False
        if not self.thought.opened_by(prompt_end):
            return False
        yield from stream.blank()
        mark = yield from stream.starts(*self.form.openings)
        if mark:
            stream.begin(mark)
            yield from self.form.read(stream, parts, offered, mark)
        return bool(mark)

    def _opens_content(self, stream: TextStream) -> Reading[bool]:
        """Read the mark that begins content, if it is there."""
        if self.answer is None or not (yield from stream.starts(self.answer[0])):
            return False
        yield from stream.blank()
        stream.begin()
        return True

    def grammar(self, bounds: Bounds) -> str | None:
        if not bounds.offered and (bounds.form is None or self.thought is None):
            return None
        if self._begins_alike and bounds.form is None and not bounds.required:
            return None  # a lexer cannot tell a call from reasoning in time
        lark = bounds.lark()
        calls = _Calls(lark, self.form, bounds, self.thought) if bounds.offered else None
        end = self._end(lark)
        if calls and bounds.form is None and not bounds.required:
            return lark.source(f"({self._free(lark, calls, bounds.prompt_end)}) {end}")
        if calls and bounds.form is not None and calls.are_bare:
            # One JSON object looks like the other until it is too late.
            raise UsageError("this model's calls have no mark: omit the format or the tools")
        answers = [f"{self._nothing(lark)} {calls.forced()}"] if calls else []
        answers += [] if bounds.form is None else [self._answer(lark, json_reply(bounds.form))]
        return lark.source(f"{self._first(lark, bounds.prompt_end)} {choice(answers)} {end}")

    @property
    def _begins_alike(self) -> bool:
        """Whether reasoning begins as calls do."""
        return bool(self.thought and self.thought.open.startswith(self.form.openings or ("\0",)))

    def _free(self, lark: Lark, calls: _Calls, prompt_end: str) -> str:
        """An expression for any text with calls in it, after reasoning if it reasons."""
        free = self._marked_free(lark, calls)
        if self.thought is None:
            return free
        if self.thought.opened_by(prompt_end):
            broken = calls.with_calls("TEXT", ending_content(self.form))
            return f"{lark.upto(self.thought.close)} {free} | {broken}"
        opening = self.thought.opening(lark)
        thinking = f"({opening} {lark.upto(self.thought.close)} | {self._none(lark)})"
        other = calls.free((opening,)) if lark.is_text(self.thought.open) else free
        return f"{thinking} {free} | {other} | {opening} TEXT"

    def _marked_free(self, lark: Lark, calls: _Calls) -> str:
        """An expression for text with calls, which may stand in marks; the closing one may lack."""
        free = calls.free(())
        if self.answer is None or (lark.is_text(self.answer[0]) and not calls.prompt_opening):
            return free
        opening, closing = self.answer
        opened = f"BLANKS {lark.literal(opening.removeprefix(calls.prompt_opening))}"
        if not closing:
            return choice([free, f"{opened} {calls.with_calls()}"])
        more = calls.with_calls() if calls.prompt_opening else free
        return choice([free, f"{opened} {lark.upto(closing)} {more}", f"{opened} TEXT"])

    def _end(self, lark: Lark) -> str:
        """An expression for how a reply may end."""
        _, after = self.form.layout.blanks
        if not self.ending:
            return lark.optional(after)
        if not lark.is_text(self.ending):
            return f"{lark.optional(after)} ({lark.literal(self.ending)} BLANKS)?"
        if not after or self.form.layout.repeats:  # the blanks may be those before another call
            return f"{lark.optional(after)} ({lark.terminal(f'{quoted(self.ending)} BLANKS')})?"
        # In one piece, as what follows a call may begin alike.
        end = lark.terminal(f"({quoted(after)})? {quoted(self.ending)} BLANKS")
        return f"({end} | {quoted(after)})?"

    def _nothing(self, lark: Lark) -> str:
        """An expression for empty content, which some models write before calls."""
        if self.answer is None or not self.answer[1]:
            return ""
        return f"({' '.join(map(lark.literal, self.answer))} BLANKS)?"

    def _answer(self, lark: Lark, form: str) -> str:
        """An expression for what follows a form, within the marks of content if it has any."""
        if self.answer is None:
            return form
        opening, closing = map(lark.literal, self.answer)
        end = f"({closing})?" if closing else ""
        return choice([form, f"{opening} {form} {end}"])

    def _first(self, lark: Lark, prompt_end: str) -> str:
        """An expression for the reasoning before required calls or a form."""
        if self.thought is None:
            return ""
        closing = lark.upto(self.thought.close)
        if self.thought.opened_by(prompt_end):
            return f"{closing} BLANKS"
        return f"(({self.thought.opening(lark)} {closing} | {self._none(lark)}) BLANKS)?"

    def _none(self, lark: Lark) -> str:
        """An expression for no reasoning, which some models write as the closing mark alone."""
        return f"BLANKS {lark.literal(self.thought.close)}" if self.thought else ""


def begun(form: Written, prompt_end: str) -> str:
    """Return the mark of calls with which a prompt ends, for families whose replies begin so."""
    return next((opening for opening in form.openings if prompt_end.endswith(opening)), "")


def ending_content(form: Written) -> list[str]:
    """List the beginnings of calls that end content with a mark of their own."""
    first, *others = form.openings or ("",)
    return [opening for opening in others if first and opening.endswith(first)]


class _Calls:
    """Expressions for calls, and for text that calls may stand in."""

    def __init__(self, lark: Lark, form: Written, bounds: Bounds, thought: Thought | None) -> None:
        offered, parallel = bounds.offered, bounds.parallel
        self._lark = lark
        self._openings = [*form.openings[:1], *ending_content(form)]
        self._between = form.layout.repeats if parallel else None
        self._blanks, _ = form.layout.blanks
        self._followed = form.layout.before_content
        self._whom = IDENTIFIER if form.layout.addressed else ""
        self._other = f"& ~(BLANKS {quoted(lark.first(thought.open))})" if thought else ""
        calls = CallGrammar(lark, form.layout, offered, parallel)
        self._after = calls.after_opening() if form.explicit else ""
        may_be_bare = form.bare and not form.layout.openings
        self._alone = calls.bare() if may_be_bare else ()
        self.prompt_opening = begun(form, bounds.prompt_end)

    @property
    def are_bare(self) -> bool:
        return bool(self._alone)

    def forced(self) -> str:
        """Allow nothing but calls."""
        if self._alone:
            return choice([f"{self._head(bare)} {bare.following}" for bare in self._alone])
        lark = self._lark
        opening = choice([f"{lark.literal(mark)} {self._whom}" for mark in self._openings])
        call = lark.rule(f"{opening} {self._after}")
        first = (
            lark.rule(f"{self._whom} {self._after}") if self.prompt_opening else self._first(call)
        )
        if self._between is None:
            return first
        return f"{first} ({lark.literal(self._between)} {call})*"

    def _head(self, bare: Bare) -> str:
        """An expression for how a bare call begins, in one piece with blanks that may be there."""
        words = self._lark.slots("".join(bare.words))
        return self._lark.terminal(f"BLANKS {words}") if self._blanks else words

    def _first(self, call: str) -> str:
        """An expression for the first call, before which blanks may stand."""
        blanks = "BLANKS" if self._blanks else ""
        if not blanks and not self._whom:
            return call
        if self._lark.is_text(self._openings[0]):  # in one piece, as reasoning may begin alike
            whole = (f"{blanks} {quoted(mark)} {self._whom}" for mark in self._openings)
            opening = choice([self._lark.terminal(f"({text}) {self._other}") for text in whole])
            return self._lark.rule(f"{opening} {self._after}")
        return f"{blanks} {call}"

    def free(self, others: Sequence[str]) -> str:
        """Allow any reply that does not begin with these others."""
        if self.prompt_opening:
            return f"({self._whom} {self._after} {self._more()})"
        lark = self._lark
        heads = [lark.terminal(_flexible(lark, bare)) for bare in self._alone]
        tails = [bare.following for bare in self._alone]
        text = "TEXT"
        if heads or others:
            text = lark.terminal(f"TEXT & ~({choice([*heads, *others])} TEXT)")
        # What reads on as calls do is no content.
        content = lark.terminal(r"TEXT & ~(BLANKS /[,;\[{]/ TEXT)") if self._followed else ""
        alone = [f"{head} {tail} {content}" for head, tail in zip(heads, tails, strict=True)]
        return choice([self.with_calls(text), *alone])

    def with_calls(self, first: str = "TEXT", openings: Sequence[str] | None = None) -> str:
        """An expression for text with calls, the first of them after `first` and an opening."""
        begin = self._openings if openings is None else openings
        if not self._after or not begin:
            return first
        calls = f"{self._upto(first, begin)} {self._after} {self._more()}"
        return choice([first, calls])

    def _more(self) -> str:
        if self._between is None:
            return ""
        return f"({self._upto('TEXT', self._openings)} {self._after})* TEXT"

    def _upto(self, first: str, openings: Sequence[str]) -> str:
        """An expression for any text up to a call, and the mark that begins the call."""
        return choice([f"{self._lark.upto(mark, first)} {self._whom}" for mark in openings])


def _flexible(lark: Lark, bare: Bare) -> str:
    """A terminal for how a bare call begins, whatever the blanks."""
    return " ".join(f"BLANKS {lark.slots(word.strip())}" for word in bare.words) + " BLANKS"
