"""The textbook's prediction of the speed-up, from acceptance rates and costs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean, median

from localspec.apps.bench.reply import Round


@dataclass(frozen=True, slots=True)
class Forecast:
    chance: float | None  # of a draft token that was judged; None: there was none
    tokens: float  # a round
    forward: float  # what the target takes for a round, in plain rounds
    rest: float  # what else a round takes, in plain rounds: drafting, sampling, text
    speedup: float


def tokens_a_round(chance: float, drafted: float) -> float:
    """Compute how many tokens a round emits, if each draft token is right with the same chance."""
    if chance == 1:
        return drafted + 1
    return float((1 - chance ** (drafted + 1)) / (1 - chance))


def chance(rounds: Sequence[Round]) -> float | None:
    """Measure how often a draft token is right if all before it were; None if none was judged."""
    accepted = sum(round_.accepted for round_ in rounds)
    judged = accepted + sum(round_.rejects for round_ in rounds)
    return accepted / judged if judged else None


def costs(timed: Iterable[tuple[Sequence[Round], float]]) -> dict[int, float]:
    """Measure forwards by draft tokens verified, in plain rounds: medians.

    Rounds come with the seconds of a plain round of the same prompt.
    """
    ratios: dict[int, list[float]] = {}
    for rounds, plain in timed:
        for round_ in rounds:
            ratios.setdefault(round_.drafted, []).append(round_.checking / plain)
    return {drafted: median(ratios[drafted]) for drafted in sorted(ratios)}


def forecast(rounds: Sequence[Round], plain: float, forwards: Mapping[int, float]) -> Forecast:
    """Predict the speed-up of rounds of these lengths, if a plain round takes `plain`.

        speed-up = tokens a round / time of a round
        tokens a round = mean over the rounds of (1 - a^(k+1)) / (1 - a)
        time of a round = mean over the rounds of forwards[k], and of the rest / plain

    k is how many tokens the round drafted. a is the chance that one is right once all before
    it were: accepted / (accepted + rounds with a rejected token). That is more than accepted /
    drafted, since what follows a rejected token is drafted but never judged. The formula is taken
    for each k and then averaged: proposers often pass, and at the mean k it would promise more.

    The textbook's own time of a round, 1 + k * c, takes verifying k tokens to be as cheap as
    generating one. That is nearly true of GPUs and false of CPUs, so `forwards` is measured: by
    draft length, over all modes and prompts of the run. The rest is these rounds' own. The formula
    then assumes that every draft token is right with the same chance, and that a forward of some
    width takes its usual time. Where measured and predicted differ, one of the two did not hold:
    acceptance was uneven, or the machine was.
    """
    right = chance(rounds)
    tokens = fmean(tokens_a_round(right or 0.0, round_.drafted) for round_ in rounds)
    forward = fmean(forwards[round_.drafted] for round_ in rounds)
    overhead = fmean(round_.seconds - round_.checking for round_ in rounds) / plain
    return Forecast(right, tokens, forward, overhead, tokens / (forward + overhead))
