"""Who drafts for a model where the user names nobody: the fastest of a measurement on this machine.

It holds until the files, the engine's version, the devices or the options of computing change.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

from localspec.base.errors import LocalSpecError
from localspec.base.system import folders, kept_json
from localspec.base.system.fingerprint import fingerprint
from localspec.running.models import engines
from localspec.running.models.locate import ModelFiles
from localspec.running.runtime.kept_calibrations import computing
from localspec.running.runtime.loading_options import Loading
from localspec.running.runtime.pair_files import NO_DRAFT, PairFiles


@dataclass(frozen=True, slots=True)
class DrafterChoice:
    """A drafter, and what it was measured with.

    drafter: as the user named it, or `NO_DRAFT`
    speedup: times plain decoding
    """

    drafter: str
    path: str
    engine: str
    key: str
    speedup: float
    day: str
    circumstances: tuple[str, ...]

    def __str__(self) -> str:
        who = f"drafts by {self.drafter}"
        if self.drafter == NO_DRAFT:
            who = "drafts without a draft model"
        return (
            f"{who}: measured {self.speedup:.2f} of plain on this machine on {self.day}; "
            "--draft to choose, `localspec forget` to undo"
        )

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> DrafterChoice:
        """Read what `asdict` made; raise a KeyError, TypeError or ValueError if it is none."""
        drafter, path, engine, key, day = (
            str(record[name]) for name in ("drafter", "path", "engine", "key", "day")
        )
        circumstances = tuple(map(str, record["circumstances"]))
        return cls(drafter, path, engine, key, float(record["speedup"]), day, circumstances)

    def apply(self, pair: PairFiles) -> PairFiles | None:
        """Return a pair with this drafter; None if its files are others now."""
        if self.drafter == NO_DRAFT:
            return replace(pair, draft=None, reason=str(self))
        path = Path(self.path)
        if not path.exists() or fingerprint([path], []) != self.key:
            return None
        return replace(pair, draft=ModelFiles(engines.engine(self.engine), path), reason=str(self))


def pair_files(target: ModelFiles, draft: str | Path | None, loading: Loading) -> PairFiles:
    """Find what drafts: what the user named, else what was measured to be fastest, else usual."""
    pair = PairFiles.for_target(target, draft, loading.backend, alone=loading.alone)
    if draft is not None or loading.proposer != "auto" or loading.depth is not None:
        return pair
    choice = kept_json.load(_record_path(target.path), DrafterChoice.of_record)
    if choice is None:
        return pair
    with suppress(LocalSpecError):  # such as an engine that is gone
        if choice.circumstances == circumstances(target, loading):
            return choice.apply(pair) or pair
    return pair


def remember_fastest(pair: PairFiles, drafter: str, speedup: float, loading: Loading) -> bool:
    """Let a drafter draft for a model where nobody is named; False if that cannot be kept."""
    draft = pair.draft
    choice = DrafterChoice(
        drafter,
        str(draft.path.absolute()) if draft else "",
        draft.engine.name if draft else "",
        fingerprint([draft.path], []) if draft else "",
        speedup,
        f"{date.today():%Y-%m-%d}",
        circumstances(pair.target, loading),
    )
    return kept_json.keep(_record_path(pair.target.path), asdict(choice))


def circumstances(target: ModelFiles, loading: Loading) -> tuple[str, ...]:
    """List what decides who is fastest: versions, devices, options, and what else could draft."""
    return (
        *target.engine.installed().circumstances,
        str(os.cpu_count()),
        loading.limits.device,
        repr(computing(loading.options)),
        f"usually {fingerprint([target.draft], []) if target.draft else None}",
    )


def drop_choices() -> int:
    """Forget who was fastest, of all models; return how many there were."""
    return kept_json.drop_all(_folder())


def _folder() -> Path:
    return folders.cache() / "drafters"


def _record_path(target: Path) -> Path:
    return _folder() / f"{fingerprint([target], [])}.json"
