"""Reasoning within marks, at the beginning of a reply."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from localspec.dialects.lark import Lark
from localspec.dialects.parts import Parts
from localspec.dialects.segments import marks
from localspec.dialects.tape import Reading, Tape


@dataclass(frozen=True, slots=True)
class Thought:
    """The marks of reasoning."""

    open: str
    close: str

    @property
    def marks(self) -> tuple[str, ...]:
        return tuple(mark for text in (self.open, self.close) for mark in marks(text) or [text])

    def opened_by(self, prompt_end: str) -> bool:
        return prompt_end.rstrip().endswith(self.open)

    def read(
        self, tape: Tape, parts: Parts, prompt_end: str, breaks: Sequence[str] = ()
    ) -> Reading[None]:
        """Read reasoning if the reply begins with it; what breaks it off stays unread."""
        tape.begin()
        if not self.opened_by(prompt_end):
            yield from tape.blank()
            mark = yield from tape.starts(self.open, self.close)
            if mark != self.open:
                if mark:  # of reasoning that was none
                    tape.begin()
                return
        parts.think("")
        mark = yield from tape.until((self.close, *breaks), parts.think)
        if mark in breaks:
            tape.back(mark)
        tape.begin()

    def opening(self, lark: Lark) -> str:
        """An expression for how a reply begins to reason."""
        return lark.after_blanks(self.open)
