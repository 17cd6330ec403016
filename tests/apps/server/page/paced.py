"""A server of the page whose one model writes words at a steady pace, as a fast one would."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from collections.abc import AsyncIterator, Sequence

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

from localspec.apps.server.inspection.routes import about
from localspec.apps.server.listening import bind
from localspec.apps.server.page.routes import page_routes

MODEL = {
    "id": "paced",
    "status": {"value": "loaded"},
    "drafter": None,
    "architecture": {"output_modalities": ["text"]},
}
FRAME_SECONDS = 1 / 60  # between two writes, as the server has it
ROUND = (3, 2)  # tokens drafted and accepted in every other round


class PacedServer:
    """Streams given tokens at a rate, traced as the real server traces them."""

    def __init__(self, tokens: Sequence[str], rate: float) -> None:
        self.tokens, self.rate = tokens, rate
        routes = [
            *page_routes(),
            Route("/v1/chat/completions", self._chat, methods=["POST"]),
            Route("/v1/models", lambda _: JSONResponse({"data": [MODEL]})),
            Route("/localspec/about", lambda _: JSONResponse(about(manage=False, bench=False))),
            Route(
                "/models/sse",
                lambda _: Response(": still here\n\n", media_type="text/event-stream"),
            ),
        ]
        listener = bind("127.0.0.1", 0)
        self.address = f"http://127.0.0.1:{listener.getsockname()[1]}"
        self._server = uvicorn.Server(uvicorn.Config(Starlette(routes=routes), log_config=None))
        work = self._server.serve(sockets=[listener])
        self._thread = threading.Thread(target=lambda: asyncio.run(work))
        self._thread.start()
        while not self._server.started:
            time.sleep(0.001)

    async def _chat(self, request: Request) -> Response:
        await request.body()
        return StreamingResponse(self._events(), media_type="text/event-stream")

    async def _events(self) -> AsyncIterator[str]:
        begun, sent = time.perf_counter(), 0
        while sent < len(self.tokens):
            due = min(int((time.perf_counter() - begun) * self.rate), len(self.tokens))
            events = []
            while sent < due:
                drafted, accepted = ROUND if sent % 4 == 0 else (0, 0)
                tokens = self.tokens[sent : sent + accepted + 1]
                events.append(self._event(tokens, drafted, min(accepted, len(tokens) - 1)))
                sent += len(tokens)
            yield "".join(events)
            await asyncio.sleep(FRAME_SECONDS)
        yield "data: [DONE]\n\n"

    def _event(self, tokens: Sequence[str], drafted: int, accepted: int) -> str:
        sources = ["ngram"] * accepted + ["target"] * (len(tokens) - accepted)
        trace = {
            "rounds": 1,
            "drafted": drafted,
            "accepted": accepted,
            "by": "ngram",
            "ms": 1000 * len(tokens) / self.rate,
            "said": [[len(token), by] for token, by in zip(tokens, sources, strict=True)],
        }
        choice = {"index": 0, "delta": {"content": "".join(tokens)}, "finish_reason": None}
        return f"data: {json.dumps({'choices': [choice], 'localspec': trace})}\n\n"

    def close(self) -> None:
        self._server.should_exit = True
        self._thread.join()
