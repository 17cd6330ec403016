"""Continuous batching: how many tokens each sequence feeds and drafts in a round."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from localspec.core.decoding.generation import Generation
from localspec.core.decoding.turn import Turn

# Tokens of a prompt: fewer take longer each, so the end of a round begins no more of them.
MIN_PIECE = 64
BLOCK = 16  # tokens that a processor may multiply at once: 15 take 1.3 times as long
AGEING_TOKENS = 64  # tokens that count as one step, by which each round moves a prompt forward


@dataclass(frozen=True, slots=True)
class Scheduler:
    """Replies come first, so that reading a long prompt does not hold them up.

    At a fixed depth the draft length of a sequence does not depend on its neighbours: where the
    batch has no room for it, the sequence waits.
    """

    batch: int  # most tokens in one forward
    tentative: int  # most tokens that may be drafted for one sequence
    first_drafts: bool = False  # the last piece of a prompt may carry a draft

    def plan(
        self,
        generations: Sequence[Generation],
        allowance: int | None = None,
        longest: int | None = None,
        *,
        alone: bool = True,
    ) -> list[Turn]:
        """Grant turns to as many sequences as there is room for, the longest waiting first.

        Beside replies at most `allowance` tokens of prompts are read, one prompt after the other.
        Without replies the first prompt is read as far as it goes, and others with it within the
        allowance: its first token need not wait for theirs. No draft is longer than `longest`.
        Texts that are not `alone` have their turn while others, which may be replies, wait.
        """
        longest = self.tentative if longest is None else min(longest, self.tentative)
        if alone and len(generations) == 1:
            [g] = generations
            turn = self._reading(g) if g.reads else self._turn(g, self.batch, longest)
            return [turn.at_edge(self.batch, self.batch)]
        replies = [g for g in generations if not g.reads]
        # Prompts that have waited come first, and leave the batch to the replies behind them.
        left = self.batch - sum(1 + limit(g, longest) for g in replies)
        beside = min(max(left, self.batch // 4, 1), self.batch if allowance is None else allowance)
        reading = beside if replies or not alone else self.batch
        turns: list[Turn] = []
        capacity, has_prompt = self.batch, False
        for g in in_turn(generations):
            turn = self._turn(g, piece(g, min(reading, capacity)) if g.reads else capacity, longest)
            turn = turn.at_edge(capacity, self.batch)
            is_enough = turn.emits or g.scores or turn.feed >= MIN_PIECE or not has_prompt
            if turn.feed > 0 and is_enough:
                turns.append(turn)
                capacity -= turn.feed + turn.limit
                if g.reads:
                    reading, has_prompt = min(reading, beside) - turn.feed, True
        return turns

    def _reading(self, g: Generation) -> Turn:
        """Read the prompt of the only sequence; nobody waits for the draft that ends it."""
        turn = self._turn(g, piece(g, self.batch), self.tentative)
        if g.scores or not (turn.emits and self.first_drafts):
            return turn
        return turn._replace(limit=min(limit(g, self.tentative), self.batch - turn.feed))

    def _turn(self, g: Generation, capacity: int, longest: int) -> Turn:
        pending = g.history.size - g.cached
        # Beside others, nothing is drafted while a prompt is read: it delays them.
        drafted = 0 if g.reads else limit(g, longest)
        if pending + drafted <= capacity:
            return Turn(g, pending, drafted, emits=True)
        return Turn(g, min(pending - 1, capacity), 0, emits=False)


def limit(g: Generation, longest: int) -> int:
    """Return how many tokens a sequence may draft."""
    return min(g.depth, longest, g.remaining - 1, g.sampler.affordable)


def piece(g: Generation, most: int) -> int:
    """Return how much of a prompt to read now, of at most so many tokens.

    As many as allowed; but if fewer than MIN_PIECE would be left for the last piece, which take as
    long as a longer one, this piece is shorter by whole blocks.
    """
    pending, most = g.history.size - g.cached, max(most, 0)
    if g.scores:
        return min(pending, most, g.scores)
    if 0 < pending - most < MIN_PIECE < most:
        lacking = most + MIN_PIECE - pending
        return most - -(-lacking // BLOCK) * BLOCK
    return min(pending, most)


def in_turn(generations: Sequence[Generation]) -> Iterator[Generation]:
    """Put those that waited longest first; among prompts those of which least is left to read.

    Prompts that took turns would all be late, and leave gaps between the slots of a batch. A long
    one is not put off for ever: each round that it waits moves it forward.
    """
    prompts = iter(sorted((g for g in generations if g.reads), key=left_to_read))
    for g in sorted(generations, key=lambda g: (-g.waited, g.reads)):
        yield next(prompts) if g.reads else g


def left_to_read(g: Generation) -> int:
    """Count the steps of AGEING_TOKENS that a prompt lacks, less one for each round of its age."""
    return (g.history.size - g.cached) // AGEING_TOKENS - g.age
