"""Samples the tokens of one sequence: parameters, random numbers, grammar, bans, samplers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from localspec.base.tokens import NONE, Logits, Tokens
from localspec.core.sampling.banned import Ban
from localspec.core.sampling.chain import Chain
from localspec.core.sampling.dry import Spell
from localspec.core.sampling.parameters import Sampling
from localspec.formats.grammar.constraint import Constraint
from localspec.formats.thought.budget import ThoughtBudget
from localspec.interfaces.backend import MAX_TENTATIVE
from localspec.interfaces.dice import Dice
from localspec.interfaces.distribution import Distribution
from localspec.interfaces.logit_shift import LogitShift

NO_LIMIT = 1 << 20


def unspelled(_: int) -> bytes:
    """Spell no token: for texts without DRY."""
    return b""


@dataclass(frozen=True, slots=True)
class SamplerParts:
    """The parts of a sampler that few replies need.

    constraint, ban, thought: forbid tokens
    ends, min_tokens: tokens that end the reply, and how many come before any of them
    spell: spells tokens, for DRY
    """

    constraint: Constraint | None = None
    ban: Ban | None = None
    thought: ThoughtBudget | None = None
    ends: frozenset[int] = frozenset()
    min_tokens: int = 0
    spell: Spell = unspelled


NO_PARTS = SamplerParts()


class Sampler:
    """The parameters, random numbers and masks of one sequence, and the tokens it has so far."""

    def __init__(
        self, sampling: Sampling, seed: int, prompt: Tokens, parts: SamplerParts = NO_PARTS
    ) -> None:
        self.sampling = sampling
        self.dice = Dice(seed)
        self.constraint, self._ban = parts.constraint, parts.ban
        self._thought = parts.thought  # None: there is no budget, or no thought any more
        self._ends, self._unended = np.array(sorted(parts.ends), np.int64), parts.min_tokens
        self.thoughts_cut = 0  # thoughts that were ended by their budget
        self.chain = Chain(sampling, prompt, parts.spell, self.dice.coin)
        self._shifts = bool(sampling.steps.shifts) or bool(sampling.bias)
        forbids = self.constraint is not None or self._ban is not None
        self._adjusts = self._shifts or forbids or not sampling.steps.pure
        self._bias_ids = np.array(sorted(sampling.bias), np.int64)
        self._bias = np.array([sampling.bias[t] for t in sorted(sampling.bias)], np.float32)

    def emit(self, tokens: Sequence[int]) -> None:
        """Note tokens of the reply."""
        self.chain.emit(tokens)
        self._unended = max(self._unended - len(tokens), 0)
        if self.constraint:
            self.constraint.emit(tokens)
        if self._ban:  # the end of a thought is not the model's choice
            self._ban.emit(tokens, self._thought.closing_places(tokens) if self._thought else ())
        if self._thought:
            self._thought.emit(tokens)
            self.thoughts_cut = self._thought.cuts
            if self._thought.over:
                self._thought = None

    @property
    def adjusts(self) -> bool:
        """Whether distributions may need more than the logits."""
        return self._adjusts or self._thought is not None or self._unended > 0

    @property
    def unadjusted(self) -> int:
        """Count the next tokens, at least, whose distributions need no more than the logits."""
        return 0 if self._adjusts or self._unended else self.unforced

    @property
    def unforced(self) -> int:
        """Count the next tokens, at least, that no grammar and no end of a thought may force."""
        if self.constraint:
            return 0
        return self._thought.slack if self._thought else NO_LIMIT

    @property
    def is_foreseen(self) -> bool:
        """Whether an engine can foresee the next distributions, for as long as a draft may be."""
        steps = self.sampling.steps
        return self.unforced > MAX_TENTATIVE and steps.simple and "dry" not in steps.shifts

    def shift(self, drafted: Sequence[int] = (), more: int = 0) -> LogitShift | None:
        """Return how logits are changed after `drafted` and so many tokens that follow it."""
        unended = len(drafted) + more < self._unended
        if not (self._shifts or self._ban or unended):
            return None
        forbidden = [self._ban.forbidden(drafted)] if self._ban and not more else []
        if unended:
            forbidden.append(self._ends)
        banned = np.concatenate((*forbidden, NONE)).astype(np.int64)
        ids = np.concatenate((banned, self._bias_ids))
        bias = np.concatenate((np.full(len(banned), -np.inf, np.float32), self._bias))
        if not self.chain.penalties:
            return LogitShift(ids, bias)
        seen, counts = self.chain.penalties.seen(drafted, more)
        s = self.sampling
        factors = s.repetition, s.presence, s.frequency
        return LogitShift(ids, bias, seen, counts, *factors, s.penalty_window)

    @property
    def is_constrained(self) -> bool:
        """Whether a grammar chooses which tokens may follow."""
        return self.constraint is not None

    @property
    def forces(self) -> bool:
        """Whether there may be tokens that must follow."""
        return self.constraint is not None or self._thought is not None

    def forced(self, reply: Tokens) -> Tokens:
        """Return the tokens that must follow, if this is the reply."""
        closing = self._thought.forced(reply) if self._thought else NONE
        if len(closing) or not self.constraint:
            return closing
        return self.constraint.forced(reply)

    @property
    def affordable(self) -> int:
        """Count the tokens that its grammar leaves the time to draft."""
        return self.constraint.affordable if self.constraint else NO_LIMIT

    def over(self, drafted: Sequence[int]) -> bool:
        """Whether its grammar leaves nothing but the end after `drafted`."""
        return self.constraint is not None and self.constraint.over(drafted)

    def distribution(self, logits: Logits, drafted: Sequence[int] = ()) -> Distribution:
        """Return the distribution of the target's next token after `drafted`.

        It is asked for after each number of draft tokens in turn: some samplers have a state.
        """
        return self.chain.distribution(self.adjusted(logits, drafted), drafted, judges=True)

    def draw(self, logits: Logits, position: int) -> int:
        """Draw the next token; refuse one that completes a banned string before it is emitted."""
        token = self.distribution(logits).draw(self.dice, position)
        if self._ban and not (self._thought and self._thought.closing_places((token,))):
            self._ban.require_open(token)
        return token

    @property
    def is_simple(self) -> bool:
        """Whether likely tokens need none of the others to be told apart."""
        return self.sampling.steps.simple

    def adjusted(self, logits: Logits, drafted: Sequence[int]) -> Logits:
        """Return logits with bias and penalties, -inf for tokens which may not follow `drafted`."""
        logits = self._masked(logits, drafted)
        if self._shifts:
            logits = logits.copy()
            logits[self._bias_ids] += self._bias
            self.chain.shift(logits, drafted)
        return logits

    def _masked(self, logits: Logits, drafted: Sequence[int]) -> Logits:
        """Mask the logits: -inf for tokens that its grammar or a ban forbids after `drafted`.

        The end of a thought follows whatever else is asked for: grammars let thoughts end anywhere.
        """
        if self._thought:
            if (token := self._thought.certain(drafted)) is not None:
                return only(token, logits)
            logits = self._thought.masked(logits, drafted)
        if self.constraint:
            logits = self.constraint.masked(logits, drafted)
        if self._ban:
            logits = self._ban.masked(logits, drafted)
        return self._unending(logits) if len(drafted) < self._unended else logits

    def _unending(self, logits: Logits) -> Logits:
        """Mask the tokens that end the reply; none, if no other token is left."""
        masked = logits.copy()
        masked[self._ends] = -np.inf
        return masked if masked.max() > -np.inf else logits

    def draft_distribution(self, logits: Logits, drafted: Sequence[int]) -> Distribution:
        """Return the distribution to draft from that follows from a proposer's adjusted logits."""
        return self.chain.distribution(logits, drafted, judges=False)


def only(token: int, logits: Logits) -> Logits:
    """Mask all logits but that of one token."""
    masked = np.full_like(logits, -np.inf)
    masked[token] = 0.0
    return masked
