"""What the textbook says that guessing should bring, from acceptance and costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from localspec.bench.reply import Round


@dataclass(frozen=True, slots=True)
class Forecast:
    chance: float | None  # of a guess that was judged; None: there was none
    tokens: float  # a round
    forward: float  # what the target takes for a round, in plain rounds
    rest: float  # what else a round takes, in plain rounds: guessing, choosing, text
    speedup: float


def tokens_a_round(chance: float, drafted: float) -> float:
    """Tokens that a round of so many guesses emits, if each is right as often as any other."""
    if chance == 1:
        return drafted + 1
    return float((1 - chance ** (drafted + 1)) / (1 - chance))


def costs(timed: Iterable[tuple[Sequence[Round], float]]) -> dict[int, float]:
    """What a forward takes by how many guesses it checks, in plain rounds: medians.

    Rounds come with the seconds of a plain round of the same prompt.
    """
    found: dict[int, list[float]] = {}
    for rounds, plain in timed:
        for each in rounds:
            found.setdefault(each.drafted, []).append(each.checking / plain)
    return {drafted: median(found[drafted]) for drafted in sorted(found)}


def forecast(rounds: Sequence[Round], plain: float, forwards: Mapping[int, float]) -> Forecast:
    """What the textbook predicts for rounds of these lengths, if a plain round takes `plain`.

        speed-up = tokens a round / time of a round
        tokens a round = mean over the rounds of (1 - a^(k+1)) / (1 - a)
        time of a round = mean over the rounds of forwards[k], and of the rest / plain

    k is how many tokens the round guessed. a is the chance that a guess is right once all before
    it were: accepted / (accepted + rounds that met a wrong guess). That is more than accepted /
    drafted, since what follows a wrong guess is drafted but never judged. The formula is taken
    for each k and then averaged: guessers often pass, and at the mean k it would promise more.

    The textbook's own time of a round, 1 + k * c, takes checking k guesses to be as cheap as
    saying one token. That is nearly true of GPUs and false of CPUs, so `forwards` is measured: by
    number of guesses, over all modes and prompts of the run. The rest is these rounds' own. What
    is assumed is then that every guess is right with the same chance whatever the others were,
    and that a forward of some width takes its usual time. Where measured and predicted differ,
    one of the two did not hold: acceptance was uneven, or the machine was.
    """
    accepted = sum(each.accepted for each in rounds)
    judged = accepted + sum(each.rejects for each in rounds)
    chance = accepted / judged if judged else 0.0
    tokens = fmean(tokens_a_round(chance, each.drafted) for each in rounds)
    forward = fmean(forwards[each.drafted] for each in rounds)
    rest = fmean(each.seconds - each.checking for each in rounds) / plain
    return Forecast(chance if judged else None, tokens, forward, rest, tokens / (forward + rest))
