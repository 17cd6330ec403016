"""Answers of /v1/completions, whole or as a stream."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from localspec.decoding.growing_text import sendable
from localspec.sampling.logprobs import EmittedLogprob
from localspec.server.openai.chat import DONE
from localspec.server.openai.completion_request import CompletionRequest
from localspec.server.replies.figures import timings, usage
from localspec.server.replies.frame import MARK, Frame, event, new_id
from localspec.server.replies.reply import Choices, Reply, Step, content_of
from localspec.server.replies.spelling import Spelling
from localspec.server.replies.streaming import Bodies
from localspec.server.requests.completion_prompts import AnyPrompt


def echo(prompt: AnyPrompt, tokens: Sequence[int], spelling: Spelling) -> str:
    """Return the text of a prompt; pictures have none."""
    if isinstance(prompt, str):
        return sendable(prompt)
    return spelling.text_of([token for token in tokens if token >= 0])


@dataclass(slots=True, eq=False)
class CompletionAnswer:
    model: str
    choices: Choices
    spelling: Spelling | None = None
    wants_usage: bool = False
    echoes: Sequence[str] = ()  # texts that come before the replies
    id: str = field(default_factory=lambda: new_id("cmpl-"))
    created: int = field(default_factory=lambda: int(time.time()))
    _told: dict[int, int] = field(default_factory=dict)  # letters that have log-probabilities
    _frames: dict[int, Frame] = field(default_factory=dict)

    @classmethod
    def to(cls, request: CompletionRequest, choices: Choices) -> CompletionAnswer:
        spelling = Spelling(choices.served.runtime.tokenizer)
        echoes = []
        if request.echo:
            prompts = [reply.prepared.tokens for reply in choices.firsts]
            pairs = zip(request.prompts, prompts, strict=True)
            echoes = [echo(prompt, tokens, spelling) for prompt, tokens in pairs]
        wants = spelling if request.alternatives is not None else None
        return cls(choices.served.name, choices, wants, request.wants_usage, echoes)

    async def whole(self) -> dict[str, object]:
        await self.choices.wait()
        replies = self.choices.replies
        return self._head(
            choices=[self._choice(*numbered) for numbered in enumerate(replies)],
            usage=usage(self.choices),
            timings=timings(replies[0].result),
        )

    def opening(self) -> Bodies:
        for number in range(len(self.choices.replies)):
            if text := self._echo(number):
                yield self._chunk(number, text)

    def bodies(self, number: int, step: Step | None) -> Bodies:
        return [self._body(number, step) if step else None]

    async def closing(self) -> Bodies:
        if not self.wants_usage:
            return [DONE]
        return [event(self._head(choices=[], usage=usage(self.choices))), DONE]

    def _body(self, number: int, step: Step) -> bytes:
        if step.chunk is None:
            reply = self.choices.replies[number]
            return self._chunk(number, content_of(step.parts), finish=reply.finish)
        if step.chunk.logprobs:
            return self._chunk(number, content_of(step.parts), step.chunk.logprobs)
        frame = self._frames.get(number)
        if frame is None:
            frame = self._frames[number] = Frame.split(self._chunk(number, MARK))
        return frame.around(content_of(step.parts))

    def _chunk(
        self,
        number: int,
        text: str,
        logprobs: Sequence[EmittedLogprob] = (),
        finish: str | None = None,
    ) -> bytes:
        columns = self._columns(number, logprobs) if logprobs else None
        choice = {"index": number, "text": text, "logprobs": columns, "finish_reason": finish}
        return event(self._head(choices=[choice]))

    def _head(self, **more: object) -> dict[str, object]:
        head = {"id": self.id, "object": "text_completion", "created": self.created}
        return head | {"model": self.model} | more

    def _choice(self, number: int, reply: Reply) -> dict[str, object]:
        logprobs = reply.result.logprobs or ()
        return {
            "index": number,
            "text": self._echo(number) + reply.content,
            "logprobs": self._columns(number, logprobs),
            "finish_reason": reply.finish,
        }

    def _columns(self, number: int, logprobs: Sequence[EmittedLogprob]) -> object:
        """Format log-probabilities; a chunk's offsets begin where the last one ended."""
        if self.spelling is None:
            return None
        letters = (len(self.spelling.token_text(emitted.token)) for emitted in logprobs)
        *offsets, self._told[number] = accumulate(letters, initial=self._told.get(number, 0))
        return self.spelling.completion_logprobs(logprobs) | {"text_offset": offsets}

    def _echo(self, number: int) -> str:
        return self.echoes[number // self.choices.copies] if self.echoes else ""
