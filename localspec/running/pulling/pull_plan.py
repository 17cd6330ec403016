"""A pair as it will be pulled: the files of each part, and where they go."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from huggingface_hub import constants

from localspec.running.models.engines import Engine
from localspec.running.models.sources import Address, Source
from localspec.running.pulling import address, hub
from localspec.running.pulling.listing import Listing, Remote


@dataclass(frozen=True, slots=True)
class PullPart:
    """A model, or a drafter, to be pulled: its files on the hub, or where it is already."""

    source: Source
    listing: Listing | None = None
    files: tuple[Remote, ...] = ()
    address_bytes: int = 0  # of the file at an address; 0: not known

    @property
    def bytes(self) -> int:
        return self.address_bytes or sum(file.size for file in self.files)

    @property
    def missing(self) -> int:
        if isinstance(self.source, Address):
            return address.missing_bytes(self.source, self.address_bytes)
        return hub.missing(self.listing, self.files) if self.listing else 0

    @property
    def folder(self) -> Path | None:
        """The folder to download to; None for what is here."""
        if isinstance(self.source, Address):
            return address.download_folder()
        return Path(constants.HF_HUB_CACHE) if self.listing else None


@dataclass(frozen=True, slots=True)
class PullPlan:
    """A pair as it will be pulled."""

    name: str
    weights: str
    engine: Engine
    target: PullPart
    drafter: str = "none"
    draft: PullPart | None = None
    projector: PullPart | None = None
    blind: str = ""  # why there is no projector although the catalogue names one

    @property
    def parts(self) -> tuple[PullPart, ...]:
        return tuple(part for part in (self.target, self.draft, self.projector) if part)

    @property
    def missing(self) -> int:
        return sum(part.missing for part in self.parts)
