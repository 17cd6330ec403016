"""The sides with a draft model or head: llama-server at its defaults and its best, and ours."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from benchmarks.comparison.measure import PeersRun, Volley, show_progress
from benchmarks.comparison.plan import Setting
from benchmarks.comparison.sides import DRAFTED, Side
from benchmarks.comparison.summary import decoding_speed
from localspec_llamacpp.headers.footprint import inspect

BEST = "-best"  # the end of the name of llama-server's side with the best options of the grid
GRID_TOKENS = 64  # of a reply by which the grid is judged, at most


@dataclass(frozen=True, slots=True)
class GridPoint:
    """Options of llama-server's drafts."""

    most: int  # tokens of a draft
    least_chance: float  # of a token that is drafted

    @property
    def options(self) -> tuple[str, ...]:
        chance = f"{self.least_chance:g}"
        return ("--spec-draft-n-max", str(self.most), "--spec-draft-p-min", chance)

    def __str__(self) -> str:
        return f"{self.most}:{self.least_chance:g}"


GRID = tuple(GridPoint(most, chance) for chance in (0.0, 0.75) for most in (2, 4, 8, 16))


def grid_of(text: str) -> list[GridPoint]:
    """Read points as `4:0.75,8:0`; a ValueError if one is none."""
    pairs = [point.split(":") for point in text.split(",")]
    return [GridPoint(int(most), float(chance)) for most, chance in pairs]


@dataclass(frozen=True, slots=True)
class Drafter:
    """A draft model or a head, in a file of its own or inside the model's."""

    kind: str  # as llama-server calls it
    path: Path | None

    @property
    def options(self) -> tuple[str, ...]:
        beside = ("--model-draft", str(self.path)) if self.path else ()
        return ("--spec-type", self.kind, *beside)

    def at(self, point: GridPoint, name: str) -> Side:
        return Side(name, "llama-server", (*self.options, *point.options))

    def sides(self, best: GridPoint) -> Iterator[Side]:
        """Yield llama-server as it comes and at its best, and LocalSpec if it needs an option."""
        yield Side(self.kind, "llama-server", self.options)
        yield self.at(best, f"{self.kind}{BEST}")
        if self.path:
            yield Side(DRAFTED, "localspec", ("--draft", str(self.path)))


def drafter_of(model: Path, draft: Path | None) -> Drafter | None:
    """Return the given draft model or head, else the head inside a model's file, if it has one."""
    if draft:
        return Drafter(f"draft-{inspect(draft).drafter or 'simple'}", draft)
    return Drafter("draft-mtp", None) if inspect(model).drafting_layers else None


def best_point(
    grid: Sequence[GridPoint], run: PeersRun, setting: Setting
) -> tuple[GridPoint, dict[str, float]]:
    """Ask a side for each point the same once; return the fastest, and the tokens/s of all."""
    if len(grid) == 1:
        return grid[0], {}
    few = replace(run, rounds=1, max_tokens=min(run.max_tokens, GRID_TOKENS))
    volleys: list[Volley] = []
    for volley in few.measure(setting):
        volleys.append(volley)
        show_progress(few, setting, volleys)
    speeds = {
        side.name: decoding_speed([volley for volley in volleys if volley.side == side.name])
        for side in run.sides
    }
    return max(grid, key=lambda point: speeds[str(point)]), speeds
