"""What is declared of a number that sampling takes: its bounds, and the names it is set by."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from inspect import cleandoc
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeVar

from localspec.base.errors import UsageError

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MAX_COUNT = 1 << 31
S = TypeVar("S", bound="DataclassInstance")  # `Sampling`, which declares the parameters
N = TypeVar("N", int, float)


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

    sampler: str  # that must be listed if any are; empty: none must
    bounds: tuple[float, float]
    about: str  # within 50 characters
    own_names: tuple[str, ...] = ()  # in requests, where it is not called as the field is
    aliases: tuple[str, ...] = ()  # in requests, of other servers
    least: float | None = None  # that requests may say for `low`
    off: float | None = None  # that requests may say for `neutral`
    sensible: tuple[float, float] | None = None  # the bounds for people, where they are narrower
    field: str = ""  # of `Sampling`; with hyphens, its key in the catalogue
    neutral: float = 0.0  # the value at which it does nothing: the default of the field

    @property
    def whole(self) -> bool:
        return isinstance(self.neutral, int)

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

    def default(self, value: N) -> N:
        """Declare a field of `Sampling`; its name and its default become the parameter's."""
        declared: N = field(default=value, metadata={"parameter": self})
        return declared

    def choose(self, sampling: S, value: float) -> S:
        """Set a value that a person typed."""
        check(self.option, value, *(self.sensible or self.bounds))
        return self.put(sampling, value)


def declared_parameters(kind: type[DataclassInstance]) -> tuple[Parameter, ...]:
    """Return the parameters among the fields of `Sampling`, in their order."""
    return tuple(
        replace(member.metadata["parameter"], field=member.name, neutral=member.default)
        for member in fields(kind)
        if member.metadata
    )


def document(kind: type, abouts: Mapping[str, str]) -> None:
    """Add what each name is for to a docstring, as `name: text`."""
    lines = (f"{name}: {about[0].lower()}{about[1:-1]}" for name, about in abouts.items())
    kind.__doc__ = "\n".join((cleandoc(kind.__doc__ or ""), *lines))
