"""Answers of /completion and /infill, whole or as a stream."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import aclosing
from dataclasses import dataclass, field

from localspec.engine.job import Result
from localspec.server.llamacpp.completion_request import Wished
from localspec.server.llamacpp.lines import Block
from localspec.server.replies.figures import timings
from localspec.server.replies.frame import MARK, Frame, event
from localspec.server.replies.reply import Choices, Step
from localspec.server.replies.streaming import Bodies

TEXT = Frame.of(event({"index": 0, "content": MARK, "stop": False}))


@dataclass(slots=True, eq=False)
class Completion:
    wished: Wished
    choices: Choices
    block: Block
    content: list[str] = field(default_factory=list)
    cut: bool = False  # before the model was done
    _broken: bool = False  # whether a line is complete
    _until: float | None = None

    @classmethod
    def of(cls, wished: Wished, choices: Choices) -> Completion:
        return cls(wished, choices, Block(wished.n_indent))

    async def whole(self) -> dict[str, object]:
        async with aclosing(self.choices.steps()) as steps:
            async for each in steps:
                for _, step in each:
                    self._taken(step) if step else ""
        return self._end("".join(self.content))

    def opening(self) -> Bodies:
        return ()

    def bodies(self, number: int, step: Step | None) -> Bodies:
        if step is None:
            return [None]
        text = self._taken(step)
        return [TEXT.around(text)] if text else ()

    async def closing(self) -> Bodies:
        return [event(self._end(""))]

    def _taken(self, step: Step) -> str:
        """What a step adds; where nothing more is wanted, the reply is ended."""
        if self.cut or not self.wished.n_predict:
            return ""
        text = self.block.take(step.chunk.text) if step.chunk else self.block.rest()
        self.content.append(text)
        self._broken = self._broken or "\n" in text
        if step.chunk and (self.block.left or self._late()):
            self.cut = True
            self.choices.cancel()
        return text

    def _late(self) -> bool:
        """Whether the time since the first token is over, and a line is complete."""
        if self.wished.t_max_predict_ms <= 0:
            return False
        now = time.monotonic()
        if self._until is None:
            self._until = now + self.wished.t_max_predict_ms / 1000
        return now >= self._until and self._broken

    def _end(self, content: str) -> dict[str, object]:
        body = self._body(content)
        return chosen(body, self.wished.response_fields) if self.wished.response_fields else body

    def _body(self, content: str) -> dict[str, object]:
        served = self.choices.served
        [reply] = self.choices.replies
        result, settings = reply.result, reply.prepared.settings
        prompt, predicted = result.usage.prompt_tokens, result.usage.completion_tokens
        limited = self.cut or not self.wished.n_predict or result.finish_reason != "stop"
        word = "" if limited else result.stopped_by or ""
        return {
            "index": 0,
            "content": content,
            "stop": True,
            "stop_type": "limit" if limited else "word" if word else "eos",
            "stopping_word": word,
            "model": served.name,
            "tokens_predicted": predicted if self.wished.n_predict else 0,
            "tokens_evaluated": prompt,
            "tokens_cached": prompt + predicted - 1,  # the newest is not read yet
            "truncated": prompt + predicted >= served.runtime.context,
            "generation_settings": {
                "n_ctx": served.runtime.context,
                "n_predict": self.wished.n_predict,
                "seed": result.seed,
                "temperature": settings.sampling.temperature,
                "top_k": settings.sampling.top_k,
                "top_p": settings.sampling.top_p,
                "min_p": settings.sampling.min_p,
                "stop": list(settings.stop),
            },
            "timings": paces(result),
        }


def paces(result: Result) -> dict[str, object]:
    """Times, per token and per second too, always as numbers: editors print them."""
    found, used, speed = timings(result), result.usage, result.timings.tokens_per_second or 0.0
    read = used.prompt_tokens - used.cached_tokens
    waited = result.timings.first_token or result.timings.total
    seconds = waited - result.timings.queued
    return found | {
        "prompt_per_token_ms": 1000 * seconds / max(read, 1),
        "prompt_per_second": read / seconds if seconds > 0 else 0.0,
        "predicted_per_token_ms": 1000 / speed if speed else 0.0,
        "predicted_per_second": speed,
    }


def chosen(body: Mapping[str, object], paths: Sequence[str]) -> dict[str, object]:
    """Only what these paths lead to, each under its path as it is written."""
    found: dict[str, object] = {}
    for path in paths:
        place: object = body
        for name in path.split("/"):
            if not isinstance(place, Mapping) or name not in place:
                break
            place = place[name]
        else:
            found[path] = place
    return found
