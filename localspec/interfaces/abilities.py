"""What a model may offer beside the methods of `Model`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from localspec.base.errors import UsageError
from localspec.interfaces.adapter import Adapter, Scales

if TYPE_CHECKING:  # commands that need no engine start without numpy
    from localspec.base.tokens import Logits


@runtime_checkable
class RestingModel(Protocol):
    """A model that keeps something for the thread it runs on, which may slow other models down."""

    def rest(self) -> None:
        """Let it go until the next forward; called on that thread when there are no requests."""


@runtime_checkable
class NotingModel(Protocol):
    """A model that adapts to the machine while it runs."""

    def take_notices(self) -> list[str]:
        """Return in words what it changed, each change once."""


Choose = Callable[[Sequence["Logits"]], Sequence[int] | None]


@runtime_checkable
class MultiStep(Protocol):
    """A model without a head that takes less time between forwards of one token a slot."""

    def multi_step(self, slots: Sequence[int], tokens: Sequence[int], choose: Choose) -> None:
        """Feed a token of each slot, then the ones that `choose` names by the logits, and so on.

        The slots are among those of the latest forward. It ends where `choose` returns None; what
        that raises passes through. Errors are those of `forward`.
        """


@runtime_checkable
class AdaptedModel(Protocol):
    """A model whose adapters may have other scales from one forward to the next."""

    adapters: Sequence[Adapter]

    def adapt(self, scales: Scales) -> None:
        """Compute with these scales from now on; a loaded model begins with its adapters' own."""


def adapters_of(model: object) -> Sequence[Adapter]:
    """Return the adapters whose scales a request may choose."""
    return model.adapters if isinstance(model, AdaptedModel) else ()


def usual_scales(adapters: Sequence[Adapter]) -> Scales:
    return scales_of({number: adapter.scale for number, adapter in enumerate(adapters)})


def scales_of(by_number: Mapping[int, float]) -> Scales:
    return tuple(sorted((number, scale) for number, scale in by_number.items() if scale))


def require_adapters(adapters: Sequence[Adapter], scales: Scales) -> None:
    """Refuse scales of adapters that are not there."""
    for number, _ in scales:
        if not 0 <= number < len(adapters):
            hint = "this model was loaded without any that a request can scale: --adapter FILE"
            if adapters:
                hint = f"adapters are 0 to {len(adapters) - 1}"
            raise UsageError(f"there is no adapter {number}; {hint}")
