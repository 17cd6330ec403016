"""Clients' files of requests, and the batches that answer them, in a folder."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock

from localspec.apps.server.faults import Fault, Refused
from localspec.apps.server.replies.frame import new_id
from localspec.base.system import kept_json
from localspec.base.system.atomic_write import write
from localspec.base.system.folders import make_private

MAX_FILES = 1_000  # of an owner
MAX_BATCHES = 1_000  # of an owner; of ended ones the oldest go
MAX_OPEN = 100  # batches of an owner that wait or are worked on
OUTPUT = "batch_output"
OPEN = ("in_progress", "cancelling")

Object = dict[str, Any]


@dataclass(frozen=True, slots=True)
class StoredFile:
    id: str
    owner: str  # whose API key it came with
    filename: str
    purpose: str
    bytes: int
    created_at: int

    def api_object(self) -> Object:
        facts = asdict(self)
        del facts["owner"]
        return {**facts, "object": "file", "status": "processed"}


@dataclass(slots=True)
class Batch:
    id: str
    owner: str
    endpoint: str
    input_file_id: str
    completion_window: str
    metadata: dict[str, str]
    model: str  # as the requests name it
    served: str  # the name of the one that answers them
    total: int
    errors: list[Object]  # why the file is no file of requests
    answers: str  # identifiers of the files that are written
    refusals: str
    times: dict[str, int] = field(default_factory=dict)  # of each status
    status: str = "in_progress"
    completed: int = 0
    failed: int = 0
    starts: int = 0  # since an answer came: of a server that ends each time

    @property
    def is_open(self) -> bool:
        return self.status in OPEN

    def become(self, status: str) -> None:
        self.status = status
        self.times[f"{status}_at"] = int(time.time())

    def api_object(self) -> Object:
        times = ("in_progress", "completed", "failed", "cancelling", "cancelled")
        has_ended = not self.is_open
        return {
            "id": self.id,
            "object": "batch",
            "endpoint": self.endpoint,
            "model": self.model,
            "errors": {"object": "list", "data": self.errors} if self.errors else None,
            "input_file_id": self.input_file_id,
            "completion_window": self.completion_window,
            "status": self.status,
            "output_file_id": self.answers if has_ended and self.completed else None,
            "error_file_id": self.refusals if has_ended and self.failed else None,
            "created_at": self.times["created_at"],
            **{f"{name}_at": self.times.get(f"{name}_at") for name in times},
            "finalizing_at": None,
            "expires_at": None,
            "expired_at": None,
            "request_counts": {
                "total": self.total,
                "completed": self.completed,
                "failed": self.failed,
            },
            "metadata": self.metadata or None,
        }


def described_error(code: str, message: str, line: int | None = None) -> Object:
    return {"code": code, "message": message, "param": None, "line": line}


def answers_in(file: Path) -> int:
    """Count the whole lines of a file."""
    return file.read_bytes().count(b"\n") if file.exists() else 0


class BatchStore:
    """Holds a bounded number of files and bytes of each owner. Belongs to one server at a time.

    Raises a filelock.Timeout where another one has the folder.
    """

    def __init__(self, folder: Path, most_bytes: int) -> None:
        make_private(folder)
        self._folder, self.most_bytes = folder, most_bytes
        self._lock = FileLock(folder / "lock", timeout=0, thread_local=False)
        self._lock.acquire()
        files = kept_json.newest(folder / "files", lambda record: StoredFile(**record))
        self.files = {file.id: file for file in sorted(files, key=lambda file: file.created_at)}
        batches = kept_json.newest(folder / "batches", lambda record: Batch(**record))
        batches.sort(key=lambda batch: batch.times["created_at"])
        self.batches = {batch.id: batch for batch in batches}
        self._drop_unnamed()
        for batch in filter(lambda batch: batch.is_open, batches):
            batch.completed = answers_in(self.content(batch.answers))
            batch.failed = answers_in(self.content(batch.refusals))

    def close(self) -> None:
        self._lock.release()

    def content(self, id: str) -> Path:
        """Return where the content of a file lies; the identifier is one of ours."""
        return self._folder / f"{id}.jsonl"

    def add(self, owner: str, filename: str, purpose: str, data: bytes) -> StoredFile:
        """Keep a file, if its owner has room for it."""
        self._require_room(owner, len(data))
        file = StoredFile(new_id("file-"), owner, filename, purpose, len(data), int(time.time()))
        path = self.content(file.id)
        try:
            path.write_bytes(data)
            self._name(file)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise Refused(Fault(507, f"the file cannot be kept: {error.strerror}")) from error
        return file

    def files_of(self, owner: str) -> list[StoredFile]:
        """List an owner's files, the oldest first; any thread may call it."""
        return [file for file in tuple(self.files.values()) if file.owner == owner]

    def _require_room(self, owner: str, more: int) -> None:
        own = self.files_of(owner)
        taken = sum(file.bytes for file in own)
        if len(own) >= MAX_FILES:
            raise Refused(Fault(413, f"{len(own):,} files are kept, as many as may: delete some"))
        if taken + more > self.most_bytes:
            message = f"{taken:,} bytes of files are kept and {more:,} would come"
            raise Refused(Fault(413, f"{message}; {self.most_bytes:,} may: delete some"))

    def _name(self, file: StoredFile) -> None:
        write(self._folder / "files" / f"{file.id}.json", json.dumps(asdict(file)))
        self.files[file.id] = file

    def delete(self, id: str) -> None:
        del self.files[id]
        (self._folder / "files" / f"{id}.json").unlink(missing_ok=True)
        self.content(id).unlink(missing_ok=True)

    def begin(self, batch: Batch) -> None:
        """Keep a new batch; forget the oldest that ended, where there are too many."""
        own = [other for other in self.batches.values() if other.owner == batch.owner]
        if sum(other.is_open for other in own) >= MAX_OPEN:
            raise Refused(Fault(429, f"{MAX_OPEN} batches wait, as many as may"))
        too_many = max(len(own) - MAX_BATCHES + 1, 0)
        for other in [other for other in own if not other.is_open][:too_many]:
            del self.batches[other.id]
            self._record(other).unlink(missing_ok=True)
        self.batches[batch.id] = batch
        self.keep(batch)

    def keep(self, batch: Batch) -> None:
        write(self._record(batch), json.dumps(asdict(batch)))

    def end(self, batch: Batch, status: str) -> None:
        """End a batch, and name the files that it wrote."""
        names = {batch.answers: "output", batch.refusals: "error"}
        for id, name in names.items():
            path, filename = self.content(id), f"{batch.id}_{name}.jsonl"
            size = path.stat().st_size if path.exists() else 0
            if not size:
                path.unlink(missing_ok=True)
            else:
                now = int(time.time())
                self._name(StoredFile(id, batch.owner, filename, OUTPUT, size, now))
        batch.become(status)
        self.keep(batch)

    def reader(self, file: StoredFile) -> str:
        """Return the identifier of an open batch that reads a file; empty: there is none."""
        open_ones = (batch for batch in self.batches.values() if batch.is_open)
        return next((batch.id for batch in open_ones if batch.input_file_id == file.id), "")

    def _record(self, batch: Batch) -> Path:
        return self._folder / "batches" / f"{batch.id}.json"

    def _drop_unnamed(self) -> None:
        """Remove contents that nothing names: of an upload that was cut off."""
        named = {*self.files, *self._written()}
        for path in self._folder.glob("file-*.jsonl"):
            if path.stem not in named:
                with suppress(OSError):
                    path.unlink()

    def _written(self) -> Iterator[str]:
        for batch in self.batches.values():
            if batch.is_open:
                yield from (batch.answers, batch.refusals)
