"""The state of one reply in its grammar: the tokens that may follow it, or a draft."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NoReturn

import numpy as np
from numpy.typing import NDArray

from localspec.base.errors import UsageError
from localspec.base.tokens import NONE, History, Logits, Tokens, tokens_of

if TYPE_CHECKING:
    from llguidance import LLMatcher

MAX_FORCED = 16  # tokens that are looked for
MAX_DRAFT = 1 << 20  # where masks take no time
MAX_PIECE = 32  # tokens of a reply that are read again at once

# Seconds of processor time, in each round and for each reply. All other replies wait meanwhile, and
# llguidance cannot be interrupted. Masks of grammars as people use them take 0.01 to 3 ms, with a
# vocabulary of 152k; those of an ambiguous one grow with the reply, without end.
MAX_SECONDS = 0.05  # a reply that needs more ends with an error
MAX_DRAFT_SECONDS = 0.015  # no more tokens are drafted than have their masks in this

# Added to eight logits for the eight bits of a byte: 0 or -inf. Looking bytes up here masks 49k
# tokens in 15 us and 152k in 60 us; choosing by a boolean mask took ten times that.
FORBIDDEN: Logits = np.where(
    np.unpackbits(np.arange(256, dtype=np.uint8)[:, None], axis=1, bitorder="little"), 0, -np.inf
).astype(np.float32)


@dataclass(frozen=True, slots=True)
class State:
    """A state of a grammar: the tokens that may follow."""

    bits: NDArray[np.uint8]  # of each token, whether it may follow
    count: int  # how many may
    over: bool  # whether nothing but the end may follow

    def allows(self, token: int) -> bool:
        return self.count > 0 and bool(self.bits[token >> 3] >> (token & 7) & 1)

    @property
    def only(self) -> int:
        """Return the one token that may follow."""
        at = int(self.bits.argmax())
        return 8 * at + int(self.bits[at]).bit_length() - 1


NOWHERE = State(np.zeros(0, np.uint8), 0, over=True)  # beyond the end, or outside of the grammar


class Constraint:
    """Follows the emitted tokens of a reply, and one draft at a time beyond them.

    Taking a token takes microseconds, computing the mask after it a hundred times that: so masks
    are computed on demand. `clock` returns the processor time of the calling thread.
    """

    def __init__(
        self,
        matcher: LLMatcher,
        size: int,
        ends: frozenset[int],
        clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._clock = clock
        self._spent = 0.0  # seconds since the last tokens were emitted
        self._pace = 0.0  # seconds that a mask took lately
        self._start = matcher
        self._matcher = matcher.deep_copy()
        self._size = size  # tokens; the next number is the matcher's own sign for the end
        self._ends = ends  # tokens that end the reply
        self._reply = History(NONE)
        self._path: list[int] = []  # tokens beyond the reply that may follow
        self._stands = 0  # how many of them the matcher has taken
        self._states: list[State | None] = [None]  # after the reply, and after each of these
        self._forced = self._find_forced()
        if self.overrun:
            raise UsageError(self.overrun)
        self._spent = 0.0

    def masked(self, logits: Logits, drafted: Sequence[int]) -> Logits:
        """Mask the logits after `drafted`: -inf for tokens that may not follow.

        Beyond the end they are left alone: tokens sampled there are not emitted.
        """
        state = self._after(drafted)
        if not state.count:
            return logits
        masked: Logits = FORBIDDEN.take(state.bits, axis=0).reshape(-1)[: len(logits)]
        masked += logits
        return masked

    @property
    def overrun(self) -> str:
        """Return the message that this round took more time than it may; empty if it did not."""
        if self._spent <= MAX_SECONDS:
            return ""
        took = f"a token took {self._spent:.2f} s of work, and {MAX_SECONDS:g} s is the limit"
        return f"{took}: write it so that a text can be read in fewer ways"

    @property
    def affordable(self) -> int:
        """Count the tokens that may be drafted: their masks take their time."""
        return int(MAX_DRAFT_SECONDS / self._pace) if self._pace else MAX_DRAFT

    def over(self, drafted: Sequence[int]) -> bool:
        """Whether nothing could follow `drafted` but the end, or it is outside of the grammar."""
        return self._after(drafted).over

    def keeps(self, drafted: Sequence[int]) -> int:
        """Count the looked-up tokens that may follow, short of one that ends the reply.

        The token after a draft is the target's own, so an end need not be drafted.
        """
        length = self._walk(drafted)
        while length and self._may_end(length) and self._state(length).over:
            length -= 1
        return length

    def forced(self, reply: Tokens) -> Tokens:
        """Return the tokens that must follow, if this is the reply."""
        return self._forced if np.array_equal(reply, self._reply.view) else NONE

    def emit(self, tokens: Sequence[int]) -> None:
        """Follow tokens of the reply."""
        before, last = tokens[:-1], tokens[-1]
        ended = last in self._ends and self._after(before).allows(last)
        outside = not ended and self._after(tokens) is NOWHERE
        if not ended and self.overrun:
            self._give_up(self.overrun)
        if outside:
            self._give_up(self._matcher.get_error().partition("\n")[0] or "no token can follow")
        self._spent = 0.0
        self._go(len(tokens) - ended)
        del self._path[: len(tokens)], self._states[: len(tokens)]
        self._stands = 0
        self._reply.extend(tokens)
        if not ended:
            self._forced = self._find_forced()

    def _give_up(self, why: str) -> NoReturn:
        raise UsageError(f"the grammar gave up after {len(self._reply)} tokens: {why}")

    def _find_forced(self) -> Tokens:
        """Find the tokens that must follow, short of one after which the reply could only end.

        Each takes a mask to be found; the same masks are used when the tokens are verified.
        """
        forced: list[int] = []
        most = min(MAX_FORCED, self.affordable)
        while len(forced) < most and (state := self._after(forced)).count == 1:
            if self.over([*forced, state.only]):  # left to the target, as in `keeps`
                break
            forced.append(state.only)
        return tokens_of(forced)

    def _after(self, drafted: Sequence[int]) -> State:
        return self._state(len(drafted)) if self._walk(drafted) == len(drafted) else NOWHERE

    def _walk(self, drafted: Sequence[int]) -> int:
        """Let the path begin with a draft; return how much of it may follow, short of the end."""
        shared = 0
        while shared < min(len(drafted), len(self._path)) and self._path[shared] == drafted[shared]:
            shared += 1
        if shared == len(drafted):
            return shared
        self._go(shared)
        del self._path[shared:], self._states[shared + 1 :]
        if self.overrun:
            return shared
        new = [*itertools.takewhile(lambda token: token not in self._ends, drafted[shared:])]
        if new:
            start = self._clock()
            del new[self._matcher.validate_tokens(new) :]
            self._spent += self._clock() - start
        self._path += new
        self._states += [None] * len(new)
        return len(self._path)

    def _go(self, length: int) -> None:
        """Move the matcher to so many tokens of the path."""
        if length < self._stands:
            self._matcher.rollback(self._stands - length)
        if self._matcher.is_error():  # the draft was too much for it; the reply alone may not be
            self._matcher = self._start.deep_copy()
            self._take([*self._reply.view.tolist(), *self._path[:length]])
        elif length > self._stands:
            self._take(self._path[self._stands : length])
        self._stands = length

    def _take(self, tokens: list[int]) -> None:
        """Let the matcher follow tokens, piece by piece as long as there is time."""
        for at in range(0, len(tokens), MAX_PIECE):
            if self.overrun:
                break
            start = self._clock()
            self._matcher.consume_tokens(tokens[at : at + MAX_PIECE])
            self._spent += self._clock() - start

    def _may_end(self, length: int) -> bool:
        self._go(length)
        return bool(self._matcher.is_accepting())

    def _state(self, length: int) -> State:
        """Return the state after so many tokens of the path."""
        state = self._states[length]
        if state is None:
            self._go(length)
            state = self._states[length] = self._compute_state()
        return state

    def _compute_state(self) -> State:
        if self.overrun:
            return NOWHERE
        words = np.zeros(self._size // 32 + 1, np.uint32)
        start = self._clock()
        self._matcher.unsafe_compute_mask_ptr(words.ctypes.data, words.nbytes)
        took = self._clock() - start
        self._spent += took
        self._pace = max(took, self._pace / 2)
        if self._matcher.is_error():
            return NOWHERE
        bits = words.view(np.uint8)
        at, bit = self._size >> 3, np.uint8(1 << (self._size & 7))
        may_end = bool(bits[at] & bit)
        bits[at] &= ~bit
        count = int(np.bitwise_count(words).sum())
        over = may_end and not count
        if may_end:
            for end in self._ends:
                bits[end >> 3] |= np.uint8(1 << (end & 7))
            count = int(np.bitwise_count(words).sum())
        return State(bits, count, over)
