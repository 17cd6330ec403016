"""The longest run at the end of a text that occurs in segments, and what follows it there."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from localspec.base.tokens import Tokens, common_prefix
from localspec.core.corpus.segment import GRAM, MAX_MATCH, Segment, key_of

MOST_PLACES = 32  # that are compared, the last ones


@dataclass(frozen=True, slots=True)
class Match:
    """Hold the places where the longest run ends, by segment; the last comes last."""

    length: int
    places: Sequence[tuple[Segment, int]]

    def stretch(self, before: int, after: int, vocabulary: int) -> tuple[Tokens, int]:
        """Return the text around the last place, and that place in it."""
        segment, place = self.places[-1]
        return segment.stretch(place, before, after, vocabulary)

    def steps(self, limit: int, vocabulary: int) -> Iterator[tuple[int, int, int, int]]:
        """Follow the text that most of them begin with, of those the last.

        Yield its tokens, with the length of the run before each, how often it followed that, and
        how often any did.
        """
        texts = [segment.stretch(end, 0, limit, vocabulary)[0] for segment, end in self.places]
        firsts = [int(text[0]) if len(text) else -1 for text in texts]
        counts = [(firsts.count(first), at) for at, first in enumerate(firsts) if first >= 0]
        if not counts:
            return
        chosen = texts[max(counts)[1]]
        agreed = sorted(common_prefix(chosen, text) for text in texts)
        for at, token in enumerate(chosen.tolist()):
            total, seen = (len(agreed) - bisect_left(agreed, least) for least in (at, at + 1))
            yield token, self.length + at, seen, total


def longest_match(segments: Sequence[Segment], text: Tokens) -> Match | None:
    """Find the longest run at the end of a text; None if it is shorter than GRAM.

    It takes 2 us, and 0.6 us for each segment that has no such run.
    """
    if len(text) < GRAM:
        return None
    gram = text[-GRAM:].tolist()
    key = key_of(gram)
    places = [(segment, end) for segment in segments for end in segment.ends(key, gram)]
    if not places:
        return None
    newest_first = text[-MAX_MATCH:][::-1]
    places = places[-MOST_PLACES:]
    lengths = [segment.agreement(end, newest_first) for segment, end in places]
    longest = max(lengths)
    best = [place for place, length in zip(places, lengths, strict=True) if length == longest]
    return Match(longest, best)
