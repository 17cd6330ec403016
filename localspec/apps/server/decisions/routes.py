"""The paths by which questions about a state are decided."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from functools import partial
from typing import Protocol

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from localspec.apps.server.api import Api
from localspec.apps.server.decisions.asked import Object
from localspec.apps.server.decisions.openai_request import OpenAiDecisions
from localspec.apps.server.decisions.parts import as_one_object
from localspec.apps.server.decisions.systemone_request import SystemOneRequest
from localspec.apps.server.faults import Fault, Refused
from localspec.apps.server.handler import MediaBody, RequestHandler
from localspec.apps.server.replies.streaming import while_listening
from localspec.apps.server.requests.reading import body_route
from localspec.apps.server.served import Served
from localspec.interfaces.media import Medium
from localspec.running.runtime.decisions.answer import Decision
from localspec.running.runtime.decisions.deciding import Deciding
from localspec.running.runtime.decisions.prompts import State
from localspec.running.runtime.decisions.question import Question


class DecisionBody(MediaBody, Protocol):
    """A request's body that asks for decisions, in the form of its API."""

    permutations: int

    def state(self, media: Sequence[Medium]) -> State: ...

    def asked(self) -> list[Question]: ...

    def answer(self, model: str, decision: Decision) -> Object: ...


def decisions(handler: RequestHandler) -> list[BaseRoute]:
    async def openai(request: Request, body: OpenAiDecisions) -> Response:
        """Answer questions about an input by probabilities, as OpenAI does."""
        return await decide(handler, request, body)

    async def systemone(request: Request, body: SystemOneRequest) -> Response:
        """Answer questions about a state by probabilities, as TypeSafe does."""
        return await decide(handler, request, body)

    return [
        body_route("/v1/decisions", OpenAiDecisions, openai),
        body_route("/v1/systemone", SystemOneRequest, systemone, join=as_one_object),
    ]


async def decide(handler: RequestHandler, request: Request, body: DecisionBody) -> Response:
    await handler.report_ignored(request, body)
    media = await handler.take_media(request, body)
    async with handler.host.lease(body.model) as served:
        media = await handler.intake.decode(request, served, media)
        deciding = await handler.run(request, partial(prepare, body, served, media))
        seconds = handler.limit.seconds
        try:
            async with asyncio.timeout(seconds):
                future = asyncio.wrap_future(deciding.begin())
                decision = await while_listening(request.receive, future)
        except TimeoutError as error:
            message = f"the questions took longer than {seconds:g} s, which is the limit"
            raise Refused(Fault(504, message, code="timeout")) from error
    read = decision.prompt_tokens - decision.cached_tokens
    handler.metrics.note_texts(served.name, len(decision.answers), read)
    return JSONResponse(body.answer(served.name, decision))


def prepare(body: DecisionBody, served: Served, media: Sequence[Medium]) -> Deciding:
    decider = served.runtime.decider
    return decider.prepare(body.state(media), body.asked(), body.permutations)


DECISIONS = Api(decisions, ("/v1/decisions", "/v1/systemone"))
