"""An answer that is followed to its end while it is shown; Ctrl-C stops it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from localspec.apps.chat.terminal.view import View
from localspec.base.errors import LocalSpecError
from localspec.base.system import defects
from localspec.base.system.signals import interrupted
from localspec.console.speakers.speaker import AnswerFigures, AnswerRound, Ended, LiveAnswer, Piece


@dataclass(slots=True)
class HeardAnswer:
    """An answer, complete or as far as it came before it was stopped or failed."""

    text: str = ""
    thought: str = ""
    rounds: list[AnswerRound] = field(default_factory=list)
    ended: Ended | None = None
    error: LocalSpecError | None = None

    def add(self, event: Piece | Ended) -> None:
        if isinstance(event, Ended):
            self.ended = event
            return
        if event.round:
            self.rounds.append(event.round)
        if event.kind == "thought":
            self.thought += event.text
        else:
            self.text += event.text

    @property
    def anything(self) -> bool:
        return bool(self.text or self.thought)

    @property
    def stopped(self) -> bool:
        return self.ended is not None and self.ended.finish == "cancelled"

    @property
    def figures(self) -> AnswerFigures:
        return self.ended.figures if self.ended else AnswerFigures()


def hear(
    answer: LiveAnswer,
    view: View,
    heard: HeardAnswer | None = None,
    on_stop: Callable[[], object] = lambda: None,
) -> HeardAnswer:
    """Follow an answer to its end; on an interruption, `heard` holds what came until then.

    Ctrl-C calls `on_stop` at once; the answer ends when the model has done what it is at.
    """
    heard = heard or HeardAnswer()

    def stop() -> None:
        answer.cancel()
        view.stop()
        on_stop()

    try:
        with interrupted(stop):
            _follow(answer, view, heard)
    except LocalSpecError as error:
        heard.error = error
        defects.keep(error)
    except KeyboardInterrupt:  # the second one: whoever answers does not stop
        heard.ended = Ended("cancelled", heard.figures)
    finally:
        answer.cancel()  # nothing if it has ended
        view.close()
    return heard


def _follow(answer: LiveAnswer, view: View, heard: HeardAnswer) -> None:
    while heard.ended is None:
        event = answer.next(view.wait(answer.read))
        while event is not None:
            heard.add(event)
            if isinstance(event, Ended):
                return
            view.add(event)
            event = answer.next(0)
