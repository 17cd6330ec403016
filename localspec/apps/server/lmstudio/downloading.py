"""Downloads as LM Studio's API has them: jobs that go on by themselves, and are asked about."""

from __future__ import annotations

import secrets
from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Literal

from fastapi import APIRouter, Depends
from pydantic import Field

from localspec.apps.server.faults import Fault, Refused
from localspec.apps.server.handler import RequestHandler
from localspec.apps.server.model_library import Download
from localspec.apps.server.replies.streaming import logged_fault
from localspec.apps.server.requests.leniency import RequestPart

MAX_JOBS = 64  # jobs that can be asked about, the newest
HUB = "https://"  # before addresses of repositories

Object = dict[str, object]


class DownloadRequest(RequestPart):
    model: str = Field(min_length=1)
    quantization: str = ""

    @property
    def pull_name(self) -> str:
        """The name by which the model is pulled."""
        name = self.model.removeprefix(HUB).rstrip("/")
        return f"{name}:{self.quantization}" if self.quantization else name


@dataclass(slots=True)
class DownloadJob:
    id: str = field(default_factory=lambda: f"job_{secrets.token_hex(12)}")
    status: Literal["downloading", "completed", "failed"] = "downloading"
    done: int = 0
    total: int = 0
    error: str = ""
    started: str = field(default_factory=lambda: now())
    ended: str = ""

    async def follow(self, downloading: AsyncGenerator[Download]) -> None:
        """Note how far a download is, and how it ended."""
        try:
            async with aclosing(downloading) as steps:
                async for step in steps:
                    self.done, self.total = min(step.done, step.total), step.total
            self.status = "completed"
        except Exception as error:
            self.status, self.error = "failed", logged_fault(error).message
        self.ended = now()

    def report(self) -> Object:
        sizes = {"total_size_bytes": self.total, "downloaded_bytes": self.done}
        fields: Object = {"job_id": self.id, "status": self.status, "started_at": self.started}
        fields |= {"completed_at": self.ended} if self.status == "completed" else {}
        return fields | sizes | ({"error": self.error} if self.error else {})


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def downloading(routes: APIRouter, handler: RequestHandler) -> None:
    jobs: dict[str, DownloadJob] = {}

    @routes.post("/api/v1/models/download", dependencies=[Depends(handler.manager)])
    async def download(body: DownloadRequest) -> Object:
        """Begin to download a model, which goes on after the answer."""
        await handler.downloads.look_for(body.pull_name)
        if handler.host.offers.knows(body.pull_name):
            return {"status": "already_downloaded"}
        job = DownloadJob()
        handler.host.work(job.follow(handler.downloads.begin(body.pull_name)))
        jobs[job.id] = job
        while len(jobs) > MAX_JOBS:
            del jobs[next(iter(jobs))]
        return job.report()

    @routes.get("/api/v1/models/download/status/{id}")
    async def status(id: str) -> Object:
        """Report how far a download is."""
        if id not in jobs:
            raise Refused(Fault(404, f"there is no download {id[:80]!r} here"))
        return jobs[id].report()
