"""The numbers that sampling takes, in one table: their bounds, and the names they are set by."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING

from localspec.errors import UsageError

if TYPE_CHECKING:
    from localspec.sampling.parameters import Sampling

MAX_COUNT = 1 << 31


def check(name: str, value: object, low: float, high: float, *, whole: bool = False) -> None:
    """Refuse a value that is no number, or out of bounds."""
    if not isinstance(value, Integral if whole else Real) or isinstance(value, bool):
        kind = "a whole number" if whole else "a number"
        raise UsageError(f"{name} is {value!r}; it must be {kind} from {low:g} to {high:g}")
    number = float(value)
    if not low <= number <= high:
        raise UsageError(f"{name} is {number:g}; it must be at least {low:g} and at most {high:g}")


@dataclass(frozen=True, slots=True)
class Parameter:
    """A number of `Sampling`: its bounds, and the names by which it is set."""

    field: str  # of `Sampling`; with hyphens, its key in the catalogue
    sampler: str  # that must be listed if any are; empty: none must
    names: tuple[str, ...]  # in requests; the first is the command line's, the last llama.cpp's
    low: float
    high: float
    about: str  # within 50 characters
    get: Callable[[Sampling], float]
    put: Callable[[Sampling, float], Sampling]
    aliases: tuple[str, ...] = ()  # in requests, of other servers
    whole: bool = False
    least: float | None = None  # that requests may say for `low`
    off: float | None = None  # that requests may say for `neutral`
    sensible: tuple[float, float] | None = None  # the bounds for people, where they are narrower

    @property
    def key(self) -> str:
        return self.field.replace("_", "-")

    @property
    def option(self) -> str:
        return self.names[0].replace("_", "-")

    def check(self, value: float) -> None:
        check(self.field, value, self.low, self.high, whole=self.whole)

    def choose(self, sampling: Sampling, value: float) -> Sampling:
        """Set a value that a person typed."""
        check(self.option, value, *(self.sensible or (self.low, self.high)))
        return self.put(sampling, value)


PARAMETERS = (
    Parameter(
        "temperature",
        "temperature",
        ("temperature",),
        *(0, 100, "Sampling temperature; 0: greedy."),
        lambda sampling: sampling.temperature,
        lambda sampling, value: replace(sampling, temperature=value),
        sensible=(0, 2),
    ),
    Parameter(
        "top_k",
        "top_k",
        ("top_k",),
        *(0, MAX_COUNT, "Number of likeliest tokens to draw from; 0: all."),
        lambda sampling: sampling.top_k,
        lambda sampling, value: replace(sampling, top_k=int(value)),
        whole=True,
        least=-1,
    ),
    Parameter(
        "top_p",
        "top_p",
        ("top_p",),
        *(1e-9, 1, "Share of probability to draw from; 1: all."),
        lambda sampling: sampling.top_p,
        lambda sampling, value: replace(sampling, top_p=value),
        least=0,
    ),
    Parameter(
        "min_p",
        "min_p",
        ("min_p",),
        *(0, 1, "Least probability relative to the top's; 0: off."),
        lambda sampling: sampling.min_p,
        lambda sampling, value: replace(sampling, min_p=value),
    ),
    Parameter(
        "repetition",
        "penalties",
        ("repetition_penalty", "repeat_penalty"),
        *(0.01, 100, "Factor against tokens that occurred; 1: off."),
        lambda sampling: sampling.repetition,
        lambda sampling, value: replace(sampling, repetition=value),
        off=0,
        sensible=(0.1, 10),
    ),
    Parameter(
        "presence",
        "penalties",
        ("presence_penalty",),
        *(-100, 100, "Penalty on tokens of the reply; 0: off."),
        lambda sampling: sampling.presence,
        lambda sampling, value: replace(sampling, presence=value),
        sensible=(-2, 2),
    ),
    Parameter(
        "frequency",
        "penalties",
        ("frequency_penalty",),
        *(-100, 100, "Penalty per occurrence in the reply; 0: off."),
        lambda sampling: sampling.frequency,
        lambda sampling, value: replace(sampling, frequency=value),
        sensible=(-2, 2),
    ),
    Parameter(
        "penalty_window",
        "penalties",
        ("repeat_last_n", "penalty_last_n"),
        *(-1, MAX_COUNT, "Number of tokens that penalties look at; -1: all."),
        lambda sampling: sampling.penalty_window,
        lambda sampling, value: replace(sampling, penalty_window=int(value)),
        whole=True,
    ),
    Parameter(
        "typical",
        "typ_p",
        ("typical_p",),
        *(1e-9, 1, "Share of locally typical tokens; 1: all."),
        lambda sampling: sampling.typical,
        lambda sampling, value: replace(sampling, typical=value),
        aliases=("typical", "typ_p"),
        least=0,
    ),
    Parameter(
        "top_n_sigma",
        "top_n_sigma",
        ("top_n_sigma",),
        *(0, 100, "Deviations below the highest logit; 0: off."),
        lambda sampling: sampling.top_n_sigma,
        lambda sampling, value: replace(sampling, top_n_sigma=value),
        aliases=("nsigma",),
        least=-1,
    ),
    Parameter(
        "xtc_probability",
        "xtc",
        ("xtc_probability",),
        *(0, 1, "Chance to leave the likeliest tokens out; 0: off."),
        lambda sampling: sampling.xtc_probability,
        lambda sampling, value: replace(sampling, xtc_probability=value),
    ),
    Parameter(
        "xtc_threshold",
        "xtc",
        ("xtc_threshold",),
        *(0, 1, "Probability of tokens that XTC may leave out."),
        lambda sampling: sampling.xtc_threshold,
        lambda sampling, value: replace(sampling, xtc_threshold=value),
    ),
    Parameter(
        "dynatemp_range",
        "temperature",
        ("dynatemp_range",),
        *(0, 100, "How far entropy moves the temperature; 0: off."),
        lambda sampling: sampling.dynatemp_range,
        lambda sampling, value: replace(sampling, dynatemp_range=value),
        sensible=(0, 2),
    ),
    Parameter(
        "dynatemp_exponent",
        "temperature",
        ("dynatemp_exponent",),
        *(0, 100, "Exponent of the entropy in that."),
        lambda sampling: sampling.dynatemp_exponent,
        lambda sampling, value: replace(sampling, dynatemp_exponent=value),
        aliases=("temp_exponent",),
    ),
    Parameter(
        "dry_multiplier",
        "dry",
        ("dry_multiplier",),
        *(0, 100, "Penalty on going on with a repetition; 0: off."),
        lambda sampling: sampling.dry_multiplier,
        lambda sampling, value: replace(sampling, dry_multiplier=value),
        sensible=(0, 10),
    ),
    Parameter(
        "dry_base",
        "dry",
        ("dry_base",),
        *(1, 100, "Its growth with each repeated token."),
        lambda sampling: sampling.dry_base,
        lambda sampling, value: replace(sampling, dry_base=value),
        off=0,
        sensible=(1, 10),
    ),
    Parameter(
        "dry_allowed_length",
        "dry",
        ("dry_allowed_length",),
        *(0, MAX_COUNT, "Tokens that may be repeated."),
        lambda sampling: sampling.dry_allowed_length,
        lambda sampling, value: replace(sampling, dry_allowed_length=int(value)),
        whole=True,
    ),
    Parameter(
        "dry_window",
        "dry",
        ("dry_penalty_last_n",),
        *(-1, MAX_COUNT, "Number of tokens that it looks at; -1: all."),
        lambda sampling: sampling.dry_window,
        lambda sampling, value: replace(sampling, dry_window=int(value)),
        whole=True,
        aliases=("dry_range",),
    ),
    Parameter(
        "mirostat",
        "",
        ("mirostat",),
        *(0, 2, "Steers the surprise of the text, 1 or 2; 0: off."),
        lambda sampling: sampling.mirostat,
        lambda sampling, value: replace(sampling, mirostat=int(value)),
        whole=True,
        aliases=("mirostat_mode",),
    ),
    Parameter(
        "mirostat_tau",
        "",
        ("mirostat_tau",),
        *(0, 100, "The surprise that mirostat aims at, in bits."),
        lambda sampling: sampling.mirostat_tau,
        lambda sampling, value: replace(sampling, mirostat_tau=value),
    ),
    Parameter(
        "mirostat_eta",
        "",
        ("mirostat_eta",),
        *(0, 100, "How fast mirostat corrects it."),
        lambda sampling: sampling.mirostat_eta,
        lambda sampling, value: replace(sampling, mirostat_eta=value),
        sensible=(0, 1),
    ),
    Parameter(
        "adaptive_target",
        "adaptive_p",
        ("adaptive_target",),
        *(-1, 1, "Probability of tokens to aim at; -1: off."),
        lambda sampling: sampling.adaptive_target,
        lambda sampling, value: replace(sampling, adaptive_target=value),
    ),
    Parameter(
        "adaptive_decay",
        "adaptive_p",
        ("adaptive_decay",),
        *(0, 0.99, "Weight of the tokens before, in that."),
        lambda sampling: sampling.adaptive_decay,
        lambda sampling, value: replace(sampling, adaptive_decay=value),
    ),
)
