"""Answers of /completion and /infill, whole or as a stream."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from localspec.apps.server.llamacpp.completion_request import CompletionFields
from localspec.apps.server.llamacpp.lines import IndentedBlock
from localspec.apps.server.llamacpp.props import described
from localspec.apps.server.replies.figures import timings
from localspec.apps.server.replies.frame import MARK, Frame, event
from localspec.apps.server.replies.reply import Choices, Reply, Step
from localspec.apps.server.replies.spelling import Spelling
from localspec.apps.server.replies.streaming import Bodies
from localspec.core.sampling.logprobs import EmittedLogprob

TEXT = Frame.split(event({"index": 0, "content": MARK, "stop": False}))


@dataclass(slots=True, eq=False)
class Continuation:
    """The text of one reply, up to where its request cuts it."""

    request: CompletionFields
    reply: Reply
    block: IndentedBlock
    content: list[str] = field(default_factory=list)
    cut: bool = False  # before the model was done
    _broken: bool = False  # whether a line is complete
    _until: float | None = None

    @property
    def sent(self) -> str:
        return "".join(self.content)

    def take(self, step: Step) -> str:
        """Read what a step adds."""
        if self.cut or not self.request.most:
            return ""
        text = self.block.take(step.chunk.text) if step.chunk else self.block.remaining_blanks()
        self.content.append(text)
        self._broken = self._broken or "\n" in text
        if step.chunk and (self.block.left or self._late()):
            self.cut = True
            self.reply.exchange.cancel()
        return text

    def _late(self) -> bool:
        """Return whether the time since the first token is over, and a line is complete."""
        if self.request.t_max_predict_ms <= 0:
            return False
        now = time.monotonic()
        if self._until is None:
            self._until = now + self.request.t_max_predict_ms / 1000
        return now >= self._until and self._broken


@dataclass(slots=True, eq=False)
class Completion:
    """An answer: an object for one prompt, a list of objects for several."""

    request: CompletionFields
    choices: Choices
    parts: Sequence[Continuation]

    @classmethod
    def of(cls, request: CompletionFields, choices: Choices) -> Completion:
        replies = choices.replies
        parts = [
            Continuation(request, reply, IndentedBlock(max(request.n_indent, 0)))
            for reply in replies
        ]
        return cls(request, choices, parts)

    async def whole(self) -> object:
        async with aclosing(self.choices.steps()) as steps:
            async for batch in steps:
                for number, step in batch:
                    self.parts[number].take(step) if step else ""
        bodies = [self._end(at, part.sent) for at, part in enumerate(self.parts)]
        return bodies if bodies[1:] else bodies[0]

    def opening(self) -> Bodies:
        return ()

    def bodies(self, number: int, step: Step | None) -> Bodies:
        if step is None:
            return [None]
        text = self.parts[number].take(step)
        more = self._tokens(step.chunk.tokens, step.chunk.logprobs) if step.chunk else {}
        if not text and not more:
            return ()
        if number or more:
            return [event({"index": number, "content": text, "stop": False, **more})]
        return [TEXT.around(text)]

    def _tokens(
        self, tokens: Sequence[int], logprobs: Sequence[EmittedLogprob] | None
    ) -> dict[str, object]:
        """List tokens and their log-probabilities, as far as the request asks for them."""
        listed: dict[str, object] = {}
        if self.request.most and self.request.return_tokens and tokens:
            listed["tokens"] = tokens
        if self.request.most and logprobs:
            tokenizer = self.choices.served.runtime.tokenizer
            spelling = Spelling(tokenizer, self.request.post_sampling_probs)
            listed["completion_probabilities"] = spelling.llama_cpp_logprobs(logprobs)
        return listed

    async def closing(self) -> Bodies:
        return [event(self._end(at, "")) for at in range(len(self.parts))]

    def _end(self, number: int, content: str) -> dict[str, object]:
        body = self._body(number, content)
        return select(body, self.request.response_fields) if self.request.response_fields else body

    def _body(self, number: int, content: str) -> dict[str, object]:
        served, part = self.choices.served, self.parts[number]
        result, settings = part.reply.result, part.reply.prepared.settings
        prompt, predicted = result.usage.prompt_tokens, result.usage.completion_tokens
        limited = part.cut or not self.request.most or result.finish_reason != "stop"
        word = "" if limited else result.stopped_by or ""
        return {
            "index": number,
            "content": content,
            "tokens": [],
            "stop": True,
            "stop_type": "limit" if limited else "word" if word else "eos",
            "stopping_word": word,
            "model": served.name,
            "tokens_predicted": predicted if self.request.most else 0,
            "tokens_evaluated": prompt,
            "tokens_cached": prompt + predicted - 1,  # the newest is not read yet
            "truncated": prompt + predicted >= served.runtime.context,
            "generation_settings": {
                "n_ctx": served.runtime.context,
                "n_predict": self.request.most,
                "seed": result.seed,
                **described(settings.sampling),
                "lora": [
                    {"id": number, "scale": scale}
                    for number, scale in (settings.adapters or {}).items()
                ],
                "stop": list(settings.stop),
            },
            "timings": timings(result),
            **({} if self.request.stream else self._tokens(result.tokens, result.logprobs)),
        }


def select(body: Mapping[str, object], paths: Sequence[str]) -> dict[str, object]:
    """Select the values at these paths, each under its path as written."""
    selected: dict[str, object] = {}
    for path in paths:
        value: object = body
        for name in path.split("/"):
            if not isinstance(value, Mapping) or name not in value:
                break
            value = value[name]
        else:
            selected[path] = value
    return selected
