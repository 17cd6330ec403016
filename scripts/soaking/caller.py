"""A client: its connections, its random numbers, and its requests."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from dataclasses import dataclass, field

import httpx

from localspec.apps.bench.prompts import built_in
from soaking.reply import CHAT, Body, SoakReply, Wrong

BOUNDS = (4, 96)  # tokens of a reply at most
PROMPTS = [prompt.messages for prompt in built_in()]


class Busy(Exception):
    """Raised when there was no place, and the client was told when to come back."""

    def __init__(self, seconds: float) -> None:
        super().__init__(f"again after {seconds:g} s")
        self.seconds = seconds


@dataclass(slots=True)
class Caller:
    client: httpx.AsyncClient
    luck: random.Random
    conversation: list[Body] = field(default_factory=list)  # one that goes on

    def messages(self) -> Sequence[Body]:
        """Make a new conversation, sometimes a unique one, or the next turn of the last."""
        if self.conversation and self.luck.random() < 0.4:
            self.conversation += [
                {"role": "user", "content": "Go on, and say more about the second part."}
            ]
        else:
            begin = {"role": "system", "content": f"Number {self.luck.randrange(10_000)}."}
            self.conversation = [begin] * self.luck.randrange(2) + [*self.luck.choice(PROMPTS)]
        return self.conversation

    def random_settings(self, *, most: int = BOUNDS[1]) -> dict[str, object]:
        """Choose the sampling parameters of a reply."""
        fields: dict[str, object] = {"max_tokens": self.luck.randint(BOUNDS[0], most)}
        match self.luck.randrange(3):
            case 0:
                fields |= {"temperature": 0}
            case 1:
                fields |= {"temperature": 0.8, "top_p": 0.95, "seed": self.luck.randrange(1 << 32)}
            case _:
                fields |= {"temperature": 1, "top_k": 40, "presence_penalty": 0.5, "stop": [".\n"]}
        return fields

    def question(self) -> dict[str, object]:
        return {"messages": [*self.messages()], **self.random_settings()}

    async def ask(self, path: str, body: Body, *, choices: int = 1) -> SoakReply:
        """Ask for a reply, whole or streamed, as the body says."""
        reply = SoakReply(path, choices)
        if not body.get("stream"):
            reply.read(require_success(await self.client.post(path, json=body)).text)
            return reply
        async with self.client.stream("POST", path, json=body) as answer:
            if not answer.is_success:
                await answer.aread()
            require_success(answer)
            async for line in answer.aiter_lines():
                reply.take(line)
        reply.close()
        return reply

    async def chat(self, *, stream: bool, **more: object) -> SoakReply:
        reply = await self.ask(CHAT, {**self.question(), "stream": stream, **more})
        self.conversation = [*self.conversation, {"role": "assistant", "content": reply.texts[0]}]
        if sum(len(str(message["content"])) for message in self.conversation) > 3000:
            self.conversation = []
        return reply


def require_success(answer: httpx.Response) -> httpx.Response:
    if answer.status_code == 503:
        error_of(answer)
        raise Busy(float(answer.headers["retry-after"]))
    if answer.status_code != 200:
        raise Wrong(f"{answer.status_code}: {answer.text[:300]}")
    return answer


def require_refusal(answer: httpx.Response, status: int = 400, code: str | None = None) -> None:
    """Check that a request was refused, and why."""
    if answer.status_code == 503:
        require_success(answer)
    if answer.status_code != status:
        raise Wrong(f"{answer.status_code} where {status} belongs: {answer.text[:300]}")
    error = error_of(answer)
    if code and error["code"] != code:
        raise Wrong(f"the code is {error['code']!r} where {code!r} belongs")


def error_of(answer: httpx.Response) -> dict[str, object]:
    try:
        reason: dict[str, object] = json.loads(answer.text)["error"]
    except (ValueError, KeyError, TypeError) as error:
        raise Wrong(f"{answer.status_code} without a reason: {answer.text[:300]}") from error
    if not reason["message"]:
        raise Wrong(f"{answer.status_code} with an empty reason")
    return reason
