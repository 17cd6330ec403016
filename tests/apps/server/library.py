"""Models to download that a test wrote down, and how fast they come."""

from __future__ import annotations

import time
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from itertools import count

from localspec.apps.server.model_library import Download
from localspec.apps.server.offers import ServedOffer
from localspec.base.errors import PullError, UnknownModel, UsageError
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.sampling.parameters import GREEDY
from localspec.interfaces.testing import LETTERS, ScriptedModel, hashed_logits
from localspec.running.runtime.runtime import Runtime

PIECES = 5


@dataclass
class ScriptedLibrary:
    sizes: dict[str, int]  # of what could be downloaded; what is slow is never whole
    piece_seconds: float = 0.0
    here: list[str] = field(default_factory=list)
    stopped: list[str] = field(default_factory=list)

    def offer(self, name):
        name = name.removesuffix(":latest")
        if name not in self.here:
            raise UnknownModel(f"{name!r} was not pulled")

        def load(tell):
            return Runtime(Engine(ScriptedModel(hashed_logits(1)), Silent()), ExitStack())

        return ServedOffer(name, load, lambda: nullcontext(LETTERS), GREEDY, "any", "")

    def pull(self, name: str, download: Download) -> str:
        name = name.removesuffix(":latest")
        if name not in self.sizes:
            raise UnknownModel(f"there is no model {name!r}")
        download.name, download.total = name, self.sizes[name]
        download.phase = f"pulling {name}"
        if name == "broken":
            raise PullError("its sum is another one")
        try:
            for _ in count() if name == "slow" else range(PIECES):
                time.sleep(self.piece_seconds)
                download.count(self.sizes[name] // PIECES)
        except PullError:
            self.stopped.append(name)
            raise
        self.here.append(name)
        return name

    def copy(self, name, other):
        if name not in self.here:
            raise UnknownModel(f"{name!r} was not pulled")
        if "/" in other:
            raise UsageError(f"{other!r} is no name")
        self.here.append(other.removesuffix(":latest"))

    def delete(self, name):
        if name not in self.here:
            raise UnknownModel(f"{name!r} was not pulled")
        self.here.remove(name)

    def everything(self):
        fields = {
            "weights": "Q8_0",
            "engine": "any",
            "drafter": "",
            "drafter_bytes": 0,
            "speed": "",
        }
        return [
            fields
            | {"name": name, "bytes": size, "state": "here" if name in self.here else "fits"}
            | {"here": name in self.here, "pullable": name not in self.here and size < 1 << 30}
            for name, size in self.sizes.items()
        ]
