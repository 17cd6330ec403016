"""The parameters of sampling: their bounds, and the names by which they are set."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from types import MappingProxyType
from typing import TYPE_CHECKING

from localspec.errors import UsageError

if TYPE_CHECKING:
    from localspec.sampling.distribution import Distribution
    from localspec.tokens import Logits

MIN_TEMPERATURE = 1e-4  # below it, sampling is greedy: quotients of logits would leave 32 bits


@dataclass(frozen=True, slots=True)
class Sampling:
    """The parameters of sampling, in order: bias, penalties, temperature, top-k, top-p, min-p.

    temperature: 0 is greedy, the default; higher is more varied
    top_k: only the k most likely tokens; 0 is all
    top_p: only the most likely tokens, up to this probability together
    min_p: only tokens that are so likely, compared with the most likely one
    repetition: divides or multiplies the logits of every token of prompt and reply; 1 is none
    presence: is subtracted once for tokens of the reply; 0 is none
    frequency: is subtracted for each time that a token is in the reply; 0 is none
    penalty_window: the last tokens that these three look at; -1 is all
    bias: is added to the logits of tokens, by token
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition: float = 1.0
    presence: float = 0.0
    frequency: float = 0.0
    penalty_window: int = -1
    bias: Mapping[int, float] = field(default_factory=lambda: MappingProxyType({}))

    def __post_init__(self) -> None:
        for parameter in PARAMETERS:
            parameter.check(parameter.get(self))
        for token, value in mapped(self.bias):
            check(f"bias of token {token}", value, -1000, 1000)

    @property
    def penalises(self) -> bool:
        penalised = self.repetition != 1 or self.presence != 0 or self.frequency != 0
        return penalised and self.penalty_window != 0

    @property
    def greedy(self) -> bool:
        return self.temperature < MIN_TEMPERATURE or self.top_k == 1

    def distribution(self, logits: Logits) -> Distribution:
        """Return the distribution of the next token, by logits with bias and penalties in them."""
        from localspec.sampling import filters  # numpy: commands read parameters without it

        return filters.distribution(self, logits)


def mapped(bias: object) -> Iterable[tuple[object, float]]:
    """Return the items of a bias; refuse one that is no mapping."""
    if not isinstance(bias, Mapping):
        raise UsageError(f"bias is {bias!r}; it must map tokens to numbers")
    return bias.items()


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
    names: tuple[str, ...]  # in requests; the first is the command line's, the last llama.cpp's
    low: float
    high: float
    about: str  # within 50 characters
    get: Callable[[Sampling], float]
    put: Callable[[Sampling, float], Sampling]
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

    @property
    def neutral(self) -> float:
        return self.get(GREEDY)

    def check(self, value: float) -> None:
        check(self.field, value, self.low, self.high, whole=self.whole)

    def choose(self, sampling: Sampling, value: float) -> Sampling:
        """Set a value that a person typed."""
        check(self.option, value, *(self.sensible or (self.low, self.high)))
        return self.put(sampling, value)


PARAMETERS = (
    Parameter(
        "temperature",
        ("temperature",),
        *(0, 100, "Sampling temperature; 0: greedy."),
        lambda sampling: sampling.temperature,
        lambda sampling, value: replace(sampling, temperature=value),
        sensible=(0, 2),
    ),
    Parameter(
        "top_k",
        ("top_k",),
        *(0, 1 << 31, "Number of likeliest tokens to draw from; 0: all."),
        lambda sampling: sampling.top_k,
        lambda sampling, value: replace(sampling, top_k=int(value)),
        whole=True,
        least=-1,
    ),
    Parameter(
        "top_p",
        ("top_p",),
        *(1e-9, 1, "Share of probability to draw from; 1: all."),
        lambda sampling: sampling.top_p,
        lambda sampling, value: replace(sampling, top_p=value),
        least=0,
    ),
    Parameter(
        "min_p",
        ("min_p",),
        *(0, 1, "Least probability relative to the top's; 0: off."),
        lambda sampling: sampling.min_p,
        lambda sampling, value: replace(sampling, min_p=value),
    ),
    Parameter(
        "repetition",
        ("repetition_penalty", "repeat_penalty"),
        *(0.01, 100, "Factor against tokens that occurred; 1: off."),
        lambda sampling: sampling.repetition,
        lambda sampling, value: replace(sampling, repetition=value),
        off=0,
        sensible=(0.1, 10),
    ),
    Parameter(
        "presence",
        ("presence_penalty",),
        *(-100, 100, "Penalty on tokens of the reply; 0: off."),
        lambda sampling: sampling.presence,
        lambda sampling, value: replace(sampling, presence=value),
        sensible=(-2, 2),
    ),
    Parameter(
        "frequency",
        ("frequency_penalty",),
        *(-100, 100, "Penalty per occurrence in the reply; 0: off."),
        lambda sampling: sampling.frequency,
        lambda sampling, value: replace(sampling, frequency=value),
        sensible=(-2, 2),
    ),
    Parameter(
        "penalty_window",
        ("repeat_last_n", "penalty_last_n"),
        *(-1, 1 << 31, "Number of tokens that penalties look at; -1: all."),
        lambda sampling: sampling.penalty_window,
        lambda sampling, value: replace(sampling, penalty_window=int(value)),
        whole=True,
    ),
)
GREEDY = Sampling()
