"""A model in this process as a speaker."""

from __future__ import annotations

import queue
from collections import deque
from collections.abc import Iterator, Sequence

from localspec.console.speakers.speaker import AnswerFigures, AnswerRound, Ended, Piece, texts_of
from localspec.core.requests.attribution import Trail
from localspec.core.requests.job import Chunk, Event, Job, Result
from localspec.core.requests.settings import READ_ONLY, Settings
from localspec.formats.dialects import Arguments, Call, Content, Part, Reasoning
from localspec.formats.templates.message import Message
from localspec.formats.templates.thinking import SWITCH
from localspec.running.runtime.message_media import with_media
from localspec.running.runtime.prompting import Conversation, PreparedPrompt, prompt
from localspec.running.runtime.repetition import notices_of
from localspec.running.runtime.runtime import Runtime


class LocalSpeaker:
    def __init__(self, name: str, runtime: Runtime, about: Sequence[str] = ()) -> None:
        self.name = name
        self.about = about
        self.context = runtime.context
        self._runtime = runtime

    def count(self, messages: Sequence[Message]) -> int:
        return len(self._runtime.conversation(messages if self.sees else texts_of(messages)))

    @property
    def sees(self) -> bool:
        return self._runtime.sight is not None

    @property
    def thinks(self) -> bool:
        return self._runtime.text.dialect.reasons

    def ask(
        self, messages: Sequence[Message], settings: Settings, *, think: bool | None = None
    ) -> LocalAnswer:
        return LocalAnswer(self._runtime, self._prompt(messages, settings, think))

    def read_ahead(
        self, messages: Sequence[Message], settings: Settings, *, think: bool | None = None
    ) -> None:
        *before, reply = messages
        tokens = self._prompt(before, settings, think).before_next(reply)
        if len(tokens):
            self._runtime.submit(tokens.tolist(), READ_ONLY, lambda _: None)

    def _prompt(
        self, messages: Sequence[Message], settings: Settings, think: bool | None
    ) -> PreparedPrompt:
        extra = {} if think is None else {SWITCH: think}
        texts, media = with_media(messages if self.sees else texts_of(messages))
        conversation = Conversation(texts, format=settings.grammar, extra=extra, media=media)
        return prompt(self._runtime.text, conversation, settings)

    def close(self) -> None:
        self._runtime.close()


class LocalAnswer:
    def __init__(self, runtime: Runtime, prepared: PreparedPrompt) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._reader = prepared.reader()
        self._trail = Trail()
        self._ready: deque[Piece | Ended] = deque()
        self._job: Job = runtime.submit(prepared.tokens, prepared.settings, self._events.put)

    @property
    def read(self) -> float:
        return self._job.read

    def cancel(self) -> None:
        self._job.cancelled = True

    def next(self, seconds: float) -> Piece | Ended | None:
        if not self._ready:
            try:
                self._ready.extend(self._pieces(self._events.get(timeout=seconds)))
            except queue.Empty:
                return None
        return self._ready.popleft() if self._ready else None

    def _pieces(self, event: Event) -> Iterator[Piece | Ended]:
        match event:
            case Chunk():
                self._trail.note(event)
                for _ in range(event.rounds if event.tokens else 0):
                    yield Piece(round=AnswerRound(event.drafted, event.accepted, event.by))
                yield from map(self._piece, self._reader.read(event.text))
            case Result():
                yield from map(self._piece, self._reader.close())
                yield end_of(event)
            case _:
                raise event

    def _piece(self, part: Part) -> Piece:
        match part:
            case Reasoning(text):
                return Piece(text, "thought", self._trail.attribute(text))
            case Content(text) | Arguments(_, text):
                return Piece(text, "answer", self._trail.attribute(text))
            case Call(_, name):
                return Piece(f"{name} ", "answer", self._trail.attribute(name))


def end_of(result: Result) -> Ended:
    used, took, speculation = result.usage, result.timings, result.speculation
    figures = AnswerFigures(
        tokens=used.completion_tokens,
        prompt=used.prompt_tokens,
        cached=used.cached_tokens,
        thought=used.reasoning_tokens,
        thoughts_cut=used.thoughts_cut,
        first_seconds=took.first_token,
        per_second=took.tokens_per_second,
        speedup=speculation.speedup,
        rounds=speculation.rounds,
        drafted=speculation.drafted,
        accepted=speculation.accepted,
        by_source=speculation.tokens_by_source,
        guesses=speculation.positions,
    )
    return Ended(result.finish_reason, figures, notices_of(result))
