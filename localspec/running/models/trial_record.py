"""Results of trials, kept for the next time: one small file on disk for each model file."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from localspec.base.system import folders, kept_json
from localspec.base.system.fingerprint import fingerprint
from localspec.interfaces.backend import Footprint, Needs, Options
from localspec.running.models.engines import EngineHere
from localspec.running.models.locate import ModelFiles
from localspec.running.models.trial_process import footprint


def folder() -> Path:
    return folders.cache() / "trials"


def newest(count: int) -> list[tuple[Footprint, list[str]]]:
    """Read the last files that were tried here, each with the faults that were found."""
    return kept_json.newest(folder(), _footprint_and_faults, count)


def _footprint_and_faults(record: dict[str, Any]) -> tuple[Footprint, list[str]]:
    verdicts = record["verdicts"].values()
    return footprint(record["footprint"]), [str(fault) for fault in verdicts if fault]


class Record:
    """The results for one file; trials are repeated where these are missing or invalid."""

    def __init__(self, model: ModelFiles, engine: EngineHere) -> None:
        files = model.engine.spec.files(model.path)
        self._path = model.path
        self._record_path = folder() / f"{fingerprint(files, engine.circumstances)}.json"
        record = kept_json.load(self._record_path, dict) or {}
        parts = {name: record.get(name) for name in ("footprint", "needs", "verdicts")}
        self._results: dict[str, dict[str, Any]] = {
            name: part if isinstance(part, dict) else {} for name, part in parts.items()
        }

    def footprint(self) -> Footprint | None:
        with suppress(TypeError, KeyError):
            return replace(footprint(self._results["footprint"]), path=self._path)
        return None

    def needs(self, options: Options) -> Needs | None:
        with suppress(TypeError, KeyError):
            return Needs.from_json(self._results["needs"][key(options)])
        return None

    def verdict(self, options: Options) -> str | None:
        """Read the fault of a file when it is loaded with these options; "" if there is none."""
        verdict = self._results["verdicts"].get(key(options))
        return verdict if isinstance(verdict, str) else None

    def keep_footprint(self, footprint: Footprint) -> None:
        self._results["footprint"] = asdict(footprint)
        self._write()

    def keep_needs(self, options: Options, needs: Needs) -> None:
        self._results["needs"][key(options)] = asdict(needs)
        self._write()

    def keep_verdict(self, options: Options, verdict: str) -> None:
        self._results["verdicts"][key(options)] = verdict
        self._write()

    def _write(self) -> None:
        kept_json.keep(self._record_path, self._results)


def key(options: Options) -> str:
    """Return the key of options; a file beside the model is part of it by its content."""
    files = [file for file in (options.head, options.projector) if file]
    files += [adapter.path for adapter in options.adapters]
    if not files:
        return repr(options)
    bare = replace(options, head=None, projector=None, adapters=())
    return f"{bare!r} {fingerprint(files, [])}"
