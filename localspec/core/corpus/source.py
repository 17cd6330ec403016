"""One root of a corpus: its files, its segments, and when it was looked at."""

from __future__ import annotations

import logging
import time
from dataclasses import dataclass, field
from pathlib import Path

from localspec.core.corpus import files
from localspec.core.corpus.segment_files import Segments

PAUSE_SECONDS = 10.0  # between two looks, if requests come

LOG = logging.getLogger("localspec")


@dataclass(frozen=True, slots=True)
class SourceFacts:
    """Describe what of a source is indexed, and what is not."""

    name: str
    files: int  # that the last look listed
    texts: int  # of files that are indexed
    tokens: int
    index_bytes: int
    is_current: bool
    fault: str  # what is amiss, or was left out

    def __str__(self) -> str:
        going_on = "" if self.is_current else ", being brought up to date"
        fault = f"; {self.name} {self.fault}" if self.fault else ""
        return (
            f"texts to draft from in {self.name}: {self.texts:,}, with {self.tokens:,} tokens "
            f"({self.index_bytes >> 20:,} MiB of index){going_on}{fault}"
        )


@dataclass(slots=True, eq=False)
class Source:
    """The files of one root, and the folder of their segments."""

    root: Path
    folder: Path
    learned: bool = False  # whether these are kept replies, with control tokens by their names
    pause_seconds: float = PAUSE_SECONDS
    segments: Segments = field(default_factory=dict)
    listing: files.Listing = field(default_factory=files.Listing)
    fault: str = ""
    is_current: bool = False
    look_requested: bool = True  # whether it is to be looked at
    due: float = 0.0  # when it may be looked at next

    def wait(self) -> float:
        """Return the seconds until it may be looked at."""
        return max(self.due - time.monotonic(), 0.0)

    def end_look(self, fault: str) -> None:
        """End a look, and log what is amiss if that is new."""
        self.is_current = True
        if not fault and self.listing.left_out:
            counts = (f"{kind}: {count:,}" for kind, count in self.listing.left_out.items())
            fault = f"is not read whole ({', '.join(counts)})"
        if fault and fault != self.fault:
            LOG.warning("%s %s", self.root, fault)
        self.fault = fault

    def facts(self) -> SourceFacts:
        """Describe it as it is now."""
        segments = self.segments.values()
        return SourceFacts(
            name="kept replies" if self.learned else self.root.name,
            files=len(self.listing.keys),
            texts=sum(segment.texts_read for segment in segments),
            tokens=sum(segment.size for segment in segments),
            index_bytes=sum(segment.bytes for segment in segments),
            is_current=self.is_current,
            fault=self.fault,
        )
