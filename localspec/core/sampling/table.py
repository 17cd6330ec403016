"""The numbers that sampling takes, in one table: their bounds, and the names they are set by."""

from __future__ import annotations

from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

from localspec.base.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAX_COUNT = 1 << 31
S = TypeVar("S", bound="DataclassInstance")  # `Sampling`, which is checked by this table


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
    bounds: tuple[float, float]
    about: str  # within 50 characters
    own_names: tuple[str, ...] = ()  # in requests, where it is not called as the field is
    aliases: tuple[str, ...] = ()  # in requests, of other servers
    whole: bool = False
    least: float | None = None  # that requests may say for `low`
    off: float | None = None  # that requests may say for `neutral`
    sensible: tuple[float, float] | None = None  # the bounds for people, where they are narrower

    @property
    def names(self) -> tuple[str, ...]:
        """Return its names in requests: the command line's first, llama.cpp's last."""
        return self.own_names or (self.field,)

    @property
    def low(self) -> float:
        return self.bounds[0]

    @property
    def high(self) -> float:
        return self.bounds[1]

    @property
    def key(self) -> str:
        return self.field.replace("_", "-")

    @property
    def option(self) -> str:
        return self.names[0].replace("_", "-")

    def get(self, sampling: DataclassInstance) -> float:
        value: float = getattr(sampling, self.field)
        return value

    def put(self, sampling: S, value: float) -> S:
        change: dict[str, Any] = {self.field: int(value) if self.whole else value}
        return replace(sampling, **change)

    def check(self, value: float) -> None:
        check(self.field, value, *self.bounds, whole=self.whole)

    def choose(self, sampling: S, value: float) -> S:
        """Set a value that a person typed."""
        check(self.option, value, *(self.sensible or self.bounds))
        return self.put(sampling, value)


PARAMETERS = (
    Parameter(
        "temperature", "temperature", (0, 100), "Sampling temperature; 0: greedy.", sensible=(0, 2)
    ),
    Parameter(
        "top_k",
        "top_k",
        (0, MAX_COUNT),
        "Number of likeliest tokens to draw from; 0: all.",
        whole=True,
        least=-1,
    ),
    Parameter("top_p", "top_p", (1e-9, 1), "Share of probability to draw from; 1: all.", least=0),
    Parameter("min_p", "min_p", (0, 1), "Least probability relative to the top's; 0: off."),
    Parameter(
        "repetition",
        "penalties",
        (0.01, 100),
        "Factor against tokens that occurred; 1: off.",
        own_names=("repetition_penalty", "repeat_penalty"),
        off=0,
        sensible=(0.1, 10),
    ),
    Parameter(
        "presence",
        "penalties",
        (-100, 100),
        "Penalty on tokens of the reply; 0: off.",
        own_names=("presence_penalty",),
        sensible=(-2, 2),
    ),
    Parameter(
        "frequency",
        "penalties",
        (-100, 100),
        "Penalty per occurrence in the reply; 0: off.",
        own_names=("frequency_penalty",),
        sensible=(-2, 2),
    ),
    Parameter(
        "penalty_window",
        "penalties",
        (-1, MAX_COUNT),
        "Number of tokens that penalties look at; -1: all.",
        own_names=("repeat_last_n", "penalty_last_n"),
        whole=True,
    ),
    Parameter(
        "typical",
        "typ_p",
        (1e-9, 1),
        "Share of locally typical tokens; 1: all.",
        own_names=("typical_p",),
        aliases=("typical", "typ_p"),
        least=0,
    ),
    Parameter(
        "top_n_sigma",
        "top_n_sigma",
        (0, 100),
        "Deviations below the highest logit; 0: off.",
        aliases=("nsigma",),
        least=-1,
    ),
    Parameter(
        "xtc_probability", "xtc", (0, 1), "Chance to leave the likeliest tokens out; 0: off."
    ),
    Parameter("xtc_threshold", "xtc", (0, 1), "Probability of tokens that XTC may leave out."),
    Parameter(
        "dynatemp_range",
        "temperature",
        (0, 100),
        "How far entropy moves the temperature; 0: off.",
        sensible=(0, 2),
    ),
    Parameter(
        "dynatemp_exponent",
        "temperature",
        (0, 100),
        "Exponent of the entropy in that.",
        aliases=("temp_exponent",),
    ),
    Parameter(
        "dry_multiplier",
        "dry",
        (0, 100),
        "Penalty on going on with a repetition; 0: off.",
        sensible=(0, 10),
    ),
    Parameter(
        "dry_base", "dry", (1, 100), "Its growth with each repeated token.", off=0, sensible=(1, 10)
    ),
    Parameter(
        "dry_allowed_length", "dry", (0, MAX_COUNT), "Tokens that may be repeated.", whole=True
    ),
    Parameter(
        "dry_window",
        "dry",
        (-1, MAX_COUNT),
        "Number of tokens that it looks at; -1: all.",
        own_names=("dry_penalty_last_n",),
        whole=True,
        aliases=("dry_range",),
    ),
    Parameter(
        "mirostat",
        "",
        (0, 2),
        "Steers the surprise of the text, 1 or 2; 0: off.",
        whole=True,
        aliases=("mirostat_mode",),
    ),
    Parameter("mirostat_tau", "", (0, 100), "The surprise that mirostat aims at, in bits."),
    Parameter("mirostat_eta", "", (0, 100), "How fast mirostat corrects it.", sensible=(0, 1)),
    Parameter(
        "adaptive_target", "adaptive_p", (-1, 1), "Probability of tokens to aim at; -1: off."
    ),
    Parameter("adaptive_decay", "adaptive_p", (0, 0.99), "Weight of the tokens before, in that."),
)
