"""The phases of a training: texts, what the model makes of them, and the drafter.

All of it lies in a folder, so that a training that was stopped goes on from there.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from localspec.backend import Options
from localspec.bench.training_line import TrainingLine
from localspec.models.locate import ModelFiles
from localspec.runtime.loading import Loading, load_pair
from localspec.runtime.pair_files import PairFiles
from localspec.runtime.runtime import Runtime
from localspec.system import kept_json
from localspec.system.atomic_write import write
from localspec.tokens import tokens_of
from localspec.training import writing
from localspec.training.record import Text, record, recorded_tokens
from localspec.training.texts import FILED, WRITTEN, TextStore, pieces, read_texts
from localspec.training.working import WorkTime

if TYPE_CHECKING:
    from localspec.training.loop import Report
    from localspec.training.promise import HeldOut

WRITE_UNTIL, RECORD_UNTIL = 0.4, 0.6  # shares of the time, at which the next phase begins
LEAST_TEXTS = 16  # that are written in any case: one of them is held out
MAX_FILE_TOKENS = 1_000_000  # of the user's own files
MAX_WRITTEN_TOKENS = 2_000_000
MAX_RECORDED_BYTES = 8 << 30
SLOTS, TEXT_CONTEXT = 8, 1024  # texts that are written at once, and tokens of each
SAVE_SECONDS = 5.0


@dataclass(slots=True)
class TrainingRun:
    """One training of a drafter for a model, as far as it has come."""

    files: ModelFiles
    folder: Path
    work: WorkTime
    store: TextStore
    line: TrainingLine
    step: int = 0
    measured: list[HeldOut] = field(default_factory=list)  # in this run
    note: str = ""  # why it ended before its time
    _saved: float = 0.0

    @classmethod
    def open(cls, files: ModelFiles, folder: Path, budget: float) -> TrainingRun:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        spent = 0.0
        with suppress(OSError, ValueError, KeyError):
            spent = float(kept_json.read(folder / "time.json")["seconds"])
        work = WorkTime(budget, spent)
        line = work.tell = TrainingLine(work)
        return cls(files, folder, work, TextStore(folder / "texts.jsonl"), line)

    def go_on(self, path: Path | None) -> None:
        """Do what is left of all phases, as far as the time goes."""
        try:
            self._gather(path)
            self._record()
            self._train()
        finally:
            self._save()
            self.line.close()

    def _gather(self, path: Path | None) -> None:
        """Have the model write, and read as much of the user's files beside, then the rest."""
        if path is None and self._written_enough():
            return
        options = Options(slots=SLOTS, context=SLOTS * TEXT_CONTEXT, shared=True)
        loading = Loading(options, proposer="none", backend=self.files.engine)
        alone = PairFiles.for_target(self.files, None, self.files.engine, alone=True)
        with load_pair(alone, loading) as runtime:
            begin = tokens_of(runtime.started([]))
            texts = read_texts(path) if path else ()
            filed = pieces(texts, runtime.tokenizer.encode, begin)
            if not self._written_enough():
                self._write(runtime, filed)
            self._file(filed, MAX_FILE_TOKENS)

    def _write(self, runtime: Runtime, filed: Iterator[Text]) -> None:
        begun, tokens = self.store.counts[WRITTEN], self.store.tokens
        with closing(writing.write(runtime, begun, self.work.breathe)) as texts:
            for text in texts:
                self.store.add(text, WRITTEN)
                self._file(filed, min(tokens[WRITTEN], MAX_FILE_TOKENS))
                self._tell(f"the model writes, {tokens[WRITTEN]:,} tokens so far")
                if self._written_enough():
                    return

    def _file(self, filed: Iterator[Text], most: int) -> None:
        """Add pieces of the user's files until so many tokens of them are there."""
        while self.store.tokens[FILED] < most and (piece := next(filed, None)):
            self.store.add(piece, FILED)

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
                self._tell(f"the model reads, {recorded:,} of {tokens:,} tokens")

    def _train(self) -> None:
        from localspec.training.loop import train  # only here: it needs torch

        with closing(train(self.files, self.folder, self.work.breathe)) as steps:
            for report in steps:
                self.step, self.note = report.step, report.note
                if report.held_out and report.held_out not in self.measured[-1:]:
                    self.measured.append(report.held_out)
                self._tell(progress(report))
                if not self.work.left:
                    return

    def _tell(self, doing: str) -> None:
        self.line(doing)
        if self.work.seconds - self._saved > SAVE_SECONDS:
            self._save()

    def _save(self) -> None:
        self._saved = self.work.seconds
        write(self.folder / "time.json", json.dumps({"seconds": self._saved}))


def progress(report: Report) -> str:
    """Tell a step, and what the drafter has learned until then."""
    text = f"step {report.step:,}"
    return f"{text}, {shares(report.held_out.greedy)} accepted" if report.held_out else text


def shares(accepted: Sequence[float]) -> str:
    """Write the share of drafts that are accepted, by position, as 36/32/29/28%."""
    return "/".join(f"{100 * share:.0f}" for share in accepted) + "%"
