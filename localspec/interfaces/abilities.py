"""What a model may offer beside the methods of `Model`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

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

        The slots are those of the latest forward. It ends where `choose` returns None; what that
        raises passes through. Errors are those of `forward`.
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
