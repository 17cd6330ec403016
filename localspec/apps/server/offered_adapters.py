"""The adapters that a model is served with, and the scales of requests that name none."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from localspec.apps.server.faults import refused
from localspec.base.errors import UsageError
from localspec.base.model_files import bare_name
from localspec.interfaces.abilities import require_adapters, scales_of
from localspec.interfaces.adapter import Adapter

Scales = Mapping[int, float]


class OfferedAdapters:
    """Belongs to an offer, and so outlives the model's unloading."""

    def __init__(self, model: str = "", adapters: Sequence[Adapter] = ()) -> None:
        self._adapters = tuple(adapters)
        self._scales: Scales = {at: adapter.scale for at, adapter in enumerate(adapters)}
        self.names = [f"{model}+{bare_name(adapter.path)}" for adapter in adapters]

    def listed(self) -> list[dict[str, object]]:
        return [
            {"id": number, "path": str(adapter.path), "scale": self._scales.get(number, 0.0)}
            for number, adapter in enumerate(self._adapters)
        ]

    def scale(self, scales: Scales) -> None:
        """Set the scales of requests that name none; adapters without one are off."""
        self._scales = self._checked(scales)

    def chosen(self, model: str, scales: Scales) -> Scales | None:
        """Return the scales of a request: its own, or one adapter's by the name of the model.

        None where there are no adapters.
        """
        if scales:
            return self._checked(scales)
        name = model.removesuffix(":latest")
        if name in self.names:
            number = self.names.index(name)
            return {number: self._adapters[number].scale or 1.0}
        return self._scales if self._adapters else None

    def _checked(self, scales: Scales) -> Scales:
        try:
            require_adapters(self._adapters, scales_of(scales))
        except UsageError as error:
            raise refused(f"lora: {error}", "lora") from error
        return scales
