"""Trials of model files in processes of their own, with results that are remembered."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeVar

from localspec.base.errors import BackendError, DeviceError, ModelFileError, OutOfMemory
from localspec.base.tokenizer import Tokenizer
from localspec.core.pairing.vocabulary import Match, match
from localspec.interfaces.backend import BY_LAYER, Footprint, Needs, Options
from localspec.running.models.engines import AUTO, Engine, EngineHere
from localspec.running.models.locate import ModelFiles, locate
from localspec.running.models.trial_child import trial_context, trial_options, uses_gpu
from localspec.running.models.trial_process import TrialProcess
from localspec.running.models.trial_record import Record
from localspec.running.models.trial_speed import Speeds

T = TypeVar("T")

Step = Literal["planning", "trying"]  # what another process does with a file
Begins = Callable[[Step, Path], None]


def unheard(_: Step, __: Path) -> None:
    """Report nothing."""


@dataclass(frozen=True, slots=True)
class ResolvedModel:
    """A model on this machine: its files, its engine as it is here, and what that makes of it."""

    files: ModelFiles
    engine: EngineHere
    footprint: Footprint


class Examined:
    """A model file: its facts by its engine, and whether it runs."""

    def __init__(
        self,
        files: ModelFiles,
        engine: EngineHere,
        start: Callable[[ModelFiles], TrialProcess],
        begins: Begins,
    ) -> None:
        self.files = files
        self.engine = engine
        self._start = start
        self._begins = begins
        self._record = Record(files, engine)
        self._process: TrialProcess | None = None
        self._step: Step | None = None  # the one that was reported last

    def footprint(self) -> Footprint:
        footprint = self._record.footprint()
        if footprint is None:
            footprint = self._ask("planning", lambda process: process.footprint())
            self._record.keep_footprint(footprint)
        return footprint

    def resolve(self) -> ResolvedModel:
        return ResolvedModel(self.files, self.engine, self.footprint())

    def needs(self, options: Options) -> Needs:
        """Compute the memory for loading; `UsageError` if this model cannot be loaded so."""
        needs = self._record.needs(options)
        if needs is None:
            needs = self._ask("planning", lambda process: process.needs(options))
            self._record.keep_needs(options, needs)
        return needs

    def check_runs(self, options: Options, free_bytes: int) -> None:
        """Refuse a file if its engine dies or cannot decode with it; needs memory for it."""
        if fault := self.fault(options, free_bytes):
            raise ModelFileError(fault)

    def fault(self, options: Options, free_bytes: int) -> str:
        """Return the fault of a file with these options; empty: none, or no memory to try."""
        if options.members > 1:
            return ""  # no process can try it alone
        driven = uses_gpu(self.engine.devices, options)
        small = replace(trial_options(options, trial_context(options, driven)), threads=None)
        if not driven:  # no driver that could die of a batch
            small = replace(small, batch=Options().batch, shared=None)
        verdict = self._record.verdict(small)
        if verdict is None:
            if self.needs(small).total > free_bytes:
                return ""
            verdict = self._verdict(options, driven)
            if verdict is None:
                return ""
            self._record.keep_verdict(small, verdict)
        return verdict

    def measure(self, options: Options, seconds: float, limit: float) -> Speeds:
        """Load the model in a process of its own, and time it there for about so many seconds.

        `ModelFileError` if that process ends, or takes `limit` seconds with loading.
        """
        if any(device.worker for device in self.engine.devices):
            self.close()  # a worker serves one process at a time
        process = self._start(self.files)
        try:
            return process.measure(options, seconds, limit)
        finally:
            process.close()

    def _verdict(self, options: Options, driven: bool) -> str | None:
        try:
            self._ask("trying", lambda process: process.run(options, driven=driven))
        except OutOfMemory:
            return None
        except (ModelFileError, BackendError) as error:
            self.close()  # its process may be gone; another way is tried in a new one
            advice = self._advice(options)
            try:
                self.files.engine.backend().probe()
            except DeviceError as lost:  # which is no fault of the file
                raise DeviceError(f"{lost}{advice}") from error
            return f"{error}{advice}"
        return ""

    def _advice(self, options: Options) -> str:
        """Name what is likely wrong where workers were to compute parts of layers."""
        remote = any(device.worker for device in self.engine.devices)
        if options.split_mode == BY_LAYER or not remote:
            return ""
        return f"; workers take whole layers only: leave out --split-mode {options.split_mode}"

    def _ask(self, step: Step, ask: Callable[[TrialProcess], T]) -> T:
        """Ask the trial's process, started if there is none, and report the step.

        It ends if it refuses the file, so that the next question, about another way to load the
        file, goes to a new one.
        """
        if step != self._step:
            self._step = step
            self._begins(step, self.files.path)
        if self._process is None:
            self._process = self._start(self.files)
        try:
            return ask(self._process)
        except ModelFileError:
            self.close()
            raise

    def close(self) -> None:
        if self._process is not None:
            self._process.close()
            self._process = None


def footprint(name_or_path: str | Path, engine: str = AUTO) -> Footprint:
    """Describe a model, as its engine lays it out, with the projector that lies beside it."""
    files = locate(str(name_or_path), engine).with_projector()
    with examine(files) as examined:
        return replace(examined.footprint(), projector=files.projector)


@contextmanager
def vocabulary(files: ModelFiles) -> Iterator[Tokenizer]:
    """Load a model's tokenizer without its weights, once another process has tried it."""
    with examine(files) as examined:
        examined.footprint()
    with files.engine.backend().rehearse(files.path) as rehearsal:
        yield rehearsal.tokenizer


def vocabularies(engine: Engine, target: Path, draft_path: Path) -> Match:
    """Compare two vocabularies; raise `PairError` where they agree too little."""
    with (
        vocabulary(ModelFiles(engine, target)) as ours,
        vocabulary(ModelFiles(engine, draft_path)) as theirs,
    ):
        return match(ours, theirs)


@contextmanager
def examine(
    files: ModelFiles,
    start: Callable[[ModelFiles], TrialProcess] | None = None,
    engine: EngineHere | None = None,
    begins: Begins = unheard,
) -> Iterator[Examined]:
    """Open a file, with a process to try it in once an unknown fact is asked for.

    `begins` is called before each step of that process, which takes seconds.
    """
    examined = Examined(files, engine or files.engine.installed(), start or TrialProcess, begins)
    try:
        yield examined
    finally:
        examined.close()
