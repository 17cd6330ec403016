"""Figures from replies: by category and in total, each mode against plain decoding."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import median

import numpy as np

from localspec.apps.bench.modes import AGAIN, PLAIN
from localspec.apps.bench.reply import MeasuredReply, Round, speed
from localspec.apps.bench.theory import Forecast, costs, forecast
from localspec.apps.bench.verdict import Speeds

ALL = "all"
Trial = Mapping[str, MeasuredReply]  # one prompt's replies, by mode


@dataclass(frozen=True, slots=True)
class Summary:
    """One mode over some trials. Rounds and tokens are those after the first of each reply."""

    mode: str
    tokens_per_second: float | None
    ratios: tuple[float, ...]  # of decoding speed to plain's, one a trial
    ratio: float | None  # their median
    speedup: float | None  # of all tokens in all their time
    first_token: float | None  # seconds, median of the replies that read their whole prompt
    between_tokens: tuple[float, float, float] | None  # seconds: p50, p95, p99
    drafted: float  # a round
    accepted: float  # a round
    tokens: float  # a round
    acceptance_rate: float | None  # accepted of drafted
    acceptance_by_position: tuple[float, ...]
    taken_back: int
    same_text: int  # replies with the text of plain decoding
    replies: int
    forecast: Forecast | None
    joules: float | None = None  # a token; None where nothing counts them


@dataclass(frozen=True, slots=True)
class Section:
    """All modes over one category, or over several."""

    title: str
    trials: int
    looping: tuple[str, ...]  # prompts that some mode answered in a loop
    summaries: tuple[Summary, ...]


def trials(replies: Sequence[MeasuredReply], modes: Sequence[str]) -> list[Trial]:
    """Group replies to the same prompt in the same repeat; drop groups that some modes lack."""
    groups: dict[tuple[str, int], dict[str, MeasuredReply]] = {}
    for reply in replies:
        groups.setdefault((reply.prompt.name, reply.repeat), {})[reply.mode] = reply
    return [trial for trial in groups.values() if trial.keys() == set(modes)]


def speeds(trials: Sequence[Trial]) -> list[Speeds]:
    """List the decoding speeds prompt by prompt, without replies that loop if there are others."""
    sound = [trial for trial in trials if not loops(trial)] or trials
    return [measured for trial in sound if (measured := _speeds(trial))]


def _speeds(trial: Trial) -> Speeds | None:
    """The speeds of a prompt; None where a reply has a single token, and so none."""
    measured = {mode: reply.tokens_per_second for mode, reply in trial.items()}
    rates = {mode: rate for mode, rate in measured.items() if rate}
    if len(rates) < len(trial):
        return None
    before = rates.pop(PLAIN)
    after = rates.pop(AGAIN)
    plain = trial[PLAIN]
    per_round = {mode: mean_emitted(trial[mode].decoding) for mode in rates}
    return Speeds(plain.prompt.category, len(plain.tokens), before, after, rates, per_round)


def _plain(trial: Trial) -> list[MeasuredReply]:
    return [trial[mode] for mode in (PLAIN, AGAIN) if mode in trial]


def forwards(trials: Sequence[Trial]) -> dict[int, float]:
    """Measure the time of a forward by draft tokens verified, in plain rounds."""
    return costs(
        (decoding(list(trial.values())), median(r.seconds for r in trial[PLAIN].decoding))
        for trial in trials
        if trial[PLAIN].decoding
    )


def sections(trials: Sequence[Trial], modes: Sequence[str]) -> list[Section]:
    """Make a section a category, one for all, and one without replies that loop if any does."""
    if not trials:
        return []
    categories = dict.fromkeys(trial[PLAIN].prompt.category for trial in trials)
    parts: list[tuple[str, Sequence[Trial]]] = [
        (name, [t for t in trials if t[PLAIN].prompt.category == name]) for name in categories
    ]
    if len(parts) == 1:  # which is all
        parts.clear()
    parts.append((ALL, trials))
    sound = [trial for trial in trials if not loops(trial)]
    if 0 < len(sound) < len(trials):
        parts.append((f"{ALL} without loops", sound))
    usual = forwards(trials)
    return [_section(title, part, modes, usual) for title, part in parts]


def total(sections: Sequence[Section]) -> Section:
    """The section of all trials."""
    return next(section for section in reversed(sections) if section.title == ALL)


def loops(trial: Trial) -> bool:
    """Return whether any mode answered in a loop, which drafts make fast without being of use."""
    return any(reply.looping for reply in trial.values())


def _section(
    title: str, trials: Sequence[Trial], modes: Sequence[str], usual: Mapping[int, float]
) -> Section:
    looping = dict.fromkeys(trial[PLAIN].prompt.name for trial in trials if loops(trial))
    summaries = tuple(summarise(mode, trials, usual) for mode in modes)
    return Section(title, len(trials), tuple(looping), summaries)


def summarise(mode: str, trials: Sequence[Trial], usual: Mapping[int, float]) -> Summary:
    """Summarise one mode; `usual` is the time of forwards by draft tokens verified."""
    replies = [trial[mode] for trial in trials]
    rounds = decoding(replies)
    plain = decoding([reply for trial in trials for reply in _plain(trial)])
    firsts = [reply.first_token for reply in replies if not reply.cached_tokens]
    own, plain_speed = speed(rounds), speed(plain)
    ratios = tuple(_ratios(mode, trials))
    drafted, accepted = sum(r.drafted for r in rounds), sum(r.accepted for r in rounds)
    return Summary(
        mode=mode,
        tokens_per_second=own,
        ratios=ratios,
        ratio=median(ratios) if ratios else None,
        speedup=own / plain_speed if own and plain_speed else None,
        first_token=median(firsts) if firsts else None,
        between_tokens=_between(rounds),
        drafted=drafted / max(len(rounds), 1),
        accepted=accepted / max(len(rounds), 1),
        tokens=mean_emitted(rounds),
        acceptance_rate=accepted / drafted if drafted else None,
        acceptance_by_position=tuple(_by_position(rounds)),
        taken_back=drafted - accepted,
        same_text=sum(trial[mode].tokens == trial[PLAIN].tokens for trial in trials),
        replies=len(replies),
        forecast=(
            forecast(rounds, median(r.seconds for r in plain), usual) if rounds and plain else None
        ),
        joules=joules_per_token(replies),
    )


def joules_per_token(replies: Sequence[MeasuredReply]) -> float | None:
    """Divide the energy of replies among the tokens after their first round."""
    counted = [(reply.joules, reply.decoding) for reply in replies if reply.joules is not None]
    tokens = sum(round_.emitted for _, rounds in counted for round_ in rounds)
    return sum(joules for joules, _ in counted) / tokens if tokens else None


def mean_emitted(rounds: Sequence[Round]) -> float:
    return sum(round_.emitted for round_ in rounds) / max(len(rounds), 1)


def decoding(replies: Sequence[MeasuredReply]) -> tuple[Round, ...]:
    return tuple(chain.from_iterable(reply.decoding for reply in replies))


def _ratios(mode: str, trials: Sequence[Trial]) -> Iterator[float]:
    for trial in trials:
        own, plain = trial[mode].tokens_per_second, speed(decoding(_plain(trial)))
        if own and plain:
            yield own / plain


def _between(rounds: Sequence[Round]) -> tuple[float, float, float] | None:
    """Share the time of a round among the tokens that it brought."""
    shares = [round_.seconds / round_.emitted for round_ in rounds for _ in range(round_.emitted)]
    if not shares:
        return None
    p50, p95, p99 = np.percentile(shares, [50, 95, 99]).tolist()
    return p50, p95, p99


def _by_position(rounds: Sequence[Round]) -> Iterator[float]:
    """Compute the acceptance rate by position, over the drafts that reach it."""
    for at in range(max((round_.drafted for round_ in rounds), default=0)):
        had = [round_ for round_ in rounds if round_.drafted > at]
        yield sum(round_.accepted > at for round_ in had) / len(had)
