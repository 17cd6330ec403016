"""Texts that repeat a source, in whole or edited, as a prediction of them drafts them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import NamedTuple

import numpy as np

from localspec.core.proposers.alignment import confidence
from simulation.texts import TAKES, PlaceDraft, SimulatedText

BY = "prediction"
REACH = 512  # tokens of a draft
NOTHING = PlaceDraft((), 0)
EDITED = 3  # tokens of an edit, on average
SURE = tuple(confidence(run) for run in range(4096))


class Copy(NamedTuple):
    """A reply: how many tokens are copied, then how many are new, and so on."""

    stretches: Sequence[tuple[int, int]]
    goes_on: int = 0  # tokens of the source after the end of the reply

    def places(self) -> Iterator[PlaceDraft]:
        """Draft what the source goes on with; after an edit, from the second token that agrees."""
        left = sum(copied for copied, _ in self.stretches) + self.goes_on
        for at, (copied, new) in enumerate(self.stretches):
            for run in range(copied + (new > 0)):
                drafts = left - run if run or not at else 0
                yield PlaceDraft(SURE[run : run + min(drafts, REACH)], copied - run)
            yield from [NOTHING] * (new - 1)
            left -= copied


def copies() -> Iterator[Sequence[SimulatedText]]:
    """List texts of replies that copy 50 to 2,000 tokens, and of such with edits in them."""
    for length in (50, 150, 500, 2000):
        replies = max(2000 // length, 2)
        yield taken(f"copies of {length}", replies, partial(whole, length=length))
        yield taken(
            f"copies of {length}, cut", replies, partial(whole, length=length, goes_on=length)
        )
    for apart in (12, 40, 150):
        yield taken(f"an edit in {apart}", 4, partial(edited, apart=apart))
    yield taken("edits as in files", 4, revised)
    yield taken("quotes of 60", 2, quoted)


def taken(
    name: str,
    replies: int,
    copy: Callable[[np.random.Generator], Copy],
    takes: int = TAKES,
) -> list[SimulatedText]:
    """Take so many replies of a kind one after the other, several times."""
    return [
        one_after_another(name, [copy(np.random.default_rng([take, at])) for at in range(replies)])
        for take in range(takes)
    ]


def one_after_another(name: str, replies: Sequence[Copy]) -> SimulatedText:
    drafts = [list(reply.places()) for reply in replies]
    ends = np.cumsum([len(reply) for reply in drafts])[:-1].tolist()
    places = list(chain.from_iterable(drafts))
    return SimulatedText(name, {BY: places}, begins=ends, reach=REACH)


def whole(_rng: np.random.Generator, length: int, goes_on: int = 0) -> Copy:
    """Copy a source, or its beginning."""
    return Copy([(length, 0)], goes_on)


def quoted(_rng: np.random.Generator) -> Copy:
    """Quote pieces of a source in a text that is new."""
    return Copy([(0, 40), *[(60, 60)] * 8])


def edited(rng: np.random.Generator, apart: int, length: int = 600) -> Copy:
    """Edit a source at places that lie so many tokens apart on average."""
    lengths = 1 + rng.geometric(1 / apart, length // apart)
    return Copy([(int(copied), int(rng.poisson(EDITED - 1)) + 1) for copied in lengths], 50)


def revised(rng: np.random.Generator, length: int = 900) -> Copy:
    """Edit a source as revisions of files are: a run of any length is as likely to double."""
    stretches, left = [], length
    while left > 0:
        copied = min(int(rng.random() ** -2), left)
        stretches.append((copied, int(rng.poisson(EDITED - 1)) + 1))
        left -= copied
    return Copy(stretches, 50)
