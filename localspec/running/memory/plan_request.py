"""What is planned: a pair, its needs by its engines, and the options to load it with."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from localspec.interfaces.backend import CELLS, Estimate, Needs, Options
from localspec.running.memory.machine import Machine
from localspec.running.memory.placement import PairOptions, Placement, place


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
    wide_batches: tuple[int, ...] = ()  # to take in place of the options', the widest first
    worthy_batch: int = 0  # tokens, up to which a wider batch is worth all the room

    def needs(self, options: PairOptions) -> tuple[Needs, Needs | None]:
        """Ask the engines for the needs of both models with these options."""
        draft = None
        if options.draft is not None and self.draft is not None:
            draft = self.draft(options.draft)
        return self.target(options.target), draft

    def place(self, options: PairOptions, machine: Machine) -> Placement:
        """Place the pair; how layers were split for another placement does not matter."""
        options = options.with_target(split=self.options.split)
        return place(options, *self.needs(options), machine)

    def place_with(self, fit: Placement, machine: Machine, **changes: Any) -> Placement:
        """Place the pair as another placement does, but for some options of the target."""
        return self.place(fit.options.with_target(**changes), machine)

    def with_options(self, **changes: Any) -> PlanRequest:
        """Return the request with other options of the target."""
        return replace(self, options=replace(self.options, **changes))
