"""The WebSockets that the SDKs of LM Studio talk by: calls and channels, several at a time."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import suppress
from functools import partial

from fastapi import APIRouter
from pydantic import JsonValue, ValidationError
from starlette.websockets import WebSocket, WebSocketDisconnect

from localspec.server.faults import Fault, Refused
from localspec.server.handler import RequestHandler
from localspec.server.lmstudio.asked import PredictRequest
from localspec.server.lmstudio.calls import Calls
from localspec.server.lmstudio.prediction import Prediction
from localspec.server.lmstudio.wire import (
    Call,
    Greeting,
    Kind,
    Object,
    closed,
    failed,
    result,
    sent,
    warning,
)
from localspec.server.replies.streaming import logged_fault
from localspec.server.requests.json_size import check_size
from localspec.server.requests.reading import is_large
from localspec.server.safety import admitted

NAMESPACES = ("llm", "embedding", "system", "diagnostics", "files", "repository", "plugins")
SECONDS = 10.0  # for a client to say who it is
MOST = 64  # calls and channels of one client that are open at once
REFUSED = 1008  # a status of WebSockets
PREDICTING = ("predict", "completeRawText")
LOADING = ("getOrLoad", "loadModel")


def sockets(handler: RequestHandler) -> APIRouter:
    routes, calls = APIRouter(), Calls(handler)

    @routes.get("/lmstudio-greeting", include_in_schema=False)
    async def greeting() -> Object:
        """Tell SDKs that look for a server that there is one."""
        return {"lmstudio": True}

    for namespace in NAMESPACES:

        @routes.websocket(f"/{namespace}")
        async def talk(socket: WebSocket, namespace: str = namespace) -> None:
            await Session(socket, namespace, handler, calls).run()

    return routes


class Session:
    """One connection. Whatever is under way ends with it."""

    def __init__(
        self, socket: WebSocket, namespace: str, handler: RequestHandler, calls: Calls
    ) -> None:
        self._socket = socket
        self._namespace = namespace
        self._handler = handler
        self._calls = calls
        self._open: set[asyncio.Task[None]] = set()
        self._predictions: dict[int, Prediction] = {}

    async def run(self) -> None:
        await self._socket.accept()
        try:
            if await self._greeted():
                while True:
                    await self._take(await self._socket.receive_text())
        except WebSocketDisconnect:
            pass
        except KeyError:  # it sends bytes
            await self._close()
        finally:
            for task in self._open:
                task.cancel()
            await asyncio.gather(*self._open, return_exceptions=True)

    async def _greeted(self) -> bool:
        try:
            async with asyncio.timeout(SECONDS):
                said, _ = await self._parsed(await self._socket.receive_text())
                greeting = Greeting.model_validate(said)
            if not any(admitted(self._socket.scope, key) for key in greeting.keys):
                raise PermissionError
        except (TimeoutError, ValidationError, PermissionError, Refused):
            error = "this server wants an API key: give it as clientPasskey"
            await self._say(json.dumps({"success": False, "error": error}))
            await self._close()
            return False
        await self._say(json.dumps({"success": True}))
        return True

    async def _parsed(self, text: str) -> tuple[dict[str, JsonValue], bool]:
        """Read a message within bounds; tell whether it is large, which is read on a thread."""
        large = is_large(text)
        if large:
            self._handler.preparing.check_room()
            return await self._handler.preparing.run(partial(parsed, text), large=True), True
        return parsed(text), False

    async def _take(self, text: str) -> None:
        try:
            given, large = await self._parsed(text)
        except Refused as error:
            await self._say(warning(str(error)))
            return
        match given:
            case {"type": "rpcCall", "endpoint": str(), "callId": int()}:
                await self._begin("rpc", call_of(given, "callId", "parameter", large))
            case {"type": "channelCreate", "endpoint": str(), "channelId": int()}:
                call = call_of(given, "channelId", "creationParameter", large)
                await self._begin("channel", call)
            case {"type": "channelSend", "channelId": int(number), "message": {"type": "cancel"}}:
                if number in self._predictions:
                    self._predictions[number].cancel()
            case {"type": "keepAlive"}:
                await self._say(json.dumps({"type": "keepAliveAck"}))
            case {"type": "channelAck" | "communicationWarning" | "channelSend"}:
                pass
            case _:
                await self._say(warning("this message is not known here"))

    async def _begin(self, kind: Kind, call: Call) -> None:
        if len(self._open) >= MOST:
            fault = Fault(503, f"{MOST} calls of this client are under way, which is the limit")
            await self._say(failed(kind, call.id, fault))
            return
        work = self._call(call) if kind == "rpc" else self._channel(call)
        task = asyncio.create_task(self._guarded(kind, call, work))
        self._open.add(task)
        task.add_done_callback(self._open.discard)

    async def _guarded(self, kind: Kind, call: Call, work: AsyncIterator[str]) -> None:
        """Answer, or tell what is wrong; a client that has left hears nothing."""
        try:
            async for text in work:
                await self._say(text)
        except ValidationError as error:
            await self._say(failed(kind, call.id, invalid(error)))
        except Exception as error:
            await self._say(failed(kind, call.id, logged_fault(error)))

    async def _call(self, call: Call) -> AsyncIterator[str]:
        known = self._calls.known.get(f"{self._namespace}/{call.endpoint}")
        if known is None:
            raise Refused(self._missing(call))
        yield result(call.id, await known(call.parameter))

    async def _channel(self, call: Call) -> AsyncIterator[str]:
        """Answer on a channel until all is said."""
        try:
            async for message in await self._messages(call):
                yield sent(call.id, message)
            yield closed(call.id)
        finally:
            self._predictions.pop(call.id, None)

    async def _messages(self, call: Call) -> AsyncIterator[Object]:
        if self._namespace == "llm" and call.endpoint in PREDICTING:
            read = partial(PredictRequest.model_validate, call.parameter)
            asked = await self._handler.preparing.run(read, large=True) if call.large else read()
            found = self._predictions[call.id] = Prediction(self._handler, asked, large=call.large)
            return found.messages()
        if self._namespace == "llm" and call.endpoint in LOADING:
            return self._calls.loading(call.endpoint, call.parameter)
        raise Refused(self._missing(call))

    def _missing(self, call: Call) -> Fault:
        what = f"{self._namespace}/{call.endpoint[:80]}"
        return Fault(501, f"this server has no {what}: models here continue text")

    async def _say(self, text: str) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):  # it is closed
            await self._socket.send_text(text)

    async def _close(self) -> None:
        with suppress(WebSocketDisconnect, RuntimeError):
            await self._socket.close(REFUSED)


def parsed(text: str) -> dict[str, JsonValue]:
    """Read a message within bounds; one that is no object is empty."""
    check_size(text)
    try:
        found: JsonValue = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}


def call_of(given: dict[str, JsonValue], number: str, parameter: str, large: bool) -> Call:
    found = {"endpoint": given["endpoint"], "id": given[number], "parameter": given.get(parameter)}
    return Call.model_validate({**found, "large": large})


def invalid(error: ValidationError) -> Fault:
    """Name the first fault of a request."""
    first = error.errors()[0]
    where = ".".join(map(str, first["loc"]))[:200]
    return Fault(400, f"{where}: {first['msg']}", where or None)
