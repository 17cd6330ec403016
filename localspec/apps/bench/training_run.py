"""The phases of a training: texts, what the model makes of them, and the drafter.

All of it lies in a folder, so that a training that was stopped goes on from there. It works in a
process of its own, so that what is measured afterwards has the usual priority and all memory.
"""

from __future__ import annotations

import json
import os
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from functools import partial
from multiprocessing import get_context, parent_process
from multiprocessing.connection import Connection
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.apps.bench.training_line import TrainingLine
from localspec.apps.training import writing
from localspec.apps.training.record import Text, record, recorded_tokens
from localspec.apps.training.texts import (
    FILED,
    KEPT,
    WRITTEN,
    TextStore,
    kept_replies,
    pieces,
    read_texts,
)
from localspec.apps.training.working import WorkTime, be_modest
from localspec.base.errors import BackendError, LocalSpecError
from localspec.base.system import kept_json
from localspec.base.system.atomic_write import write
from localspec.base.system.signals import leaving
from localspec.base.tokens import tokens_of
from localspec.interfaces.backend import Options
from localspec.running.models.locate import ModelFiles
from localspec.running.runtime.loading import Loading, load_pair
from localspec.running.runtime.pair_files import PairFiles
from localspec.running.runtime.runtime import Runtime

if TYPE_CHECKING:
    from localspec.apps.training.loop import Report
    from localspec.apps.training.promise import HeldOut

WRITE_UNTIL, RECORD_UNTIL = 0.4, 0.6  # shares of the time, at which the next phase begins
LEAST_TEXTS = 16  # that are written in any case: one of them is held out
MAX_READ_TOKENS = 1_000_000  # of the user's files and kept replies
MAX_WRITTEN_TOKENS = 2_000_000
MAX_RECORDED_BYTES = 8 << 30
SLOTS, TEXT_CONTEXT = 8, 1024  # texts that are written at once, and tokens of each
SAVE_SECONDS, GRACE_SECONDS = 5.0, 10.0
TEXTS = "texts.jsonl"


@dataclass(frozen=True, slots=True)
class Learned:
    """The state of a training when its time was over."""

    step: int = 0
    measured: tuple[HeldOut, ...] = ()  # in the last run
    note: str = ""  # why it ended before its time


def train_apart(files: ModelFiles, folder: Path, budget: float, path: Path | None) -> Learned:
    """Train in another process, of low priority; it ends with this one."""
    context = get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=train_here, args=(sender, files, folder, budget, path))
    process.start()
    sender.close()
    try:
        learned: Learned | LocalSpecError = receiver.recv()
    except EOFError:
        process.join()
        way = "the same command goes on where it stopped"
        raise BackendError(f"the training ended with {process.exitcode}: {way}") from None
    finally:
        process.join(GRACE_SECONDS)  # a Ctrl-C reaches it, too: it saves what it learned
        process.terminate()
        process.join()
    if isinstance(learned, LocalSpecError):
        raise learned
    return learned


def train_here(
    sender: Connection, files: ModelFiles, folder: Path, budget: float, path: Path | None
) -> None:
    """Train in this process, and send what came of it; state is saved however it ends."""
    be_modest()
    threading.Thread(target=end_with_parent, daemon=True).start()
    with suppress(KeyboardInterrupt, SystemExit), leaving():
        try:
            sender.send(TrainingRun(files, folder, budget).go_on(path))
        except LocalSpecError as error:
            sender.send(error)


def end_with_parent() -> None:
    if parent := parent_process():
        parent.join()
        os._exit(1)


def working_seconds(folder: Path) -> float:
    """Read how long a training in a folder has worked."""
    return kept_json.load(folder / "time.json", lambda record: float(record["seconds"])) or 0.0


class TrainingRun:
    """One run of a training, from where the last one stopped."""

    def __init__(self, files: ModelFiles, folder: Path, budget: float) -> None:
        self.files, self.folder = files, folder
        self.store = TextStore(folder / TEXTS)
        self.work = WorkTime(budget, working_seconds(folder))
        self.line = self.work.tell = TrainingLine(self.work)
        self._saved = 0.0

    def go_on(self, path: Path | None) -> Learned:
        """Do what is left of all phases, as far as the time goes."""
        try:
            self._gather(path)
            self._record()
            return self._train()
        finally:
            self._save()
            self.line.close()

    def _gather(self, path: Path | None) -> None:
        """Have the model write, and read as much of the user's texts beside, then the rest."""
        if path is None and self._written_enough():
            return
        options = Options(slots=SLOTS, context=SLOTS * TEXT_CONTEXT, shared=True)
        loading = Loading(options, proposer="none", backend=self.files.engine.name)
        alone = PairFiles.for_target(self.files, None, self.files.engine.name, alone=True)
        with load_pair(alone, loading) as runtime:
            others = texts_of_others(runtime, path)
            if not self._written_enough():
                self._write(runtime, others)
            self._read(others, MAX_READ_TOKENS)

    def _write(self, runtime: Runtime, others: Iterator[tuple[Text, str]]) -> None:
        begun, tokens = self.store.counts[WRITTEN], self.store.tokens
        with closing(writing.write(runtime, begun, self.work.breathe)) as texts:
            for text in texts:
                self.store.add(text, WRITTEN)
                self._read(others, min(tokens[WRITTEN], MAX_READ_TOKENS))
                self._tell("the model writes", f"{tokens[WRITTEN]:,} tokens so far")
                if self._written_enough():
                    return

    def _read(self, others: Iterator[tuple[Text, str]], most: int) -> None:
        """Add texts of others until so many of their tokens are there."""
        tokens = self.store.tokens
        while tokens.total() - tokens[WRITTEN] < most and (other := next(others, None)):
            self.store.add(*other)

    def _written_enough(self) -> bool:
        enough = self.store.tokens[WRITTEN] > MAX_WRITTEN_TOKENS or self._late(WRITE_UNTIL)
        return enough and self.store.counts[WRITTEN] >= LEAST_TEXTS

    def _late(self, share: float) -> bool:
        return self.work.seconds > share * self.work.budget

    def _record(self) -> None:
        texts, folder = self.store.texts, self.folder
        tokens = self.store.tokens.total()
        recording = record(self.files, texts, folder, self.work.breathe, MAX_RECORDED_BYTES)
        with closing(recording):
            while not (self._late(RECORD_UNTIL) and recorded_tokens(folder)):
                recorded = next(recording, None)
                if recorded is None:
                    return
                self._tell("the model reads", f"{recorded:,} of {tokens:,} tokens")

    def _train(self) -> Learned:
        from localspec.apps.training.loop import train  # only here: it needs torch

        learned = Learned()
        with closing(train(self.files, self.folder, self.work.breathe)) as steps:
            for report in steps:
                measured = learned.measured
                if report.held_out and report.held_out not in measured[-1:]:
                    measured = (*measured, report.held_out)
                learned = Learned(report.step, measured, report.note)
                self._tell("the head learns", progress(report))
                if not self.work.left:
                    break
        return learned

    def _tell(self, phase: str, state: str) -> None:
        self.line(phase, state)
        if self.work.seconds - self._saved > SAVE_SECONDS:
            self._save()

    def _save(self) -> None:
        self._saved = self.work.seconds
        write(self.folder / "time.json", json.dumps({"seconds": self._saved}))


def texts_of_others(runtime: Runtime, path: Path | None) -> Iterator[tuple[Text, str]]:
    """Yield the pieces of kept replies, then those of the user's files, each with its source."""
    encode, begin = runtime.tokenizer.encode, tokens_of(runtime.text.started([]))
    for piece in pieces(kept_replies(), partial(encode, special=True), begin):
        yield piece, KEPT
    for piece in pieces(read_texts(path) if path else (), encode, begin):
        yield piece, FILED


def progress(report: Report) -> str:
    """Report a step, and what the drafter has learned until then."""
    text = f"step {report.step:,}"
    return f"{text}, {shares(report.held_out.greedy)} accepted" if report.held_out else text


def shares(accepted: Sequence[float]) -> str:
    """Write the share of drafts that are accepted, by position, as 36/32/29/28%."""
    return "/".join(f"{100 * share:.0f}" for share in accepted) + "%"
