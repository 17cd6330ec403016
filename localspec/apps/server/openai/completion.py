"""Answers of /v1/completions, whole or as a stream."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import accumulate

from localspec.apps.server.openai.chat import DONE
from localspec.apps.server.openai.completion_request import CompletionRequest
from localspec.apps.server.replies.figures import timings, usage
from localspec.apps.server.replies.frame import MARK, Frame, event, new_id
from localspec.apps.server.replies.reply import Choices, Finish, Reply, Step, content_of
from localspec.apps.server.replies.spelling import Spelling
from localspec.apps.server.replies.streaming import Bodies
from localspec.apps.server.requests.completion_prompts import AnyPrompt
from localspec.core.decoding.growing_text import sendable
from localspec.core.requests.job import Chunk
from localspec.core.sampling.logprobs import EmittedLogprob


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
    firsts: Sequence[int] = ()  # the first tokens of prompts whose others have log-probabilities
    silent: bool = False  # whether replies are left out
    id: str = field(default_factory=lambda: new_id("cmpl-"))
    created: int = field(default_factory=lambda: int(time.time()))
    _letters: dict[int, int] = field(default_factory=dict)  # that have log-probabilities
    _frames: dict[int, Frame] = field(default_factory=dict)

    @classmethod
    def to(cls, request: CompletionRequest, choices: Choices) -> CompletionAnswer:
        spelling = Spelling(choices.served.runtime.tokenizer)
        answer = cls(choices.served.name, choices, wants_usage=request.wants_usage)
        if request.alternatives is not None:
            answer.spelling = spelling
        if request.echo:
            prompts = [reply.prepared.tokens for reply in choices.firsts]
            pairs = zip(request.prompts, prompts, strict=True)
            answer.echoes = [echo(prompt, tokens, spelling) for prompt, tokens in pairs]
            answer.firsts = [tokens[0] for tokens in prompts] if request.scores else ()
            answer.silent = request.is_silent
        return answer

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
        if step and self._is_left_out(step.chunk):
            return []
        return [self._body(number, step) if step else None]

    async def closing(self) -> Bodies:
        if not self.wants_usage:
            return [DONE]
        return [event(self._head(choices=[], usage=usage(self.choices))), DONE]

    def _is_left_out(self, chunk: Chunk | None) -> bool:
        """Return whether a chunk belongs to a reply that is not shown."""
        return self.silent and chunk is not None and bool(chunk.tokens or chunk.text)

    def _body(self, number: int, step: Step) -> bytes:
        if step.chunk is None:
            text = "" if self.silent else content_of(step.parts)
            return self._chunk(number, text, finish=self._finish(number))
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

    def _finish(self, number: int) -> Finish:
        return "length" if self.silent else self.choices.replies[number].finish

    def _choice(self, number: int, reply: Reply) -> dict[str, object]:
        logprobs = reply.result.logprobs or ()
        return {
            "index": number,
            "text": self._echo(number) + ("" if self.silent else reply.content),
            "logprobs": self._columns(number, logprobs[:-1] if self.silent else logprobs),
            "finish_reason": self._finish(number),
        }

    def _columns(self, number: int, logprobs: Sequence[EmittedLogprob]) -> object:
        """Format log-probabilities; a chunk's offsets begin where the last one ended."""
        if self.spelling is None:
            return None
        begins = self.firsts and number not in self._letters
        first = [self.firsts[number // self.choices.copies]] if begins else []
        tokens = [*first, *(emitted.token for emitted in logprobs)]
        letters = (len(self.spelling.text_of([token])) for token in tokens)
        *offsets, self._letters[number] = accumulate(letters, initial=self._letters.get(number, 0))
        columns = self.spelling.completion_logprobs(logprobs, first)
        return columns | {"text_offset": offsets}

    def _echo(self, number: int) -> str:
        return self.echoes[number // self.choices.copies] if self.echoes else ""
