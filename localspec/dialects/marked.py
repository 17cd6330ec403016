"""A dialect whose calls stand in the text: reasoning first, then content and calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.dialects.bounds import Bounds
from localspec.dialects.form import Bare, Form
from localspec.dialects.functions import Function, functions
from localspec.dialects.lark import Lark, choice, formed, quoted
from localspec.dialects.parts import Parts
from localspec.dialects.reader import Reader
from localspec.dialects.tape import Reading, Tape
from localspec.dialects.thought import Thought
from localspec.errors import UsageError
from localspec.templates.message import Tool


@dataclass(frozen=True, slots=True)
class Marked:
    form: Form
    thought: Thought | None = None
    answer: tuple[str, str] | None = None  # marks around content, where it has any

    @property
    def marks(self) -> tuple[str, ...]:
        thought = self.thought.marks if self.thought else ()
        return tuple(dict.fromkeys((*self.form.marks, *thought, *(self.answer or ()))))

    @property
    def reasons(self) -> bool:
        return self.thought is not None

    def reader(self, tools: Sequence[Tool], prompt_end: str) -> Reader:
        tape, parts = Tape(), Parts()
        return Reader(tape, parts, self._reply(tape, parts, functions(tools), prompt_end))

    def _reply(
        self, tape: Tape, parts: Parts, offered: Sequence[Function], prompt_end: str
    ) -> Reading[None]:
        tape.begin()
        if self.thought:
            yield from self.thought.read(tape, parts, prompt_end)
        yield from tape.blank()
        ends = (yield from self._answers(tape)) if self.answer else ()
        first = yield from tape.ahead()
        if offered and first and first in self.form.bare:
            yield from self.form.read(tape, parts, offered, "")
        parts.say(tape.written())
        openings = self.form.openings if offered and parts.complete else ()
        while mark := (yield from tape.until((*openings, *ends), parts.say)):
            tape.begin(mark)
            if mark in openings:
                yield from self.form.read(tape, parts, offered, mark)
            if not parts.complete:
                openings = ()

    def _answers(self, tape: Tape) -> Reading[tuple[str, ...]]:
        """Read the mark that begins content; return what ends it."""
        opening, closing = self.answer or ("", "")
        if not (yield from tape.starts(opening)):
            return ()
        tape.begin()
        return (closing,)

    def grammar(self, bounds: Bounds) -> str | None:
        if not bounds.offered and (bounds.form is None or self.thought is None):
            return None
        lark = bounds.lark()
        calls = _Calls(lark, self.form, bounds) if bounds.offered else None
        if calls and bounds.form is None and not bounds.required:
            return lark.source(self._free(lark, calls, bounds.prompt_end))
        if calls and bounds.form is not None and calls.are_bare:
            # One JSON object looks like the other until it is too late.
            raise UsageError("this model's calls have no mark: leave away the format or tools")
        answers = [calls.forced()] if calls else []
        answers += [] if bounds.form is None else [self._answer(lark, formed(bounds.form))]
        return lark.source(f"{self._first(lark, bounds.prompt_end)} {choice(answers)}")

    def _free(self, lark: Lark, calls: _Calls, prompt_end: str) -> str:
        """An expression for any text with calls in it, after reasoning if it reasons."""
        free = self._marked_free(lark, calls)
        if self.thought is None:
            return free
        if self.thought.opened_by(prompt_end):
            return f"{lark.upto(self.thought.close)} {free} | TEXT"
        opening = self.thought.opening(lark)
        thinking = f"{opening} {lark.upto(self.thought.close)}"
        other = calls.free((opening,)) if lark.is_text(self.thought.open) else free
        return f"{thinking} {free} | {other} | {opening} TEXT"

    def _marked_free(self, lark: Lark, calls: _Calls) -> str:
        """An expression for text with calls in it, the text within its marks if it has any."""
        free = calls.free(())
        if self.answer is None or lark.is_text(self.answer[0]):
            return free
        opening, closing = self.answer
        opened = f"BLANKS {lark.literal(opening)}"
        return choice([free, f"{opened} {lark.upto(closing)} {free}", f"{opened} TEXT"])

    def _answer(self, lark: Lark, form: str) -> str:
        """An expression for what follows a form, within the marks of content if it has any."""
        if self.answer is None:
            return form
        opening, closing = map(lark.literal, self.answer)
        return choice([form, f"{opening} {form} ({closing})?"])

    def _first(self, lark: Lark, prompt_end: str) -> str:
        """An expression for the reasoning before what must be said."""
        if self.thought is None:
            return ""
        closing = lark.upto(self.thought.close)
        if self.thought.opened_by(prompt_end):
            return f"{closing} BLANKS"
        return f"({self.thought.opening(lark)} {closing} BLANKS)?"


class _Calls:
    """Expressions for calls, and for text that calls may stand in."""

    def __init__(self, lark: Lark, form: Form, bounds: Bounds) -> None:
        offered, parallel = bounds.offered, bounds.parallel
        self._lark = lark
        self._opening = form.openings[0] if form.openings else ""
        self._between = form.repeats if parallel else None
        self._after = form.after(lark, offered, parallel)
        self._alone = form.alone(lark, offered, parallel)

    @property
    def are_bare(self) -> bool:
        return bool(self._alone)

    def forced(self) -> str:
        """Nothing but calls."""
        if self._alone:
            return choice([f"{quoted(''.join(each.words))} {each.rest}" for each in self._alone])
        call = self._lark.rule(f"{self._lark.mark(self._opening)} {self._after}")
        if self._between is None:
            return call
        return f"{call} ({quoted(self._between) if self._between else ''} {call})*"

    def free(self, others: Sequence[str]) -> str:
        """Text with calls in it; it must not begin with these others."""
        lark = self._lark
        heads = [lark.terminal(_flexible(each)) for each in self._alone]
        text = "TEXT"
        if heads or others:
            text = lark.terminal(f"TEXT & ~({choice([*heads, *others])} TEXT)")
        options = [
            text,
            *(f"{head} {each.rest}" for head, each in zip(heads, self._alone, strict=True)),
        ]
        if self._after:
            options.append(f"{lark.upto(self._opening, text)} {self._after} {self._more()}")
        return choice(options)

    def _more(self) -> str:
        if self._between is None:
            return ""
        return f"({self._lark.upto(self._opening)} {self._after})* TEXT"


def _flexible(bare: Bare) -> str:
    """A terminal for how a bare call begins, whatever the blanks."""
    return " ".join(f"BLANKS {quoted(word.strip())}" for word in bare.words) + " BLANKS"
