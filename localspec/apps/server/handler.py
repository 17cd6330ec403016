"""The handling of a request for text: a loaded model, a prompt, an answer."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from functools import partial
from hashlib import blake2s
from itertools import islice
from typing import Protocol, TypeVar

from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from localspec.apps.server.downloads import Downloads
from localspec.apps.server.faults import Fault, refused
from localspec.apps.server.media_intake import MediaIntake
from localspec.apps.server.model_host import ModelHost
from localspec.apps.server.monitoring.metrics import Metrics
from localspec.apps.server.monitoring.request_log import Ignored, quote
from localspec.apps.server.preparing import Preparing
from localspec.apps.server.reading_ahead import follow, may_read_ahead
from localspec.apps.server.replies.exchange import Limit
from localspec.apps.server.replies.reply import Choices
from localspec.apps.server.replies.streaming import SSE, Answer, Streaming, while_listening
from localspec.apps.server.requests.leniency import safe
from localspec.apps.server.requests.media_parts import MediaReference
from localspec.apps.server.requests.prepared import Prepared
from localspec.apps.server.requests.reading import is_short
from localspec.apps.server.safety import Manager
from localspec.apps.server.served import Served
from localspec.apps.server.server_policy import ServerPolicy
from localspec.base.tokens import tokens_of
from localspec.core.prefix_cache.text_form import pack
from localspec.interfaces.footprint import Kind
from localspec.interfaces.media import Medium

T = TypeVar("T")
PREFIX = "x-localspec-prefix"
MAX_REPORTED = 1_000  # fields that have no effect
PREFIX_TOKENS = 64  # less is held nowhere for long


class Body(Protocol):
    """A request's body that names one model."""

    @property
    def model(self) -> str: ...

    def ignored(self) -> Iterator[str]:
        """Yield the paths of fields that have no effect."""


class MediaBody(Body, Protocol):
    def references(self) -> Sequence[MediaReference]:
        """List its pictures and sounds in the order in which they stand in its prompts."""


class PromptBody(MediaBody, Protocol):
    def prepare(self, served: Served, media: Sequence[Medium]) -> Sequence[Prepared]:
        """Render and tokenise its prompts; slow, so not on the event loop."""


class TextBody(PromptBody, Protocol):
    """A request's body that asks for text."""

    @property
    def stream(self) -> bool: ...


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """A request for text, read by its API, with the format of the answer."""

    body: TextBody
    answer: Callable[[Choices], Answer]
    stream_error: Callable[[Fault], bytes]  # encodes the end of a stream that cannot go on
    prompts: int = 1
    copies: int = 1  # replies to each
    media_type: str = SSE
    limit: Limit | None = None
    also_ignored: Sequence[str] = ()  # fields that have no effect with this model


@dataclass(frozen=True, slots=True)
class RequestHandler:
    """Leads from requests of all APIs to replies, by the models that are served."""

    host: ModelHost
    limit: Limit
    manager: Manager
    downloads: Downloads
    metrics: Metrics
    ignored: Ignored
    preparing: Preparing
    intake: MediaIntake
    policy: ServerPolicy

    async def report_ignored(
        self,
        request: Request,
        body: Body,
        also_ignored: Sequence[str] = (),
        kind: Kind = "text",
    ) -> None:
        """Report request fields that have no effect; reject them if the server is strict."""
        # Finding out whether a grammar covers a long schema takes half a second.
        ignored = await self.run(
            request,
            lambda: list(islice(body.ignored(), MAX_REPORTED)),
            quick=is_short(request),
        )
        self.note_ignored(request, ignored)
        unknown = self.host.offers.is_unknown(body.model, kind)
        if fields := [*(["model"] if unknown else ()), *also_ignored]:
            self.ignored.note(request, fields)

    def note_ignored(self, request: Request, fields: Sequence[str]) -> None:
        """Report fields that have no effect, or reject them if the server is strict."""
        if fields and self.policy.strict:
            field = safe(fields[0])
            raise refused(f"{field}: this server is strict and takes no such field or value", field)
        if fields:
            self.ignored.note(request, fields)

    def keep(self, request: Request, name: str, seconds: float | None, kind: Kind = "text") -> None:
        """Have a model stay for a while after its use, if the client may manage models."""
        if seconds is not None and self.manager.allows(request):
            self.host.keep(self.host.offers.answering(name, kind).name, seconds)

    async def run(self, request: Request, work: Callable[[], T], *, quick: bool = False) -> T:
        """Do work off the event loop, unless the client leaves; if it is `quick`, at once.

        The way to a thread and back takes 0.2 ms, and more beside a busy model.
        """
        return work() if quick else await self.preparing.run_for(request, work)

    async def serve(self, request: Request, api_request: ApiRequest) -> Response:
        """Answer a request, by a stream if its client wants one."""
        body, places = api_request.body, api_request.prompts * api_request.copies
        async with AsyncExitStack() as leases:
            also_ignored = api_request.also_ignored
            prompts = await self.prepare(request, body, leases, places, also_ignored)
            self.note_ignored(request, [name for prompt in prompts for name in prompt.left_out])
            if self.policy.quotes:
                quote(prompts)
            choices = Choices(prompts, api_request.limit or self.limit, api_request.copies)
            leases.callback(choices.cancel)
            if may_read_ahead(self.policy.read_ahead):
                leases.callback(follow, self.host, self.preparing, choices)
            await choices.begin()
            answer = api_request.answer(choices)
            response: Response
            if body.stream:
                kept, stream_error = leases.pop_all(), api_request.stream_error
                response = Streaming(answer, choices, kept, stream_error, api_request.media_type)
            else:
                response = JSONResponse(await while_listening(request.receive, answer.whole()))
            if hint := prefix_hash(prompts):
                response.headers[PREFIX] = hint
            return response

    async def prepare(
        self,
        request: Request,
        body: PromptBody,
        leases: AsyncExitStack,
        places: int = 1,
        also_ignored: Sequence[str] = (),
    ) -> Sequence[Prepared]:
        """Render and tokenise the prompts of a request, for a model that `leases` then hold."""
        await self.report_ignored(request, body, also_ignored)
        media = await self.take_media(request, body)
        served = await leases.enter_async_context(self.host.lease(body.model, places))
        media = await self.intake.decode(request, served, media)
        return await self.run(request, partial(body.prepare, served, media))

    async def prompt_tokens(self, request: Request, body: PromptBody) -> Sequence[int]:
        """Return the tokens of a prompt without answering it."""
        async with AsyncExitStack() as leases:
            [prepared] = await self.prepare(request, body, leases)
            return prepared.tokens

    async def count_tokens(self, request: Request, body: PromptBody) -> int:
        return len(await self.prompt_tokens(request, body))

    async def take_media(self, request: Request, body: MediaBody) -> Sequence[Medium]:
        """Return the pictures and sounds of a request, if its model takes them in."""
        references = body.references()
        if not references:
            return ()
        kinds = {reference.kind for reference in references if reference.kind}
        self.host.require_media(body.model, kinds)
        media = await self.intake.take(request, references)
        self.host.require_media(body.model, {medium.kind for medium in media})
        return media


def prefix_hash(prompts: Sequence[Prepared]) -> str:
    """Hash the beginning of a prompt: by it a balancer finds the server that holds such texts."""
    tokens = prompts[0].tokens[:PREFIX_TOKENS] if prompts else ()
    if len(tokens) < PREFIX_TOKENS:
        return ""
    return blake2s(pack(tokens_of(tokens), ()), digest_size=8).hexdigest()
