"""A budget for the thoughts of a reply: once it is spent, the end of the thought is certain."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from localspec.base.tokens import NONE, Logits, Tokens, tokens_of
from localspec.formats.thought.form import ThoughtCourse, Thoughts, ends_within_character


class State(NamedTuple):
    """Holds what the budget depends on, after some tokens of a reply."""

    course: ThoughtCourse
    written: int = 0  # tokens of the text that ends a thought, where that is under way
    cuts: int = 0  # thoughts that it ended


class ThoughtBudget:
    """Follows the emitted tokens of a reply, and one draft at a time beyond them.

    All thoughts of a reply share the budget. Where it is spent, and no character is half written,
    only the next token of the closing text may follow, until all of that was written. A reply that
    chooses whether to think may no longer choose to.
    """

    def __init__(self, thoughts: Thoughts, budget: int, spell: Callable[[int], bytes]) -> None:
        self._form = thoughts.form
        self._closing = thoughts.closing
        self._refused = np.array(thoughts.refused, np.int64)
        self._budget = budget
        self._spell = spell
        self._emitted = 0
        self._path: list[int] = []  # a draft beyond the reply
        self._states = [
            State(ThoughtCourse(thoughts.form.start))
        ]  # after the reply, and each of these

    @property
    def over(self) -> bool:
        """Whether it has no effect on what follows the reply."""
        reply = self._states[0]
        return reply.course.place.over and not reply.written

    @property
    def slack(self) -> int:
        """The number of next tokens, at least, for which it has no effect."""
        (place, tokens, held), written, _ = self._states[0]
        left = 0 if written else max(self._budget - tokens - held, 0)
        return left or int(not (written or place.thinks or place.chooses))

    @property
    def cuts(self) -> int:
        """The number of thoughts that it ended."""
        return self._states[0].cuts

    def emit(self, tokens: Sequence[int]) -> None:
        """Follow tokens of the reply."""
        self._states = [self._after(tokens)]
        self._path = []
        self._emitted += len(tokens)

    def certain(self, drafted: Sequence[int]) -> int | None:
        """Return the only token that may follow `drafted`; None where there is a choice."""
        state = self._after(drafted)
        return self._closing[state.written] if self._closes(state) else None

    def closing_places(self, tokens: Sequence[int]) -> set[int]:
        """Find the places among the next tokens of the reply where a thought is being ended."""
        return {at for at in range(len(tokens)) if self.certain(tokens[:at]) is not None}

    def masked(self, logits: Logits, drafted: Sequence[int]) -> Logits:
        """Mask the logits: -inf for tokens that would begin another thought after `drafted`."""
        place, tokens, _ = self._after(drafted).course
        if not (place.chooses and tokens >= self._budget and len(self._refused)):
            return logits
        masked = logits.copy()
        masked[self._refused] = -np.inf
        return masked

    def forced(self, reply: Tokens) -> Tokens:
        """Return the tokens that must follow, if this is the reply."""
        state = self._states[0]
        if len(reply) != self._emitted or not self._closes(state):
            return NONE
        return tokens_of(self._closing[state.written :])

    def _closes(self, state: State) -> bool:
        """Whether a token of the closing text must follow."""
        place, tokens, _ = state.course
        spent = place.thinks and tokens >= self._budget
        return bool(state.written) or (spent and not ends_within_character(place.tail))

    def _after(self, drafted: Sequence[int]) -> State:
        """Return the state after a draft, which mostly begins as the one before did."""
        path, states, draft = self._path, self._states, list(drafted)
        if path[: len(draft)] == draft:
            return states[len(draft)]
        if draft[: len(path)] != path:
            shared = next(at for at, token in enumerate(path) if token != draft[at])
            del path[shared:], states[shared + 1 :]
        for token in draft[len(path) :]:
            path.append(token)
            states.append(self._next(states[-1], token))
        return states[-1]

    def _next(self, state: State, token: int) -> State:
        course = state.course.after(self._form, self._spell(token))
        if not self._closes(state):
            return State(course, 0, state.cuts)
        written = (state.written + 1) % len(self._closing)
        return State(course, written, state.cuts + (state.written == 0))
