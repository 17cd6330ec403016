"""A model in this process as the one who answers."""

from __future__ import annotations

import json
import queue
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import replace

from localspec.chat.speakers.speaker import Ended, Figures, Piece, Round
from localspec.dialects import Arguments, Bounds, Call, Content, Part, Reader, Reasoning, dialect_of
from localspec.engine.attribution import Trail
from localspec.engine.job import Chunk, Event, Job, Result
from localspec.engine.settings import Settings
from localspec.grammar.grammar import Grammar
from localspec.runtime.runtime import Runtime
from localspec.templates.message import Message

ENDING = 256  # characters of a prompt's end that tell how the reply begins


class Local:
    def __init__(self, name: str, runtime: Runtime, about: Sequence[str] = ()) -> None:
        self.name = name
        self.about = about
        self.context = runtime.context
        self._runtime = runtime
        self._dialect = dialect_of(runtime.tokenizer.chat_template)

    def count(self, messages: Sequence[Message]) -> int:
        return len(self._runtime.conversation(messages))

    def ask(self, messages: Sequence[Message], settings: Settings) -> LocalAnswer:
        runtime, dialect = self._runtime, self._dialect
        text = runtime.render(messages)
        ending = text[-ENDING:]
        marks = (runtime.control_token(mark) for mark in dialect.marks)
        settings = replace(
            settings,
            marks=frozenset(mark for mark in marks if mark is not None),
            grammar=self._formed(settings.grammar, ending),
        )
        return LocalAnswer(runtime, dialect.reader((), ending), runtime.read(text), settings)

    def _formed(self, grammar: Grammar | None, ending: str) -> Grammar | None:
        """A model that thinks may do so before it keeps to a schema."""
        if grammar is None:
            return None
        control, schema = self._runtime.control_token, json.loads(grammar.text)
        found = self._dialect.grammar(Bounds((), control, form=schema, prompt_end=ending))
        return Grammar("lark", found) if found else grammar

    def close(self) -> None:
        self._runtime.close()


class LocalAnswer:
    def __init__(
        self, runtime: Runtime, reader: Reader, prompt: Sequence[int], settings: Settings
    ) -> None:
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._reader = reader
        self._trail = Trail()
        self._ready: deque[Piece | Ended] = deque()
        self._job: Job = runtime.submit(prompt, settings, self._events.put)

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
                if event.tokens:
                    yield Piece(round=Round(event.drafted, event.accepted, event.by))
                yield from map(self._piece, self._reader.read(event.text))
            case Result():
                yield from map(self._piece, self._reader.close())
                yield ended(event)
            case _:
                raise event

    def _piece(self, part: Part) -> Piece:
        match part:
            case Reasoning(text):
                return Piece(text, "thought", self._trail.of(text))
            case Content(text) | Arguments(_, text):
                return Piece(text, "answer", self._trail.of(text))
            case Call(_, name):
                return Piece(f"{name} ", "answer", self._trail.of(name))


def ended(result: Result) -> Ended:
    used, took, speculation = result.usage, result.timings, result.speculation
    figures = Figures(
        tokens=used.completion_tokens,
        prompt=used.prompt_tokens,
        cached=used.cached_tokens,
        first_seconds=took.first_token,
        per_second=took.tokens_per_second,
        speedup=speculation.speedup,
        rounds=speculation.rounds,
        drafted=speculation.drafted,
        accepted=speculation.accepted,
        by_source=speculation.tokens_by_source,
        guesses=speculation.guesses,
    )
    return Ended(result.finish_reason, figures, result.notices)
