"""Several drafters of one model: which is fastest, by how much, and whether texts stay equal.

Each is loaded in turn, so that memory for one is enough. All answer the same prompts, each beside
plain decoding of its own: so a machine that gets slower meanwhile favours none.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import fill

from localspec.apps.bench.modes import PLAIN
from localspec.apps.bench.report import WIDTH, Report
from localspec.apps.bench.summary import Trial, loops, speeds
from localspec.apps.bench.verdict import AUTO, Noise, Ratio, Speeds, cautions, row_of
from localspec.console.columns import columns
from localspec.running.runtime.pair_files import NO_DRAFT

Key = tuple[str, int]  # a prompt's name, and the repeat


@dataclass(frozen=True, slots=True)
class Standing:
    """One drafter against plain decoding."""

    name: str
    ratio: Ratio
    per_round: float
    same: int  # replies with the text of plain decoding
    replies: int


@dataclass(frozen=True, slots=True)
class Ranking:
    """All drafters, the fastest first; `chosen` is to draft from now on, if that is sure."""

    standings: tuple[Standing, ...]
    chosen: Standing | None
    text: str

    def __str__(self) -> str:
        lines = [
            ["", "times plain", "tokens a round", "texts of plain"],
            *(
                [
                    title(standing.name),
                    str(standing.ratio),
                    f"{standing.per_round:.1f}",
                    f"{standing.same}/{standing.replies}",
                ]
                for standing in self.standings
            ),
        ]
        return f"{fill(self.text, WIDTH)}\n\n{columns(lines, numbers=True)}"


def title(name: str) -> str:
    return "no draft model" if name == NO_DRAFT else name


def rank(reports: Mapping[str, Report]) -> Ranking:
    """Rank drafters by the prompts that all of them answered; without one nothing is chosen."""
    trials = common_trials({name: report.trials for name, report in reports.items()})
    if not trials:
        return Ranking((), None, "No prompt was answered with all of them: give it more --seconds.")
    measured = {name: [speeds([trial])[0] for trial in some] for name, some in trials.items()}
    noise = Noise.measure([speed for some in measured.values() for speed in some])
    standings = sorted(
        (_standing(name, some, measured[name], noise) for name, some in trials.items()),
        key=lambda standing: -standing.ratio.value,
    )
    loads = [report.outcome.load for report in reports.values()]
    worst = max(loads, key=lambda load: load.others)
    doubts = list(cautions(noise.unsteady, worst))
    if not all(standing.ratio.sure for standing in standings):
        doubts.insert(0, "This run does not show which is fastest.")
        return Ranking(tuple(standings), None, " ".join(doubts))
    chosen, text = _judge(standings, measured, noise)
    same = all(standing.same == standing.replies for standing in standings)
    texts = "All texts are those of plain decoding." if same else "Some texts differ at near-ties."
    return Ranking(tuple(standings), None if doubts else chosen, " ".join((text, texts, *doubts)))


def common_trials(trials: Mapping[str, Sequence[Trial]]) -> dict[str, list[Trial]]:
    """Keep the prompts that all answered with speeds, those without a loop if there are any."""
    by_key = {name: {_key(trial): trial for trial in some} for name, some in trials.items()}
    keys = [
        key
        for key in next(iter(by_key.values()))
        if all(key in some and speeds([some[key]]) for some in by_key.values())
    ]
    sound = [key for key in keys if not any(loops(some[key]) for some in by_key.values())] or keys
    return {name: [some[key] for key in sound] for name, some in by_key.items()} if sound else {}


def _key(trial: Trial) -> Key:
    return trial[PLAIN].prompt.name, trial[PLAIN].repeat


def _standing(
    name: str, trials: Sequence[Trial], measured: Sequence[Speeds], noise: Noise
) -> Standing:
    all_prompts = row_of(name, measured, noise)
    same = sum(trial[AUTO].tokens == trial[PLAIN].tokens for trial in trials)
    ratio, per_round = all_prompts.ratios[AUTO], all_prompts.per_round[AUTO]
    return Standing(name, ratio, per_round, same, len(trials))


def _judge(
    standings: Sequence[Standing], measured: Mapping[str, Sequence[Speeds]], noise: Noise
) -> tuple[Standing | None, str]:
    """Choose the fastest; what is not measurably faster than no draft model is not worth one."""
    first, *others = standings

    def gain(other: Standing) -> Ratio:
        pairs = zip(measured[first.name], measured[other.name], strict=True)
        return noise.ratio(
            [
                (one.tokens, one.modes[AUTO] / one.plain, two.modes[AUTO] / two.plain)
                for one, two in pairs
            ],
            once=3,  # 1.5 of each of two: a run beside the mean of two plain ones
        )

    without = next((standing for standing in others if standing.name == NO_DRAFT), None)
    if without and gain(without).low <= 1:
        return without, (
            f"{title(first.name)} is not measurably faster than no draft model "
            f"({gain(without)} times): go without."
        )
    if first.name != NO_DRAFT and first.ratio.low <= 1:
        return None, f"None is measurably faster than plain; the best is {first.name}."
    by = f"{gain(others[0])} times as fast as {title(others[0].name)}"
    return first, f"The fastest is {title(first.name)}: {first.ratio.value:.2f} times plain, {by}."
