"""The paths of Ollama's API by which models are downloaded, copied and deleted."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from pydantic import Field
from starlette.requests import Request
from starlette.responses import Response, StreamingResponse
from starlette.routing import BaseRoute

from localspec.apps.server.faults import refused
from localspec.apps.server.handler import RequestHandler
from localspec.apps.server.model_library import Download
from localspec.apps.server.ollama.answer import line, stream_error
from localspec.apps.server.replies.streaming import LINES, logged_fault, while_listening
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.reading import body_route

SUCCESS: dict[str, object] = {"status": "success"}


class NamedModel(RequestPart):
    model: str = ""
    name: str = ""  # as older clients call it

    @property
    def required_name(self) -> str:
        if not (self.model or self.name):
            raise refused("say which model", "model")
        return self.model or self.name


class PullRequest(NamedModel):
    stream: bool = True
    insecure: bool = False  # harmless: there is no registry of one's own to trust


class CopyRequest(RequestPart):
    source: str = Field(min_length=1)
    destination: str = Field(min_length=1)


def managing(handler: RequestHandler) -> list[BaseRoute]:
    async def pull(request: Request, body: PullRequest) -> Response:
        """Download a model; if the client leaves, the download stops and may go on later."""
        await handler.manager(request)
        downloading = handler.downloads.begin(body.required_name)
        if body.stream:
            return StreamingResponse(pull_lines(downloading), media_type=LINES)
        await while_listening(request.receive, wait_for(downloading))
        return Response(line(SUCCESS), media_type="application/json")

    async def delete(request: Request, body: NamedModel) -> Response:
        """Forget a model that was pulled, and free its disk."""
        await handler.manager(request)
        await handler.downloads.delete(body.required_name)
        return Response()

    async def copy(request: Request, body: CopyRequest) -> Response:
        """Give a model that was pulled another name."""
        await handler.manager(request)
        await handler.downloads.copy(body.source, body.destination)
        return Response()

    return [
        body_route("/api/pull", PullRequest, pull),
        body_route("/api/delete", NamedModel, delete, method="DELETE"),
        body_route("/api/copy", CopyRequest, copy),
    ]


async def wait_for(downloading: AsyncGenerator[Download]) -> None:
    async with aclosing(downloading) as steps:
        async for _ in steps:
            pass


async def pull_lines(downloading: AsyncGenerator[Download]) -> AsyncIterator[bytes]:
    last = line({"status": "pulling manifest"})
    yield last
    try:
        async with aclosing(downloading) as steps:
            async for download in steps:
                if (fresh := line(pull_status(download))) != last:
                    yield fresh
                last = fresh
        yield line({"status": "writing manifest"})
        yield line(SUCCESS)
    except Exception as error:
        yield stream_error(logged_fault(error))


def pull_status(download: Download) -> dict[str, object]:
    if not download.phase.startswith("pulling ") or not download.total:
        return {"status": download.phase}
    digest = hashlib.sha256(download.name.encode()).hexdigest()  # clients tell bars apart by it
    done = min(download.done, download.total)
    progress = {"digest": f"sha256:{digest}", "total": download.total, "completed": done}
    return {"status": download.phase, **progress}
