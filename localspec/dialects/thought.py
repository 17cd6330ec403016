"""Reasoning within marks, at the beginning of a reply."""

from __future__ import annotations

from dataclasses import dataclass

from localspec.dialects.lark import Lark, quoted
from localspec.dialects.parts import Parts
from localspec.dialects.tape import Reading, Tape


@dataclass(frozen=True, slots=True)
class Thought:
    """How reasoning is marked, and the answer after it where that is marked, too."""

    open: str
    close: str
    answer: str = ""
    answer_close: str = ""

    @property
    def marks(self) -> tuple[str, ...]:
        return tuple(filter(None, (self.open, self.close, self.answer, self.answer_close)))

    def opened_by(self, prompt_end: str) -> bool:
        return prompt_end.rstrip().endswith(self.open)

    def read(self, tape: Tape, parts: Parts, prompt_end: str) -> Reading[bool]:
        """Read reasoning if the reply begins with it; return whether a marked answer follows."""
        tape.begin()
        if not self.opened_by(prompt_end):
            yield from tape.blank()
            if not (yield from tape.starts(self.open)):
                return False
        parts.think("")
        yield from tape.until((self.close,), parts.think)
        tape.begin()
        yield from tape.blank()
        answers = self.answer and (yield from tape.starts(self.answer))
        if answers:
            tape.begin()
        return bool(answers)

    def opening(self, lark: Lark) -> str:
        """An expression for how a reply begins to reason."""
        if lark.is_text(self.open):
            return lark.terminal(f"BLANKS {quoted(self.open)}")
        return f"BLANKS {lark.mark(self.open)}"
