"""Train a drafter for a model, and keep it if replies are faster with it. Needs torch."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import fill

import click
from filelock import FileLock, Timeout

from localspec.apps.bench import machine
from localspec.apps.bench.drafter_verdict import TRAINED, judge
from localspec.apps.bench.report import WIDTH, Report, verdict_table
from localspec.apps.bench.training_run import TEXTS, Learned, shares, train_apart, working_seconds
from localspec.apps.training.published import RECORD, choose_beginning
from localspec.apps.training.support import require_trainable
from localspec.apps.training.texts import TextStore
from localspec.base.errors import LocalSpecError, UsageError
from localspec.base.model_files import bare_name
from localspec.base.system import folders, kept_json
from localspec.base.system.atomic_write import write
from localspec.base.system.fingerprint import digest, installed_versions
from localspec.base.system.signals import leaving
from localspec.console.options.new_file import require_folder
from localspec.console.progress.progress_bar import duration
from localspec.interfaces.backend_spec import files_of
from localspec.interfaces.footprint import Footprint
from localspec.running.memory.machine import size
from localspec.running.models import trained, trial
from localspec.running.models.engines import all_engines
from localspec.running.models.locate import ModelFiles

KIND = "eagle3"
VERDICT_SECONDS = 150.0  # of the budget at most, for `bench`
VERDICT_SHARE = 0.25  # of a small budget
AGAIN = "the same command"
Judge = Callable[[ModelFiles, Path, TextStore, float], Report]
Export = Callable[[ModelFiles, Path, str, Path], None]


@dataclass(frozen=True, slots=True)
class TrainingRequest:
    """Name the model, the time, the texts and the place of a drafter to be trained."""

    files: ModelFiles
    budget: float  # seconds, the verdict included
    text: Path | None  # a file or folder of the user's
    format: str  # of the drafter; empty: that of the model
    out: Path | None
    begin: Path | None = None  # a published head

    @property
    def verdict_seconds(self) -> float:
        return min(VERDICT_SECONDS, VERDICT_SHARE * self.budget)

    @property
    def own_format(self) -> str:
        return self.files.engine.spec.format

    @property
    def drafter(self) -> Path:
        """The place of the drafter, in the format of the model."""
        if self.out and self.format in ("", self.own_format):
            return self.out
        path = self.files.path
        name = f"{KIND}-{bare_name(path)}-{trained.key_of(path)[:8]}"
        suffix = "" if self.files.engine.spec.folder else path.suffix
        return trained.drafters_folder() / f"{name}{suffix}"


@dataclass(frozen=True, slots=True)
class Training:
    """Hold what a training left in its folder when its time was over."""

    folder: Path
    store: TextStore
    learned: Learned


def train_draft(request: TrainingRequest) -> None:
    """Train until the budget is spent, judge, and keep or delete the drafter."""
    files = request.files
    require_place(request)
    require_trainable(files)
    folder = folders.cache() / "training" / trained.key_of(files.path)
    with alone(folder), leaving():
        if request.begin:
            footprint = trial.footprint(files.path, files.engine.name)
            choose_beginning(request.begin, footprint, folder)
        if worked := working_seconds(folder):
            click.echo(f"{folder} has a training of {duration(worked)}: it goes on")
        try:
            time = request.budget - request.verdict_seconds
            learned = train_apart(files, folder, time, request.text)
        except (KeyboardInterrupt, SystemExit):
            click.echo(f"stopped: {AGAIN} goes on from here", err=True)
            raise
        conclude(request, Training(folder, TextStore(folder / TEXTS), learned))


def require_undrafted(files: ModelFiles, footprint: Footprint) -> None:
    """Refuse a model that something drafts for, but for what was trained here."""
    if footprint.drafting_layers or footprint.drafter:
        raise UsageError(f"{footprint.name} has a drafting head, which drafts better")
    if files.draft and files.draft != trained.drafter_of(files.path):
        raise UsageError(
            f"{files.path.name} was pulled with a drafter, {files.draft.name}: "
            "give the path of the model to train another one for it"
        )


def require_place(request: TrainingRequest) -> None:
    """Refuse a format that nobody reads, and a place where something else lies."""
    formats = sorted({engine.spec.format for engine in all_engines()})
    if request.format and request.format not in formats:
        raise UsageError(f"--to is {request.format!r}; known: {', '.join(formats)}")
    if request.format not in ("", request.own_format) and request.out is None:
        raise UsageError(f"--to {request.format} needs --out: {request.own_format} is used here")
    earlier = trained.drafter_of(request.files.path)
    if request.out and request.out.exists() and request.out.absolute() != earlier:
        raise UsageError(f"{request.out} is there already: name another with --out")
    if request.out:
        require_folder(request.out)


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Keep other trainings for the same model out."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    try:
        with FileLock(folder / "lock", timeout=0):
            yield
    except Timeout as error:
        raise LocalSpecError(f"another training for this model is running, in {folder}") from error


def exported(files: ModelFiles, folder: Path, format: str, out: Path) -> None:
    from localspec.apps.training.export import export  # only here: it may need torch

    export(files, folder, format, out)


def conclude(
    request: TrainingRequest, training: Training, judge: Judge = judge, export: Export = exported
) -> None:
    """Judge the drafter; keep it as the model's own if it pays, else delete it."""
    drafter = request.drafter
    drafter.parent.mkdir(parents=True, exist_ok=True)
    with TemporaryDirectory(dir=drafter.parent) as folder:
        candidate = Path(folder) / drafter.name
        export(request.files, training.folder, request.own_format, candidate)
        click.echo(summary(training))
        report = judge(request.files, candidate, training.store, request.verdict_seconds)
        verdict = report.verdict
        if verdict:
            click.echo(f"\n{fill(verdict.text, WIDTH)}\n\n{verdict_table(verdict, TRAINED)}\n")
        if report.outcome.interrupted or not verdict or verdict.drafter_pays is None:
            raise LocalSpecError(f"there is no verdict: {AGAIN} judges once more")
        record = json.dumps(record_of(request, training, candidate, report), indent=1)
        if not verdict.drafter_pays:
            write(training.folder / "record.json", record)
            click.echo(f"It was deleted. What it learned is in {training.folder}:")
            click.echo(f"{AGAIN} and a larger --budget goes on from there.")
            return
        shutil.rmtree(drafter) if drafter.is_dir() else drafter.unlink(missing_ok=True)
        candidate.rename(drafter)
    write(drafter.with_name(f"{drafter.name}.json"), record)
    trained.keep(request.files.path, drafter)
    taken = size(sum(file.stat().st_size for file in files_of(drafter)))
    click.echo(f"{drafter} ({taken}) drafts for {request.files.path.name} from now on.")
    if request.out and request.out != drafter:
        export(request.files, training.folder, request.format, request.out)
        click.echo(f"{request.out} is the same for another engine.")


def summary(training: Training) -> str:
    """Report what was trained on, and what came of it."""
    count, tokens = training.store.counts.total(), training.store.tokens.total()
    lines = f"trained for {training.learned.step:,} steps on {count:,} texts, {tokens:,} tokens"
    if training.learned.measured:
        last = training.learned.measured[-1]
        lines += (
            f"\naccepted of its drafts by position, on texts that are held out: "
            f"{shares(last.greedy)} greedy, {shares(last.sampled)} at temperature 1"
        )
    return f"{lines}\nended early: {training.learned.note}" if training.learned.note else lines


def record_of(
    request: TrainingRequest, training: Training, drafter: Path, report: Report
) -> dict[str, object]:
    """Describe a training, so that anybody can judge it and do it again."""
    assert report.verdict is not None
    return {
        "format": 1,
        "kind": KIND,
        "command": machine.command("localspec"),
        "target": sums(request.files.engine.spec.files(request.files.path)),
        "drafter": sums(files_of(drafter)),
        "began_with": kept_json.load(training.folder / RECORD, lambda record: record["key"]),
        "texts": training.store.counts,
        "tokens": training.store.tokens,
        "held_out": sum(text.held_out for text in training.store.texts),
        "texts_sha256": digest(training.store.path, large=True),
        "steps": training.learned.step,
        "working_seconds": round(working_seconds(training.folder)),
        "accepted": [held_out._asdict() for held_out in training.learned.measured],
        "verdict": asdict(report.verdict),
        "versions": [machine.versions(), *installed_versions(("torch", "gguf"))],
        "machine": machine.machine(),
    }


def sums(files: Sequence[Path]) -> dict[str, str]:
    """Compute the sha256 of files by their names."""
    return {file.name: digest(file, large=True) for file in files}
