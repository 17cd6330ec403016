"""Streams: answers sent while they are made, for as long as their client listens."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterable
from contextlib import AsyncExitStack, aclosing, suppress
from typing import Protocol, TypeVar

from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from localspec.apps.server.faults import Fault, Refused, fault_of
from localspec.apps.server.monitoring.request_log import DIRECT
from localspec.apps.server.replies.reply import Choices, Step
from localspec.base.system import defects

T = TypeVar("T")
Bodies = Iterable[bytes | None]  # None: the client should hear that the server still lives

SSE = "text/event-stream"
LINES = "application/x-ndjson"
NOT_OFFERED = 501  # a status that means no failure
KEEP_ALIVE = b": still here\n\n"

log = logging.getLogger("localspec.server")


class Answer(Protocol):
    """The format of one API."""

    async def whole(self) -> object: ...

    def opening(self) -> Bodies:
        """Yield the beginning of a stream."""

    def bodies(self, number: int, step: Step | None) -> Bodies:
        """Encode a step of a reply; None, where nothing came for a while, is a sign of life."""

    async def closing(self) -> Bodies:
        """Yield its end."""


class Streaming(Response):
    """A stream, which ends in its API's end mark, or in an error in its format.

    What has come by the time the loop gets to it is sent together, in one write.
    """

    def __init__(
        self,
        answer: Answer,
        choices: Choices,
        leases: AsyncExitStack,
        stream_error: Callable[[Fault], bytes],
        media_type: str = SSE,
    ) -> None:
        super().__init__(media_type=media_type, headers={"Cache-Control": "no-store"})
        del self.headers["content-length"]
        self._answer = answer
        self._choices = choices
        self._leases = leases
        self._stream_error = stream_error
        self._keep_alive = KEEP_ALIVE if media_type == SSE else b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # The pieces go past what wraps `send`, which looks at the start of a response only and
        # would be awaited in vain: `request_log.RequestLog` leaves its own `send` in the scope.
        direct: Send = scope.get(DIRECT, send)

        async def put(body: bytes, *, more: bool = True) -> None:
            await direct({"type": "http.response.body", "body": body, "more_body": more})

        async with self._leases:
            try:
                headers = self.raw_headers
                await send({"type": "http.response.start", "status": 200, "headers": headers})
                await put(await while_listening(receive, self._pass_on(put)), more=False)
            except Gone:
                pass
            except asyncio.CancelledError:  # the server shuts down
                ending = self._stream_error(Fault(503, "the server is shutting down"))
                with suppress(Exception):
                    await put(ending, more=False)
                raise
            except Exception as error:
                await put(self._stream_error(logged_fault(error)), more=False)

    async def _pass_on(self, put: Callable[[bytes], Awaitable[None]]) -> bytes:
        """Send pieces as they come; return the last, which is sent with the end of the response."""
        answer, end = self._answer, b""
        await put(self._join(answer.opening()))
        async with aclosing(self._choices.steps()) as steps:
            async for batch in steps:
                bodies = [body for number, step in batch for body in answer.bodies(number, step)]
                body = self._join(bodies)
                if self._choices.over:
                    end = body
                elif body:
                    await put(body)
        try:
            closing = self._join(await answer.closing())
        except BaseException:
            await put(end)  # before the error, or the end of the server
            raise
        return end + closing

    def _join(self, bodies: Bodies) -> bytes:
        return b"".join([self._keep_alive if body is None else body for body in bodies])


class Gone(Exception):
    """Raised when the client has left."""


async def while_listening(receive: Receive, work: Awaitable[T]) -> T:
    """Return the result of work, unless the client leaves first."""
    working = asyncio.ensure_future(work)
    leaving = asyncio.create_task(_left(receive))
    leaving.add_done_callback(lambda _: working.cancel())
    try:
        return await working
    except asyncio.CancelledError:
        if leaving.done():
            raise Gone from None
        raise
    finally:
        leaving.cancel()


async def _left(receive: Receive) -> None:
    with suppress(Exception):  # as of a body that goes on, and is too long
        while (await receive())["type"] != "http.disconnect":
            pass


def logged_fault(error: Exception) -> Fault:
    """Return the fault that a client gets for an error; log what it does not get."""
    fault = fault_of(error)
    if fault.status >= 500 and fault.status != NOT_OFFERED:
        log.error("request failed: %s", error, exc_info=fault.status == 500)
        if not isinstance(error, Refused):  # which is no defect, and may come often
            defects.keep(error)
    return fault
