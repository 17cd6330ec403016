"""The tokens of thoughts, counted as a reply goes on."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from localspec.thought.form import ThoughtCourse, ThoughtForm


class ThoughtCount:
    """Counts the tokens of a reply that belong to its thoughts."""

    def __init__(self, form: ThoughtForm, spell: Callable[[int], bytes]) -> None:
        self._form, self._spell = form, spell
        self._course = ThoughtCourse(form.start)

    @property
    def tokens(self) -> int:
        return self._course.tokens + self._course.held

    def add(self, tokens: Sequence[int]) -> None:
        """Follow tokens of the reply."""
        for token in tokens:
            if self._course.place.over:
                return
            self._course = self._course.after(self._form, self._spell(token))
