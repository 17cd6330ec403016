"""The paths by which texts become vectors, and documents are ranked."""

from __future__ import annotations

import time
from functools import partial

from fastapi import APIRouter
from starlette.requests import Request
from starlette.responses import JSONResponse, Response

from localspec.apps.server.handler import RequestHandler
from localspec.apps.server.requests.reading import BoundedRoute
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
from localspec.apps.server.vectors.reading import answer

RERANK = ("/v1/rerank", "/rerank", "/v1/reranking", "/reranking", "/v2/rerank")


def vectors(handler: RequestHandler) -> APIRouter:
    routes = APIRouter(route_class=BoundedRoute, tags=["Embeddings and reranking"])
    embedding(routes, handler)
    embedding_as_ollama(routes, handler)
    ranking(routes, handler)
    return routes


def embedding(routes: APIRouter, handler: RequestHandler) -> None:
    @routes.post("/v1/embeddings")
    async def embeddings(request: Request, body: EmbeddingsRequest) -> Response:
        """Turn texts, given as texts or as tokens, into vectors."""
        return await answer(handler, request, body, "embedding", partial(openai_answer, body))

    @routes.post("/embedding", include_in_schema=False)
    @routes.post("/embeddings")
    async def llamacpp_embeddings(request: Request, body: EmbeddingsRequest) -> Response:
        """Turn texts into vectors, in the form of llama.cpp's server."""
        return await answer(handler, request, body, "embedding", partial(llamacpp_answer, body))


def embedding_as_ollama(routes: APIRouter, handler: RequestHandler) -> None:
    async def loaded(body: OllamaEmbedRequest, empty: dict[str, object]) -> Response:
        offer = handler.host.offers.answering(body.model, "embedding")
        await handler.host.preload(offer.name)
        return JSONResponse(empty)

    @routes.post("/api/embed")
    async def embed(request: Request, body: OllamaEmbedRequest) -> Response:
        """Turn texts into vectors; without any, load the model."""
        if body.loads:
            return await loaded(body, {"model": body.model, "embeddings": []})
        written = partial(ollama_answer, body, time.perf_counter())
        return await answer(handler, request, body, "embedding", written)

    @routes.post("/api/embeddings")
    async def old_embed(request: Request, body: OllamaEmbeddingsRequest) -> Response:
        """Turn a text into a vector, which is not normalised."""
        if body.loads:
            return await loaded(body, {"embedding": []})
        written = partial(old_ollama_answer, body)
        return await answer(handler, request, body, "embedding", written)


def ranking(routes: APIRouter, handler: RequestHandler) -> None:
    async def rerank(request: Request, body: RerankRequest) -> Response:
        """Rank documents by how well they answer a query."""
        return await answer(handler, request, body, "reranking", body.write)

    for path in RERANK:
        routes.add_api_route(path, rerank, methods=["POST"], include_in_schema=path == RERANK[0])

    @routes.post("/score", include_in_schema=False)
    @routes.post("/v1/score")
    async def score(request: Request, body: ScoreRequest) -> Response:
        """Score pairs of texts."""
        return await answer(handler, request, body, "reranking", body.write)
