"""The paths of OpenAI's API."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute, Route

from localspec.apps.server.api import Api
from localspec.apps.server.handler import ApiRequest, RequestHandler
from localspec.apps.server.offers import ServedOffer
from localspec.apps.server.openai.chat import ChatAnswer, stream_error
from localspec.apps.server.openai.completion import CompletionAnswer
from localspec.apps.server.openai.completion_request import CompletionRequest, MiddleRequest
from localspec.apps.server.openai.responses_routes import responses
from localspec.apps.server.reading_ahead import may_read_ahead, only_read
from localspec.apps.server.replies.reply import Choices, Reply
from localspec.apps.server.replies.streaming import Answer, while_listening
from localspec.apps.server.requests.chat_request import ChatRequest
from localspec.apps.server.requests.completion_prompts import count
from localspec.apps.server.requests.reading import body_route
from localspec.apps.server.served import media_of
from localspec.interfaces.footprint import Kind

OUTPUTS: Mapping[Kind, str] = {"text": "text", "embedding": "embeddings", "reranking": "scores"}
NOT_AHEAD = "this server reads nothing ahead: it runs on battery, or with --read-ahead no"
PROGRESS_SECONDS = 0.25  # between two words on how far a prompt is read


def openai(handler: RequestHandler) -> list[BaseRoute]:
    async def chat(request: Request, body: ChatRequest) -> Response:
        """Answer a conversation."""
        limit = replace(handler.limit, reading_seconds=PROGRESS_SECONDS)
        api_request = ApiRequest(
            body,
            partial(ChatAnswer.to, body),
            stream_error,
            copies=body.n,
            limit=limit if body.return_progress else None,
        )
        return await handler.serve(request, api_request)

    async def completions(request: Request, body: CompletionRequest) -> Response:
        """Continue a text, or fill in what belongs before `suffix`."""
        return await handler.serve(request, continuing(body, partial(CompletionAnswer.to, body)))

    async def middles(request: Request, body: MiddleRequest) -> Response:
        """Fill in a middle, answered as Mistral does: by a message."""

        def answer(choices: Choices) -> ChatAnswer:
            return ChatAnswer(choices.served.name, choices, wants_usage=body.wants_usage)

        return await handler.serve(request, continuing(body, answer))

    async def models(_: Request) -> Response:
        """List the models."""
        return JSONResponse(model_list(handler))

    async def model(request: Request) -> Response:
        name = request.path_params["name"]
        offer = handler.host.offers.meant_by(name)
        name = name if name in offer.names else offer.name
        return JSONResponse(describe_model(handler, offer, name))

    return [
        body_route("/v1/chat/completions", ChatRequest, chat),
        announcing(handler),
        body_route("/v1/completions", CompletionRequest, completions),
        body_route("/v1/fim/completions", MiddleRequest, middles),
        Route("/v1/models", models),
        Route("/v1/models/{name:path}", model),
        *responses(handler),
    ]


def announcing(handler: RequestHandler) -> BaseRoute:
    async def warm(request: Request, body: ChatRequest) -> Response:
        """Read the prompt of a conversation while nobody waits, for a request that may come."""
        if not may_read_ahead(handler.policy.read_ahead):
            return JSONResponse({"object": "cache.warm", "complete": False, "reason": NOT_AHEAD})
        async with AsyncExitStack() as leases:
            [prepared] = await handler.prepare(request, body, leases)
            choices = Choices([only_read(prepared)], handler.limit, copies=1)
            leases.callback(choices.cancel)
            await choices.begin()
            await while_listening(request.receive, choices.wait())
        return JSONResponse(describe_reading(choices.replies[0]))

    return body_route("/v1/cache/warm", ChatRequest, warm)


def continuing(body: CompletionRequest, answer: Callable[[Choices], Answer]) -> ApiRequest:
    return ApiRequest(
        body,
        answer,
        stream_error,
        prompts=count(body.prompt, body.n),
        copies=body.n,
    )


def describe_reading(reply: Reply) -> dict[str, object]:
    """Report how much of a prompt is held; another request may have ended its reading."""
    result = reply.result
    return {
        "object": "cache.warm",
        "model": reply.prepared.served.name,
        "prompt_tokens": result.usage.prompt_tokens,
        "cached_tokens": result.usage.cached_tokens,
        "complete": result.finish_reason != "cancelled",
    }


def model_list(handler: RequestHandler) -> dict[str, object]:
    """List the models in the words of several servers' clients."""
    offers = handler.host.offers.values()
    named = [(offer, name) for offer in offers for name in offer.names]
    return {
        "object": "list",
        "data": [describe_model(handler, offer, name) for offer, name in named],
        "has_more": False,  # Anthropic's
        "models": [summary(offer, name) for offer, name in named],
    }


def describe_model(handler: RequestHandler, offer: ServedOffer, name: str) -> dict[str, object]:
    """Describe a model, with its context length where clients look for it, once it is known."""
    host = handler.host
    served = host.loaded.get(offer.name)
    status: dict[str, object] = {"value": host.state(offer.name), "args": []}
    if offer.name in host.failed:
        status |= {"failed": True, "exit_code": 1}
    context = served.resident.context if served else offer.context
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "display_name": name,
        "created": offer.created,
        "created_at": datetime.fromtimestamp(offer.created, UTC).isoformat(),
        "owned_by": "localspec",
        "context_length": context,
        "max_model_len": context,
        "loaded": served is not None,
        "engine": offer.engine,
        "drafter": offer.drafter or None,
        "status": status,
        "architecture": {
            "input_modalities": ["text", *sorted(media_of(offer, served), reverse=True)],
            "output_modalities": [OUTPUTS[offer.kind]],
        },
        "meta": meta(offer, context),
    }


def summary(offer: ServedOffer, name: str) -> dict[str, object]:
    """Describe a model in the words of llama.cpp's server and of TypeSafe."""
    created = datetime.fromtimestamp(offer.created, UTC)
    words = (offer.family, offer.parameters, offer.quantisation)
    does = {"text": "completion"}.get(offer.kind, offer.kind)
    return {
        "name": name,
        "model": name,
        "type": "model",
        "description": " ".join(filter(None, words)),
        "release_date": f"{created:%Y-%m-%d}",  # when its file was written
        "modified_at": created.isoformat(),
        "size": offer.bytes,
        "capabilities": [does, *(["multimodal"] if offer.media else [])],
    }


def meta(offer: ServedOffer, context: int) -> dict[str, object]:
    """Describe a model's vocabulary and size as llama.cpp's server does."""
    facts: dict[str, object] = {"n_ctx": context, "size": offer.bytes, "ftype": offer.quantisation}
    footprint = offer.footprint
    if footprint is None:
        return facts
    if footprint.parameters:
        facts["n_params"] = footprint.parameters
    return {
        **facts,
        "n_ctx_train": footprint.context,
        "n_vocab": footprint.vocabulary,
        "n_embd": footprint.embedding,
    }


OPENAI = Api(openai, ("/v1/", "/api/v1/"))
