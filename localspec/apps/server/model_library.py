"""Models that clients download, copy and delete, as `localspec pull` and `localspec rm` do."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Protocol

from localspec.apps.server.offers import ServedOffer
from localspec.base.errors import PullError, UnknownModel, UsageError
from localspec.running.models import catalogue, store
from localspec.running.models.ollama_names import listed_name
from localspec.running.models.pulled_files import copy, forget
from localspec.running.models.sources import LocalFiles, Package, Source
from localspec.running.models.stored_pair import PulledPair
from localspec.running.pulling.listed_model import MISSING, TOO_LARGE, available_row, pulled_row

HUB = re.compile(r"(hf\.co|huggingface\.co)/(?P<repository>[\w.-]+/[\w.-]+)(:(?P<file>[\w.-]+))?")
PULLABLE = re.compile(r"hf:[\w./@:*-]+|[a-z0-9][a-z0-9._-]{0,63}(:[\w.-]{1,32})?", re.ASCII)
LATEST = ":latest"


class Download:
    """The progress of a download; any thread may count, ask, or stop it."""

    def __init__(self) -> None:
        self.name = ""  # under which it will be there, once that is known
        self.total = 0  # bytes
        self.done = 0
        self.phase = "pulling manifest"
        self._stopped = threading.Event()
        self._lock = threading.Lock()

    def count(self, number: int) -> None:
        if self._stopped.is_set():
            raise PullError("the download was stopped; what came is kept for another time")
        with self._lock:
            self.done += number

    def stop(self) -> None:
        self._stopped.set()


class Library(Protocol):
    """A store of models. Its methods may take minutes: call them off the event loop."""

    def offer(self, name: str) -> ServedOffer:
        """Describe a model that was pulled, to be served."""

    def pull(self, name: str, download: Download) -> str:
        """Download a model and report the progress; return its name."""

    def copy(self, name: str, other: str) -> None:
        """Give a model that was pulled another name."""

    def delete(self, name: str) -> None:
        """Forget a model that was pulled, and free what no other one uses."""

    def everything(self) -> list[dict[str, object]]:
        """List the models that are here, and those to pull, as `localspec list` does."""


@dataclass(frozen=True, slots=True)
class PulledLibrary:
    """The user's own models; files that were never pulled are not touched."""

    engine: str
    offered: Callable[[str], ServedOffer]

    def offer(self, name: str) -> ServedOffer:
        pulled(name)
        return self.offered(listed_name(name.removesuffix(LATEST)))

    def pull(self, name: str, download: Download) -> str:
        from localspec.running.pulling.pull import pull  # the hub's client takes a third of a start
        from localspec.running.pulling.resolve import pull_plan

        short_name = pullable(name)
        plan = pull_plan(short_name, self.engine)
        download.name, download.total = plan.name, sum(part.bytes for part in plan.parts)
        download.count(0)
        download.phase = f"pulling {plan.name}"

        def say(_: str) -> None:
            download.phase = "verifying that it runs"

        pulled = pull(plan, download.count, say)
        return pulled.name if short_name.startswith("hf:") else short_name

    def copy(self, name: str, other: str) -> None:
        copy(pulled(name), other.removesuffix(LATEST))

    def delete(self, name: str) -> None:
        forget(pulled(name))

    def everything(self) -> list[dict[str, object]]:
        pairs = store.everything()
        names = {pulled.name for pulled in pairs}
        rows = [
            asdict(pulled_row(pair)) | {"here": True, "pullable": False, "on_disk": True}
            for pair in pairs
        ]
        for entry in catalogue.entries().values():
            if entry.name not in names:
                row = available_row(entry, self.engine)
                pullable = row.state not in (MISSING, TOO_LARGE)
                offers = (offer.weights.get(row.weights) for offer in entry.offers.values())
                on_disk = any(weights and is_on_disk(weights.source) for weights in offers)
                more = {"here": False, "pullable": pullable, "on_disk": on_disk}
                rows.append(asdict(row) | more)
        return rows


def is_on_disk(source: Source) -> bool:
    """Whether weights need no download."""
    match source:
        case Package():
            return source.find() is not None
        case LocalFiles():
            return source.path.exists()
    return False


def pulled(name: str) -> list[PulledPair]:
    pairs = store.find(listed_name(name.removesuffix(LATEST)))
    if not pairs:
        raise UnknownModel(f"{name[:200]!r} was not pulled; `localspec list` shows what was")
    return pairs


def pullable(name: str) -> str:
    """Require a name of the catalogue, or a repository of the hub; paths are the user's own."""
    short_name = name.removesuffix(LATEST)
    if hub := HUB.fullmatch(short_name):
        file = f":*{hub['file']}*" if hub["file"] else ""
        return f"hf:{hub['repository']}{file}"
    if not PULLABLE.fullmatch(short_name):
        raise UsageError(
            f"{name[:200]!r} is no name of the catalogue, and no hf:ORG/REPOSITORY[:FILE]"
        )
    return listed_name(short_name)
