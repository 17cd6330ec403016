"""The channel on which an SDK of LM Studio hears a reply."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import aclosing
from functools import partial
from itertools import islice
from typing import TypeVar

from localspec.server.handler import RequestHandler
from localspec.server.lmstudio.asked import PredictRequest, config
from localspec.server.lmstudio.listing import instance_info
from localspec.server.lmstudio.wire import Object
from localspec.server.model_host import Served
from localspec.server.monitoring.request_log import quote
from localspec.server.replies.blocks import Block, Blocks, Change, Closed, Grown, Opened
from localspec.server.replies.reply import Choices, Reply, Step

T = TypeVar("T")
TAGS = {"reasoningStartTag": "<think>", "reasoningEndTag": "</think>"}


class Prediction:
    """One reply, which may be cancelled: then it ends with what has come."""

    def __init__(self, handler: RequestHandler, asked: PredictRequest, *, large: bool) -> None:
        self._handler = handler
        self._large = large  # whether it came in a large message
        self._asked = asked
        self._choices: Choices | None = None
        self._cancelled = False
        self._tokens = 0  # that have come since a fragment told of any
        self._drafted = False  # whether any of them was drafted

    def cancel(self) -> None:
        self._cancelled = True
        if self._choices:
            self._choices.cancel()

    async def messages(self) -> AsyncIterator[Object]:
        """Yield what the client hears of it."""
        host, name = self._handler.host, self._asked.specifier.name
        chat = await self._prepared(self._asked.chat)
        self._handler.refuse_if_strict(
            await self._prepared(lambda: list(islice(chat.ignored(), 1)))
        )
        async with host.lease(name) as served:
            prompts = await self._prepared(partial(self._asked.prepare, chat, served))
            if self._handler.quotes:
                quote(prompts)
            choices = self._choices = Choices(prompts, self._handler.limit, 1)
            try:
                await choices.begin()
                async for message in self._told(choices):
                    yield message
                yield await self._success(served, choices.replies[0])
            finally:
                choices.cancel()

    async def _prepared(self, work: Callable[[], T]) -> T:
        return await self._handler.preparing.run(work, large=self._large)

    async def _told(self, choices: Choices) -> AsyncIterator[Object]:
        if self._cancelled:
            choices.cancel()
        blocks = Blocks(choices)
        async with aclosing(choices.steps()) as steps:
            async for each in steps:
                for _, step in each:
                    for message in self._step(blocks, step) if step else ():
                        yield message
        for change in blocks.end():
            for message in self._changed(change):
                yield message

    def _step(self, blocks: Blocks, step: Step) -> Iterator[Object]:
        if step.chunk:
            self._tokens += len(step.chunk.tokens)
            self._drafted = self._drafted or step.chunk.accepted > 0
        for change in blocks.changes(step):
            yield from self._changed(change)

    def _changed(self, change: Change) -> Iterator[Object]:
        if change.block.kind == "call":
            yield from call(change)
        elif isinstance(change, Grown):
            thinks = change.block.kind == "thought"
            if not (thinks and self._asked.structured):
                yield self._fragment(change.text, "reasoning" if thinks else "none")
        elif change.block.kind == "thought" and not self._asked.structured:
            kind = "reasoningStartTag" if isinstance(change, Opened) else "reasoningEndTag"
            yield self._fragment(TAGS[kind], kind, structural=True)

    def _fragment(self, text: str, kind: str, *, structural: bool = False) -> Object:
        tokens, self._tokens = self._tokens, 0
        drafted, self._drafted = self._drafted, False
        counted = {"tokensCount": tokens, "containsDrafted": drafted}
        more = {"reasoningType": kind, "isStructural": structural}
        return {"type": "fragment", "fragment": {"content": text, **counted, **more}}

    async def _success(self, served: Served, reply: Reply) -> Object:
        facts = await self._handler.host.facts(served.name)
        return {
            "type": "success",
            "stats": stats(reply, cancelled=self._cancelled),
            "modelInfo": instance_info(served.offer, served, facts),
            "loadModelConfig": config({"contextLength": served.runtime.context}, "llm.load."),
            "predictionConfig": config({}),
        }


def call(change: Change) -> Iterator[Object]:
    """Yield what a change of a call is."""
    block = change.block
    match change:
        case Opened():
            yield {"type": "toolCallGenerationStart", "toolCallId": identity(block)}
            yield {"type": "toolCallGenerationNameReceived", "name": block.name}
        case Grown(_, text, _):
            yield {"type": "toolCallGenerationArgumentFragmentGenerated", "content": text}
        case Closed():
            yield ended(block)


def ended(block: Block) -> Object:
    try:
        arguments = json.loads(block.text or "{}")
    except ValueError:
        arguments = None
    if not isinstance(arguments, dict):
        said = {"title": "the arguments of a call are no JSON object", "rootTitle": block.name}
        return {"type": "toolCallGenerationFailed", "error": said, "rawContent": block.text}
    request = {"id": identity(block), "type": "function", "name": block.name}
    told = {"toolCallRequest": {**request, "arguments": arguments}, "rawContent": block.text}
    return {"type": "toolCallGenerationEnd", **told}


def identity(block: Block) -> str:
    return f"call_{block.id}"


def stats(reply: Reply, *, cancelled: bool) -> Mapping[str, object]:
    result = reply.result
    used, speculation, times = result.usage, result.speculation, result.timings
    return {
        "stopReason": "userStopped" if cancelled else stopped(reply),
        "tokensPerSecond": times.tokens_per_second or 0.0,
        "timeToFirstTokenSec": times.first_token or times.total,
        "totalTimeSec": times.total,
        "promptTokensCount": used.prompt_tokens,
        "predictedTokensCount": used.completion_tokens,
        "totalTokensCount": used.prompt_tokens + used.completion_tokens,
        "totalDraftTokensCount": speculation.drafted,
        "acceptedDraftTokensCount": speculation.accepted,
        "rejectedDraftTokensCount": speculation.drafted - speculation.accepted,
    }


def stopped(reply: Reply) -> str:
    most = reply.prepared.settings.max_tokens
    match reply.finish:
        case "tool_calls":
            return "toolCalls"
        case "length":
            spent = most is not None and reply.result.usage.completion_tokens >= most
            return "maxPredictedTokensReached" if spent else "contextLengthReached"
        case "stop":
            return "stopStringFound" if reply.result.stopped_by else "eosFound"
