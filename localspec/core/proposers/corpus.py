"""Look-up in a corpus: drafts what follows the longest run at the end of a text in other texts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial

from localspec.base.tokens import NONE, Tokens, common_prefix
from localspec.core.corpus.corpus import Corpus
from localspec.core.corpus.match import Match
from localspec.core.proposers.alignment import SURE, Alignment
from localspec.core.proposers.draft_while_likely import draft_of
from localspec.core.proposers.prediction import places
from localspec.core.proposers.suffix import FLOOR, NEW, confidence
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import ALWAYS_QUIET, Ask, Quiet

BY = "corpus"
BEFORE, AFTER = 64, 4096  # tokens of a text around a place that are followed
LOST = 64  # tokens of a reply that agree with nothing, after which a text is not followed


class CorpusProposer:
    """Goes on like the longest run in the corpus; a long one is followed through edits.

    A draft depends on its ask and the corpus alone.
    """

    def __init__(self, corpus: Corpus, floor: float = FLOOR) -> None:
        self._corpus, self._floor = corpus, floor
        self._replies: dict[int, FollowedReply] = {}

    def propose(self, asks: Sequence[Ask]) -> list[Draft]:
        return [self._look_up(ask) for ask in asks]

    def release(self, slot: int) -> None:
        self._replies.pop(slot, None)

    def quiet(self, ask: Ask) -> Quiet:
        """Return until when nothing recurs."""
        return Quiet(0, partial(self._recurs, ask.slot)) if self._corpus.segments else ALWAYS_QUIET

    def _recurs(self, slot: int, history: Tokens) -> bool:
        reply = self._replies.get(slot)
        if reply is None:
            return True
        reply.read(history)
        return reply.recurs

    def _look_up(self, ask: Ask) -> Draft:
        if not self._corpus.segments:
            return EMPTY
        if ask.begins:
            match = self._corpus.longest_match(ask.history)
            sure = match if match and match.length >= NEW else None
            return draft_of(steps(sure, ask.limit, self._corpus), ask, self._floor, BY)
        reply = self._replies.get(ask.slot)
        if reply is None or not reply.precedes(ask.history):
            reply = self._replies[ask.slot] = FollowedReply(self._corpus, ask.prompt)
        reply.read(ask.history)
        return draft_of(reply.continuation(ask.limit), ask, self._floor, BY)


class FollowedReply:
    """One reply, looked up token by token, or followed through a text that it repeats."""

    def __init__(self, corpus: Corpus, prompt: int) -> None:
        self._corpus = corpus
        self._read = prompt
        self._history = NONE
        self._match: Match | None = None  # of the reply's end, where no text is followed for sure
        self._alignment: Alignment | None = None
        self._aligned = 0  # tokens read since then

    def precedes(self, history: Tokens) -> bool:
        return common_prefix(self._history, history) == len(self._history)

    def read(self, history: Tokens) -> None:
        if not len(self._history):
            self._seek(history[: self._read])
        for end in range(self._read + 1, len(history) + 1):
            self._step(history[:end])
        self._history, self._read = history, len(history)

    def _step(self, history: Tokens) -> None:
        if self._alignment:
            self._alignment.read(int(history[-1]))
            self._aligned += 1
            if self._aligned - self._alignment.left > LOST:
                self._alignment = None
        if self._alignment is None or self._alignment.run < SURE:
            self._seek(history)
        else:
            self._match = None

    def _seek(self, history: Tokens) -> None:
        """Look the end of a text up; begin to follow another text that agrees with much of it."""
        self._match = self._corpus.longest_match(history)
        if self._match and self._match.length >= NEW:
            text, place = self._match.stretch(BEFORE, AFTER, self._corpus.vocabulary)
            self._alignment = Alignment(text, partial(places, text), place)
            self._alignment.run, self._aligned = self._match.length, 0

    @property
    def recurs(self) -> bool:
        """Whether its end occurs in the corpus, or in the text that it follows."""
        return self._match is not None or bool(self._alignment and self._alignment.run)

    def continuation(self, limit: int) -> Iterable[tuple[int, float]]:
        """Return what is likely to follow."""
        follows = self._match is None or self._match.length >= NEW
        if self._alignment and follows:
            return self._alignment.continuation(limit) if self._alignment.run else ()
        return steps(self._match, limit, self._corpus)


def steps(match: Match | None, limit: int, corpus: Corpus) -> Iterator[tuple[int, float]]:
    """Go on like a match, if there is one."""
    for token, length, seen, total in match.steps(limit, corpus.vocabulary) if match else ():
        yield token, confidence(length, seen, total)
