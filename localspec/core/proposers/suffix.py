"""Prompt lookup by suffix automaton: drafts what most often followed the longest run at the end."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from itertools import chain

import numpy as np

from localspec.base.tokens import NONE, Tokens, common_prefix
from localspec.core.pairing.pair import Pair
from localspec.core.proposers.alignment import Alignment, Candidate
from localspec.core.proposers.automaton import Automaton, MatchState
from localspec.core.proposers.draft_while_likely import draft_of
from localspec.core.proposers.replies import MAX_MATCH, Replies
from localspec.interfaces.draft import Draft
from localspec.interfaces.proposer import NOT_QUIET, Ask, Quiet

BY = "suffix"
FLOOR = 0.4  # stop drafting once the chance that all of it is right is below
# Tokens of the prompt that must recur before a reply is taken for a copy of it, and again later.
NEW, FAR = 16, 8
RESUME = 8  # tokens after a copy in each of which one that agrees with the prompt is looked for
LEAD = 16  # tokens of the prompt kept with a reply, so that its beginning is found again


class SuffixProposer:
    """Looks through prompt and reply; given `replies`, also through earlier ones, which it adds.

    A draft depends on its ask alone, or on its ask and the earlier replies.

    After an edit a copy of the prompt goes on at the same place. Over 60 files and their next
    revisions, the old one in the prompt, drafts of up to 64 tokens: 16.8 accepted a round, and the
    draft is long again 6.5 tokens after an edit. By the longest run alone: 13.6, and 26 tokens.

    Over 89 replies of a small model to prompts of many kinds, at depth 4: 1.46 tokens a round and
    69% accepted, where n-grams draft as much for 1.40 and 59%. With a floor of 0.2: 1.57 and 52%.
    """

    def __init__(self, replies: Replies | None = None, floor: float = FLOOR) -> None:
        self._replies = replies
        self._floor = floor
        self._texts: dict[int, IndexedText] = {}

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [self._look_up(ask) for ask in asks]

    def release(self, slot: int) -> None:
        text = self._texts.pop(slot, None)
        if text and self._replies is not None:
            self._replies.add(text.reply)

    def quiet(self, ask: Ask) -> Quiet:
        """Return until when no run recurs of which one occurrence is enough for a draft to pay."""
        pays = (run for run in range(1, MAX_MATCH) if ask.pays((confidence(run, 1, 1),)))
        run = next(pays, MAX_MATCH)
        return Quiet(0, partial(self._recurs, ask, run)) if run > 1 else NOT_QUIET

    def _recurs(self, ask: Ask, run: int, history: Tokens) -> bool:
        """Whether so many of the newest tokens occurred before."""
        text = self._texts.setdefault(ask.slot, IndexedText())
        text.note(history, ask.prompt)
        if recurs(history, run) or text.may_resume(history):
            return True
        return self._replies is not None and self._replies.recurs(history[-run:].tolist())

    def _look_up(self, ask: Ask) -> Draft:
        if ask.begins:
            return draft_of(self._beginning(ask), ask, self._floor, BY)
        text = self._texts.get(ask.slot)
        if text is None or not text.precedes(ask.history):
            text = self._texts[ask.slot] = IndexedText()
        text.grow(ask)
        return draft_of(self._likeliest(text, ask), ask, self._floor, BY)

    def _beginning(self, ask: Ask) -> Iterable[tuple[int, float]]:
        """Go on like the longest run in the prompt or in earlier replies, without an index.

        To build the index of a prompt would hold up the first token.
        """
        history = ask.history
        end, length = longest_run(history)
        newest = history[-MAX_MATCH:].tolist()
        longer = max(length, NEW - 1)
        if self._replies is not None and (match := self._replies.longest_match(newest, longer)):
            return continuation(*match)
        if length < NEW:
            return ()
        tokens = history[end : end + ask.limit].tolist()
        return [(token, confidence(length + at, 1, 1)) for at, token in enumerate(tokens)]

    def _likeliest(self, text: IndexedText, ask: Ask) -> Iterable[tuple[int, float]]:
        """Go on like a copy of the prompt, or like the longest run, whichever is surer."""
        copied, frequent = text.copied(ask.limit), self._most_frequent(text, ask.history)
        for first in frequent:
            if not copied or first[1] > copied[0][1]:
                return chain((first,), frequent)
            break
        return copied

    def _most_frequent(self, text: IndexedText, history: Tokens) -> Iterator[tuple[int, float]]:
        automaton, longest = text.automaton, text.automaton.end
        if self._replies is not None and longest.length < MAX_MATCH:
            match = self._replies.longest_match(
                history[-MAX_MATCH:].tolist(), longer=longest.length
            )
            automaton, longest = match or (automaton, longest)
        return continuation(automaton, longest)


class IndexedText:
    """One sequence, indexed as far as a draft was asked for."""

    def __init__(self) -> None:
        self.automaton = Automaton()
        self._history = NONE
        self._prompt = 0
        self._copy: Alignment | None = None  # of the reply with the prompt

    def precedes(self, history: Tokens) -> bool:
        return common_prefix(self._history, history) == len(self._history)

    def grow(self, ask: Ask) -> None:
        unread = ask.history[len(self.automaton) :].tolist()
        prompt = max(ask.prompt - len(self.automaton), 0)
        self.automaton.extend(unread[:prompt])
        self.note(ask.history, ask.prompt)
        for token in unread[prompt:]:
            self.automaton.extend((token,))
            self._alignment().read(token)

    def _alignment(self) -> Alignment:
        """Return the alignment of the reply with the prompt, of which it is no copy at first."""
        if self._copy is None:
            find_places = partial(places, self.automaton, self._prompt)
            self._copy = Alignment(self._history[: self._prompt], find_places, self._prompt)
        return self._copy

    def may_resume(self, history: Tokens) -> bool:
        """Whether the reply left a copy of the prompt so few tokens ago that one brings it back."""
        left = self._copy.left if self._copy else 0
        return left > 0 and len(history) - self._prompt - left <= RESUME

    def copied(self, limit: int) -> list[tuple[int, float]]:
        """Return what follows if the reply goes on copying the prompt."""
        return self._copy.continuation(limit) if self._copy else []

    def note(self, history: Tokens, prompt: int) -> None:
        """Note how far the text has come, without indexing it."""
        self._history, self._prompt = history, prompt

    @property
    def reply(self) -> Tokens:
        """Return the reply, and the end of its prompt."""
        replied = len(self._history) > self._prompt
        return self._history[max(self._prompt - LEAD, 0) :] if replied else NONE


def places(
    automaton: Automaton,
    prompt: int,
    reply: Sequence[int],  # noqa: ARG001
    last: int,
) -> Sequence[Candidate]:
    """Find where in the prompt the longest run at the end of the text first ended."""
    run = automaton.end
    enough = NEW if last == prompt else FAR
    if run.length < enough:
        return ()
    end = automaton.first_end(run)
    return (Candidate(end, enough),) if end <= prompt else ()


def longest_run(text: Tokens) -> tuple[int, int]:
    """Find where the longest run at the end of a text ended last before, and its length.

    It takes 0.1 ms for 50,000 tokens.
    """
    end, length = 0, 0
    ends = np.flatnonzero(text[:-1] == text[-1]) + 1
    while len(ends) and length < MAX_MATCH:
        end, length = int(ends[-1]), length + 1
        ends = ends[ends > length]
        ends = ends[text[ends - 1 - length] == text[-1 - length]]
    return end, length


def recurs(text: Tokens, run: int) -> bool:
    """Whether the last so many tokens occurred before."""
    ends = np.flatnonzero(text[run - 1 : -1] == text[-1]) + run if len(text) > run else NONE
    for back in range(2, run + 1):
        if not len(ends):
            return False
        ends = ends[text[ends - back] == text[-back]]
    return len(ends) > 0


def continuation(automaton: Automaton, longest: MatchState) -> Iterator[tuple[int, float]]:
    for token, length, seen, total in automaton.steps(longest):
        yield token, confidence(length, seen, total)


def confidence(length: int, seen: int, total: int) -> float:
    """Estimate the chance that a run goes on as it did `seen` of `total` times.

    Measured on replies: 0.24 turned out 0.27, 0.50 0.53, 0.66 0.69, 0.80 0.84, 0.91 0.91.
    """
    return seen / total * (1 - 1.5 / (length + seen))


def make(pair: Pair) -> SuffixProposer:  # noqa: ARG001
    return SuffixProposer(Replies())
