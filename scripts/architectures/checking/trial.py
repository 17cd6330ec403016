"""Run one model by its engine and by LocalSpec, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from architectures.checking import llama_server, pictures, records
from architectures.checking.answers import Parting
from architectures.checking.facts import expected
from architectures.checking.verdict import FAR, Margins, ModelResults, ModelVerdict, judge, read
from architectures.kinds import MLX, Cell
from architectures.make import SCRIPTS, last_line
from benchmarks.serving.process import Unable

SECONDS = 600.0


@dataclass(frozen=True, slots=True)
class ZooTrial:
    """Keeps the results of each model, so that the next run goes on where this one ends."""

    folder: Path
    server: Path  # llama.cpp's

    def of(self, cell: Cell) -> ModelVerdict:
        key = records.key_of_engine(cell.path)
        theirs = self._kept(cell, "engine", key, lambda: ask_engine(cell, self.server))
        if isinstance(theirs, str):
            return ModelVerdict("no engine", (theirs,))
        version = key + records.sources()
        version += records.key_of_engine(cell.projector) if cell.projector else ""
        ours = self._kept(cell, "localspec", version, lambda: ask_localspec(cell, self.folder))
        if not isinstance(ours, dict):
            return ModelVerdict("refused", (str(ours),))

        def weigh(partings: Sequence[Parting]) -> Sequence[Margins]:
            asked = key + records.digest_of(partings)
            kept = self._kept(cell, "margins", asked, lambda: ask_margins(cell, partings))
            if not isinstance(kept, list):  # the engine's own process failed
                return [(FAR, FAR)] * len(partings)
            return [(first, least) for first, least in kept]

        expected_facts = {**expected(cell.origin), "drafting_layers": cell.drafting_layers}
        verdict = judge(read(theirs), ModelResults.of(ours), expected_facts, weigh)
        return self._seen(cell, ours, verdict) if cell.projector else verdict

    def _seen(self, cell: Cell, ours: Mapping[str, Any], verdict: ModelVerdict) -> ModelVerdict:
        """Judge the answers to pictures as well."""
        key = records.digest([file for file in (cell.path, cell.projector) if file])
        theirs = self._kept(cell, "pictures", key, lambda: ask_pictures(cell, self.server))
        if not isinstance(theirs, list):
            return replace(verdict, faults=(*verdict.faults, f"no pictures: {theirs}"))
        if "pictures" not in ours:  # it failed before
            return verdict
        faults, near = pictures.faults(theirs, ours["pictures"])
        word = (
            "differs" if faults else "near-tie" if near and verdict.word == "same" else verdict.word
        )
        return replace(
            verdict, word=word, faults=(*verdict.faults, *faults), near=verdict.near + near
        )

    def _kept(self, cell: Cell, part: str, key: str, find: Callable[[], object]) -> object:
        name = f"{cell.name}-{cell.kind}-{part}"
        return records.compute_once(self.folder / "results", name, key, find)


def ask_margins(cell: Cell, partings: Sequence[Parting]) -> object:
    """Ask the engine for its own margins where answers part."""
    module = "mlx_alone" if cell.kind in MLX else "logits"
    text = json.dumps([asdict(parting) for parting in partings])
    return run_module([f"architectures.checking.{module}", str(cell.path)], {}, text)


def ask_engine(cell: Cell, server: Path) -> object:
    """Get the engine's answers, or its reason for having none."""
    if cell.kind in MLX:
        return run_module(["architectures.checking.mlx_alone", str(cell.path)], {})
    try:
        return llama_server.answers(server, cell.path)
    except Unable as error:
        return str(error)


def ask_pictures(cell: Cell, server: Path) -> object:
    """Get llama-server's answers to pictures, or its reason for having none."""
    assert cell.projector
    try:
        return pictures.theirs(server, cell.path, cell.projector)
    except Unable as error:
        return str(error)


def ask_localspec(cell: Cell, folder: Path) -> object:
    """Get LocalSpec's answers, or how its process ended."""
    command = ["architectures.checking.localspec_here", str(cell.path)]
    command += [str(cell.projector)] if cell.projector else []
    return run_module(command, {"XDG_CACHE_HOME": str(folder / "cache")})


def run_module(command: Sequence[str], environment: dict[str, str], text: str = "") -> object:
    """Run a module; return the JSON it prints, or a text where it fails."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", *command],
            cwd=SCRIPTS,
            env={**os.environ, "HF_HUB_OFFLINE": "1", **environment},
            input=text,
            capture_output=True,
            text=True,
            timeout=SECONDS,
        )
    except subprocess.TimeoutExpired:
        return f"it did not end within {SECONDS:.0f} seconds"
    if done.returncode:
        return f"it ended with {done.returncode}: {last_line(done.stderr)}"
    return json.loads(done.stdout)
