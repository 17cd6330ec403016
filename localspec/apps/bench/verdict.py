"""The verdict of a run: whether drafts pay here, as far as the spread of the figures carries it.

Plain decoding answers each prompt twice, before and after the other modes. How much these two
differ shows how sure any ratio is.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from localspec.base.system.machine_load import MachineLoad

AUTO = "auto"  # as LocalSpec comes, with all that drafts
LOOKUP = "lookup"  # the same without the draft model or the head

# Student's t by degrees of freedom: how many standard errors hold the truth 19 times of 20.
STANDARD_ERRORS = (math.inf, 12.7, 4.3, 3.2, 2.8, 2.6, 2.5, 2.4, 2.3, 2.3)
MANY = 2.1  # with more
LEAST_ERROR = 0.005  # of a ratio: timers, clock rates, where a text lies in memory
UNSTEADY = 0.1  # a difference of plain decoding from itself that is worth a word
UNSURE = 0.3  # an error, in parts of the ratio, above which no verdict is given


@dataclass(frozen=True, slots=True)
class Speeds:
    """The decoding speeds of one prompt's replies, in tokens a second."""

    kind: str
    tokens: int  # of the plain reply
    before: float  # plain decoding, before the other modes
    after: float  # and once more, after them
    modes: Mapping[str, float]
    per_round: Mapping[str, float]  # tokens a round, by mode

    @property
    def plain(self) -> float:
        return math.sqrt(self.before * self.after)


@dataclass(frozen=True, slots=True)
class Ratio:
    """A ratio of speeds, and between which it lies 19 times of 20."""

    value: float
    low: float
    high: float

    @property
    def error(self) -> float:
        return (self.high - self.low) / 2

    @property
    def sure(self) -> bool:
        return self.error < UNSURE * self.value

    def __str__(self) -> str:
        return f"{self.value:.2f} ± {self.error:.2f}" if self.sure else "unsteady"


@dataclass(frozen=True, slots=True)
class Drafter:
    """The draft model or the head of a run, and how to do without it."""

    name: str  # as "this draft model"
    leave: str  # as "Omit --draft."
    least_gain: float = 1.0  # by which it is faster for sure, to be kept


def title(mode: str, drafter: Drafter | None) -> str:
    """Name a mode for a user."""
    if mode == AUTO:
        return f"with {drafter.name}" if drafter else "with drafts"
    return "by prompt lookup" if mode == LOOKUP else mode


@dataclass(frozen=True, slots=True)
class Row:
    """One kind of prompts, or all of them: plain tokens a second, and each mode against it."""

    kind: str
    prompts: int
    plain: float
    ratios: Mapping[str, Ratio]
    per_round: Mapping[str, float]  # tokens a round


@dataclass(frozen=True, slots=True)
class Verdict:
    text: str
    rows: tuple[Row, ...]  # by kind, and then all
    unsteady: float  # how much plain decoding differs from itself, typically
    load: MachineLoad
    drafter_pays: bool | None = None  # against all else; None: there is none, or it is unknown


def standard_errors(freedom: int) -> float:
    """Return how many standard errors hold the truth 19 times of 20."""
    return STANDARD_ERRORS[freedom] if freedom < len(STANDARD_ERRORS) else MANY


def judge(speeds: Sequence[Speeds], drafter: Drafter | None, load: MachineLoad) -> Verdict:
    """Judge the modes of a run by their speeds; there is at least one prompt."""
    noise = Noise.measure(speeds)
    kinds = dict.fromkeys(prompt.kind for prompt in speeds)
    parts = {kind: [prompt for prompt in speeds if prompt.kind == kind] for kind in kinds}
    rows = [row_of(kind, part, noise) for kind, part in parts.items()] if len(parts) > 1 else []
    everything, drafter_pays = row_of("all", speeds, noise), None
    if not everything.ratios:
        text = f"Plain decoding: {everything.plain:.1f} tokens/s."
    elif not any(ratio.sure for ratio in everything.ratios.values()):
        text = "This run does not show whether drafts pay."
    elif drafter and {AUTO, LOOKUP} <= everything.ratios.keys():
        gain = noise.ratio(
            [(prompt.tokens, prompt.modes[AUTO], prompt.modes[LOOKUP]) for prompt in speeds]
        )
        drafter_pays = min(gain.low, everything.ratios[AUTO].low) > drafter.least_gain
        text = _of_drafter(drafter, everything, rows, gain)
    elif AUTO in everything.ratios:
        text = _of_lookup(everything, rows)
    else:
        text = _of_fastest(everything, rows)
    caution = " ".join(cautions(noise.unsteady, load))
    text = f"{text} {caution}".strip()
    return Verdict(text, (*rows, everything), noise.unsteady, load, drafter_pays)


@dataclass(frozen=True, slots=True)
class Noise:
    """The variance of speeds that should be equal."""

    variance: float  # of the logarithm of a speed, for a reply of one token
    unsteady: float
    factor: float  # standard errors that hold the truth 19 times of 20

    @classmethod
    def measure(cls, speeds: Sequence[Speeds]) -> Noise:
        squares = [math.log(prompt.after / prompt.before) ** 2 for prompt in speeds]
        weighed = [prompt.tokens * square for prompt, square in zip(speeds, squares, strict=True)]
        variance = sum(weighed) / len(speeds) / 2
        unsteady = math.sqrt(sum(squares) / len(speeds))
        return cls(variance, unsteady, standard_errors(len(speeds)))

    def ratio(self, pairs: Sequence[tuple[int, float, float]], once: float = 2) -> Ratio:
        """Average ratios of speeds over replies of so many tokens.

        `once` is the variance of such a ratio, in that of one speed.
        """
        tokens = sum(count for count, _, _ in pairs)
        middle = sum(count * math.log(one / other) for count, one, other in pairs) / tokens
        error = math.sqrt(once * self.variance / tokens + LEAST_ERROR**2)
        reach = self.factor * error
        return Ratio(*(math.exp(middle + distance) for distance in (0, -reach, reach)))


def mean(speeds: Sequence[Speeds], rate: Callable[[Speeds], float]) -> float:
    """Average a rate of prompts as ratios are, by the tokens of their replies."""
    tokens = sum(prompt.tokens for prompt in speeds)
    return math.exp(sum(prompt.tokens * math.log(rate(prompt)) for prompt in speeds) / tokens)


def row_of(kind: str, speeds: Sequence[Speeds], noise: Noise) -> Row:
    """Put the modes of some prompts against plain decoding."""
    plain = mean(speeds, lambda prompt: prompt.plain)
    ratios = {
        # Plain decoding was measured twice, so its mean varies half as much.
        mode: noise.ratio(
            [(prompt.tokens, prompt.modes[mode], prompt.plain) for prompt in speeds], 1.5
        )
        for mode in speeds[0].modes
    }
    return Row(
        kind, len(speeds), plain, ratios, {mode: _per_round(speeds, mode) for mode in ratios}
    )


def _per_round(speeds: Sequence[Speeds], mode: str) -> float:
    """Divide the tokens of all prompts by their rounds."""
    tokens = sum(prompt.tokens for prompt in speeds)
    return tokens / sum(prompt.tokens / prompt.per_round[mode] for prompt in speeds)


def _of_lookup(everything: Row, rows: Sequence[Row]) -> str:
    ratio = everything.ratios[AUTO]
    if ratio.low > 1:
        return f"With drafts: {_times(everything, rows, AUTO)}. Keep them."
    return _of_no_gain(ratio)


def _of_no_gain(lookup: Ratio) -> str:
    if lookup.high < 1:
        return (
            f"Drafts do not pay here: LocalSpec then decodes plainly, and looking for drafts costs "
            f"{1 - lookup.value:.0%} (--proposer none does without)."
        )
    return f"Drafts make no difference here that could be measured ({lookup} times plain)."


def _of_drafter(drafter: Drafter, everything: Row, rows: Sequence[Row], gain: Ratio) -> str:
    having, lacking = everything.ratios[AUTO], everything.ratios[LOOKUP]
    if min(gain.low, having.low) > drafter.least_gain:
        times = _times(everything, rows, AUTO)
        return f"With {drafter.name}: {times}; without it {lacking.value:.2f}. Keep it."
    if gain.high >= 1:
        verb = "makes no difference" if gain.low <= 1 else "brings no gain over plain"
        claim = f"{verb} that could be measured"
        if min(gain.low, having.low) > 1:
            claim = f"is not faster by {drafter.least_gain - 1:.0%} for sure"
        return (
            f"{drafter.name[0].upper()}{drafter.name[1:]} {claim}: "
            f"{having.value:.2f} times plain with it, {lacking.value:.2f} without. {drafter.leave}"
        )
    if lacking.low > 1:
        times = _times(everything, rows, LOOKUP)
        having_it = f"With {drafter.name}: {having.value:.2f} times plain"
        return f"{having_it}; by prompt lookup alone: {times}. {drafter.leave}"
    ratio, than = (having, "") if having.high < 1 else (gain, " as without it")
    return (
        f"With {drafter.name}: {ratio.value:.2f} times as fast{than} here. {drafter.leave} "
        f"{_of_no_gain(lacking)}"
    )


def _of_fastest(everything: Row, rows: Sequence[Row]) -> str:
    mode, best = max(everything.ratios.items(), key=lambda item: item[1].value)
    if best.low > 1:
        return f"The fastest of these is {mode}: {_times(everything, rows, mode)}."
    return f"None of these is measurably faster than plain; the best is {mode}: {best} times."


def _times(everything: Row, rows: Sequence[Row], mode: str) -> str:
    """Write a ratio, the kinds of prompts that gain most and least if these differ, and tokens."""
    text = f"{everything.ratios[mode].value:.2f} times plain"
    order = sorted(rows, key=lambda row: row.ratios[mode].value)
    if order and order[0].ratios[mode].high <= order[-1].ratios[mode].low:
        ends = [f"{row.kind} {row.ratios[mode].value:.2f}" for row in (order[-1], order[0])]
        text += f" ({', '.join(ends)})"
    return f"{text}, {everything.per_round[mode]:.1f} tokens a round"


def cautions(unsteady: float, load: MachineLoad) -> Iterator[str]:
    """Say why a run is to be repeated before it is believed."""
    if load.crowded:
        yield "The machine was busy: repeat it."
    elif unsteady > UNSTEADY:
        yield f"Plain decoding itself varied by {unsteady:.0%}: repeat it."
