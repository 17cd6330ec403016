"""The paths by which texts become vectors, and documents are ranked."""

from __future__ import annotations

import time
from functools import partial

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import BaseRoute

from localspec.apps.server.api import Api
from localspec.apps.server.handler import RequestHandler
from localspec.apps.server.requests.reading import body_route
from localspec.apps.server.vectors.embedding_answer import (
    llamacpp_answer,
    old_ollama_answer,
    ollama_answer,
    openai_answer,
)
from localspec.apps.server.vectors.embedding_request import (
    EmbeddingsRequest,
    OllamaEmbeddingsRequest,
    OllamaEmbedRequest,
)
from localspec.apps.server.vectors.ranking import RerankRequest, ScoreRequest
from localspec.apps.server.vectors.reading import Write, answer

RERANK = ("/v1/rerank", "/rerank", "/v1/reranking", "/reranking", "/v2/rerank")


def vectors(handler: RequestHandler) -> list[BaseRoute]:
    return [*embedding(handler), *embedding_as_ollama(handler), *ranking(handler)]


def embedding(handler: RequestHandler) -> list[BaseRoute]:
    async def embeddings(request: Request, body: EmbeddingsRequest) -> Response:
        """Turn texts, given as texts or as tokens, into vectors."""
        return await answer(handler, request, body, "embedding", partial(openai_answer, body))

    async def llamacpp_embeddings(request: Request, body: EmbeddingsRequest) -> Response:
        """Turn texts into vectors, in the form of llama.cpp's server."""
        return await answer(handler, request, body, "embedding", partial(llamacpp_answer, body))

    return [
        body_route("/v1/embeddings", EmbeddingsRequest, embeddings),
        body_route("/embeddings", EmbeddingsRequest, llamacpp_embeddings),
        body_route("/embedding", EmbeddingsRequest, llamacpp_embeddings),
    ]


def embedding_as_ollama(handler: RequestHandler) -> list[BaseRoute]:
    async def answered(
        request: Request, body: OllamaEmbedRequest, write: Write, nothing: dict[str, object]
    ) -> Response:
        """Answer texts; without any, load the model, or unload it."""
        unloads = body.loads and body.keep_alive == 0
        if unloads:
            await handler.manager(request)
        else:
            handler.keep(request, body.model, body.keep_alive, "embedding")
        if not body.loads:
            return await answer(handler, request, body, "embedding", write)
        name = handler.host.offers.answering(body.model, "embedding").name
        await (handler.host.unload(name) if unloads else handler.host.preload(name))
        return JSONResponse(nothing)

    async def embed(request: Request, body: OllamaEmbedRequest) -> Response:
        """Turn texts into vectors; without any, load the model."""
        write = partial(ollama_answer, body, time.perf_counter())
        return await answered(request, body, write, {"model": body.model, "embeddings": []})

    async def old_embed(request: Request, body: OllamaEmbeddingsRequest) -> Response:
        """Turn a text into a vector, which is not normalised."""
        return await answered(request, body, partial(old_ollama_answer, body), {"embedding": []})

    return [
        body_route("/api/embed", OllamaEmbedRequest, embed),
        body_route("/api/embeddings", OllamaEmbeddingsRequest, old_embed),
    ]


def ranking(handler: RequestHandler) -> list[BaseRoute]:
    async def rerank(request: Request, body: RerankRequest) -> Response:
        """Rank documents by how well they answer a query."""
        return await answer(handler, request, body, "reranking", body.write)

    async def score(request: Request, body: ScoreRequest) -> Response:
        """Score pairs of texts."""
        return await answer(handler, request, body, "reranking", body.write)

    return [
        *(body_route(path, RerankRequest, rerank) for path in RERANK),
        *(body_route(path, ScoreRequest, score) for path in ("/v1/score", "/score")),
    ]


VECTORS = Api(vectors)
