"""The way from a request to rows of numbers, for as long as its client listens."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from starlette.requests import Request
from starlette.responses import Response

from localspec.apps.server.faults import refused
from localspec.apps.server.handler import RequestHandler
from localspec.apps.server.replies.streaming import while_listening
from localspec.apps.server.requests.reading import is_short
from localspec.apps.server.served import Served
from localspec.base.tokens import Tokens, Vectors
from localspec.interfaces.footprint import Kind
from localspec.running.runtime.vector_runtime import VectorRuntime

MAX_TEXTS = 2_048  # of a request, as with OpenAI
QUICK_NUMBERS = 1_024  # that are written in less time than it takes to go to a thread


class VectorBody(Protocol):
    """A request's body that has texts to read."""

    @property
    def model(self) -> str: ...

    def ignored(self) -> Iterator[str]:
        """Yield the paths of fields that have no effect."""

    def tokens(self, runtime: VectorRuntime) -> Sequence[Tokens]:
        """Tokenise the texts; slow, so not on the event loop."""


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of a request's texts, and the number of tokens that were read for them."""

    model: str
    rows: Vectors
    token_count: int

    @property
    def usage(self) -> dict[str, int]:
        return {"prompt_tokens": self.token_count, "total_tokens": self.token_count}


Write = Callable[[Rows], bytes]  # writes an answer as JSON; slow, so not on the event loop


async def answer(
    handler: RequestHandler, request: Request, body: VectorBody, kind: Kind, write: Write
) -> Response:
    """Read the texts of a request, by a model of a kind, and write the answer."""
    await handler.report_ignored(request, body, kind=kind)
    async with handler.host.lease(body.model, kind=kind) as served:
        tokenise = partial(body.tokens, served.vectors)
        texts = await handler.run(request, tokenise, quick=is_short(request))
        rows = await while_listening(request.receive, read(served, texts))
    result = Rows(served.name, rows, sum(map(len, texts)))
    handler.metrics.note_texts(result.model, len(texts), result.token_count)
    quick = rows.size <= QUICK_NUMBERS
    content = await handler.run(request, partial(write, result), quick=quick)
    return Response(content, media_type="application/json")


def read(served: Served, texts: Sequence[Tokens]) -> asyncio.Future[Vectors]:
    """Begin to read texts; where nobody waits for their rows any more, no more are read."""
    future: asyncio.Future[Vectors] = asyncio.get_running_loop().create_future()

    def end(result: Vectors | Exception) -> None:
        if future.done():
            return
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)

    def done(result: Vectors | Exception) -> None:
        served.bell.call(partial(end, result))

    reading = served.vectors.submit(texts, done)
    future.add_done_callback(lambda _: reading.cancel())
    return future


def require_few(count: int, field: str) -> None:
    if not count:
        raise refused(f"{field} is empty: give one text at least", field)
    if count > MAX_TEXTS:
        raise refused(f"{field} has {count:,} texts; a request may have {MAX_TEXTS:,}", field)
