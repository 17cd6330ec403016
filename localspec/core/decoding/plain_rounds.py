"""Rounds without drafts: a token for each text, several rounds in a row while no draft is expected.

A forward evicts our code and data from the processor's caches. Work between two forwards then takes
ten times as long as in a loop of its own: 0.3 to 0.6 ms beside 9 ms for a token (SmolLM2-135M in
Q8_0 on two cores). So nothing but sampling happens between these.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from localspec.base.tokens import Logits, best
from localspec.core.decoding.generation import Generation
from localspec.core.decoding.turn import Outcome, Turn
from localspec.interfaces.abilities import MultiStep
from localspec.interfaces.backend import Model, Next, Row
from localspec.interfaces.draft import EMPTY, Draft
from localspec.interfaces.proposer import ALWAYS_QUIET, Proposer, Quiet, quiet_of

Hurried = Callable[[], bool]  # whether something waits that cannot wait for long
SampleToken = Callable[[Logits], int]


def are_plain(turns: Sequence[Turn], drafts: Sequence[Draft]) -> bool:
    """Whether each turn has no draft, and samples a token that nothing forces."""
    for turn, draft in zip(turns, drafts, strict=True):
        g = turn.generation
        if not turn.emits or len(draft.tokens) or turn.scored:
            return False
        if not g.sampler.unforced or g.reports:
            return False
    return True


def token_sampler(g: Generation) -> SampleToken:
    """Return a function that samples the next token of a text by logits."""
    sampler, history = g.sampler, g.history
    if sampler.sampling.greedy and sampler.unadjusted:
        return best
    return lambda logits: sampler.draw(logits, history.size)


def plain_step(
    generations: Sequence[Generation], samplers: Sequence[SampleToken], logits: Sequence[Logits]
) -> list[int]:
    """Emit a token of each text that was fed whole: of all, or after an error of none."""
    tokens = [sample(row) for sample, row in zip(samplers, logits, strict=True)]
    pieces = [g.spell(token) for g, token in zip(generations, tokens, strict=True)]
    for g, token, piece in zip(generations, tokens, pieces, strict=True):
        g.cached = g.history.size
        g.append(token, piece)
    return tokens


class PlainRounds:
    """Runs rounds whose turns are all plain (`are_plain`)."""

    def __init__(self, target: Model, proposer: Proposer) -> None:
        self._target = target
        self._multi_step = target.multi_step if isinstance(target, MultiStep) else None
        self._quiet = quiet_of(proposer)

    def run(self, turns: Sequence[Turn], most: int, hurried: Hurried) -> list[Outcome]:
        """Run up to `most` rounds, of which the first has these turns; none if that one fails.

        A round that reads more than the newest tokens stays alone. They end early where a text
        ends, a draft may be expected or something waits, and where something is wrong: the next
        round meets the error again, and fails those that it concerns.
        """
        newest_alone = all(turn.feed == 1 for turn in turns)
        unforced = min(turn.generation.sampler.unforced for turn in turns)
        most = min(most, unforced) if newest_alone else 1
        quiets = [self._quiet(t.ask()) if t.generation.depth else ALWAYS_QUIET for t in turns]
        steps = Steps(turns, quiets, most, hurried)
        try:
            able = newest_alone and self._multi_step and self._target.head is None
            newest = [int(turn.generation.tokens[-1]) for turn in turns] if able else []
            if self._multi_step and newest and min(newest) >= 0:  # else a picture ends a prompt
                self._multi_step([turn.slot for turn in turns], newest, steps.choose)
            else:
                while steps.choose([rows[0] for rows in self._target.forward(steps.rows())]):
                    pass
        except Exception:
            for g in steps.generations:
                g.cached = self._target.truncate(g.slot, g.cached)
        return steps.outcomes()


class Steps:
    """Plain steps in a row, and how many there were."""

    def __init__(
        self, turns: Sequence[Turn], quiets: Sequence[Quiet], most: int, hurried: Hurried
    ) -> None:
        self.generations = [turn.generation for turn in turns]
        self._turns, self._quiets = turns, quiets
        pairs = zip(self.generations, quiets, strict=True)
        self._may_draft = [(g, quiet) for g, quiet in pairs if quiet is not ALWAYS_QUIET]
        self._most, self._hurried = most, hurried
        self._samplers = [token_sampler(g) for g in self.generations]
        self._logits: Sequence[Logits] = ()
        self._done = 0

    def rows(self) -> list[Row]:
        """Return the rows of the next round; those of quiet texts say how their tokens are sampled.

        So an engine may begin on these before it is asked.
        """
        pairs = zip(self.generations, self._quiets, strict=True)
        return [Row(g.slot, g.tokens[g.cached :], next=following(g, quiet)) for g, quiet in pairs]

    def choose(self, logits: Sequence[Logits]) -> list[int] | None:
        """Emit a token of each text, and return them; None if there is to be no further round."""
        tokens = plain_step(self.generations, self._samplers, logits)
        self._logits = logits
        self._done += 1
        if self._done == self._most or self._hurried():
            return None
        for g in self.generations:
            if g.finish:
                return None
        for g, quiet in self._may_draft:
            if quiet.is_over(self._done, g.tokens):
                return None
        return tokens

    def outcomes(self) -> list[Outcome]:
        """Return what the steps did with each text; nothing if there was none."""
        done, pairs = self._done, zip(self._turns, self._logits, strict=False)
        return [Outcome(turn, EMPTY, logits[None], done, 0, done) for turn, logits in pairs]


def following(g: Generation, quiet: Quiet) -> Next | None:
    """Return how the token after the fed one is chosen, if it is likely to be fed alone."""
    alone = g.remaining > 1 and (quiet.rounds > 1 or quiet.until)
    return Next(g.sampler, g.history.size) if alone and g.sampler.is_foreseen else None
