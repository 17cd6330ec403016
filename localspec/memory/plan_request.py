"""What is planned: a pair, its needs by its engines, and the options to load it with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path

from localspec.backend import CELLS, Estimate, Needs, Options
from localspec.memory.machine import Machine
from localspec.memory.placement import PairOptions, Placement, place


@dataclass(frozen=True, slots=True)
class PlanRequest:
    """A pair, its needs, and the options to load it with; open ones may be conceded."""

    target: Estimate
    options: Options  # None and "auto" are open
    context: int  # tokens, where none were asked for
    draft: Estimate | None = None
    drafting: Options = field(default_factory=lambda: Options(drafting=True))
    insists: bool = False  # on the draft model
    trained: int = CELLS  # tokens of one text that the model was made for
    projector: Path | None = None  # that lies beside it: loaded if there is room for it

    def needs(self, way: PairOptions) -> tuple[Needs, Needs | None]:
        """Ask the engines for the needs of both models with these options."""
        draft = None
        if way.drafting is not None and self.draft is not None:
            draft = self.draft(way.drafting)
        return self.target(way.options), draft

    def place(self, way: PairOptions, machine: Machine) -> Placement:
        """Place the pair; how layers were split for another placement does not matter."""
        way = replace(way, options=replace(way.options, split=self.options.split))
        return place(way, *self.needs(way), machine)

    def place_with(self, fit: Placement, machine: Machine, **changes: object) -> Placement:
        """Place the pair as another placement does, but for some options of the target."""
        options = replace(fit.way.options, **changes)  # type: ignore[arg-type]
        return self.place(replace(fit.way, options=options), machine)

    def with_options(self, **changes: object) -> PlanRequest:
        """Return the request with other options of the target."""
        options = replace(self.options, **changes)  # type: ignore[arg-type]
        return replace(self, options=options)
