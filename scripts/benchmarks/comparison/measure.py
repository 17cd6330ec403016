"""Measurement of all sides with the same requests, in turn, one side at a time."""

from __future__ import annotations

import contextlib
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from dataclasses import dataclass
from typing import NoReturn

from benchmarks.comparison.asking import AskingError, Body, TimedReply, ask
from benchmarks.comparison.plan import Section, Setting, rotated
from benchmarks.comparison.questions import body
from benchmarks.comparison.sides import Side
from benchmarks.comparison.task_sets import PeerPrompt
from benchmarks.serving.process import ServerProcess, last_lines

DYING_SECONDS = 2.0  # from a broken connection to the end of the process
WARM_UP = PeerPrompt("warm-up", "Tell me in a few sentences what a lighthouse is for.")
WARM_UP_TOKENS = 32

Start = Callable[[Side, int, int], AbstractContextManager[ServerProcess]]


@dataclass(frozen=True, slots=True)
class Volley:
    """The replies of one side to one section."""

    side: str
    round: int
    section: int
    seconds: float  # until the last reply was over
    replies: Sequence[TimedReply]  # in the order of the prompts


@dataclass(frozen=True, slots=True)
class PeersRun:
    """A comparison: what is compared, and how often."""

    sides: Sequence[Side]
    start: Start
    rounds: int
    max_tokens: int
    together: bool  # whether all sides may stay loaded

    def measure(self, setting: Setting) -> Iterator[Volley]:
        """Begin each round with new servers, which have read none of the texts before."""
        for number in range(self.rounds):
            yield from (self._in_turn if self.together else self._one_by_one)(setting, number)

    def _in_turn(self, setting: Setting, number: int) -> Iterator[Volley]:
        with ExitStack() as stack:
            askers = [stack.enter_context(self._warm(side, setting)) for side in self.sides]
            for at in range(len(setting.sections)):
                for asker in rotated(askers, number + at):
                    yield self._volley(asker, setting, number, at)

    def _one_by_one(self, setting: Setting, number: int) -> Iterator[Volley]:
        for side in rotated(self.sides, number):
            with self._warm(side, setting) as asker:
                for at in range(len(setting.sections)):
                    yield self._volley(asker, setting, number, at)

    @contextmanager
    def _warm(self, side: Side, setting: Setting) -> Iterator[Asker]:
        """Start a side and let it answer as many requests at once as it will get."""
        with self.start(side, setting.streams, setting.context) as server:
            section = [WARM_UP] * setting.streams
            bodies = [body(WARM_UP, f"0.{n}", WARM_UP_TOKENS, 0) for n in range(setting.streams)]
            asker = Asker(server, side)
            asker.ask(section, bodies, setting.streams)
            yield asker

    def _volley(self, asker: Asker, setting: Setting, number: int, at: int) -> Volley:
        bodies = section_bodies(setting, number, at, self.max_tokens)
        seconds, replies = asker.ask(setting.sections[at], bodies, setting.streams)
        return Volley(asker.side.name, number, at, seconds, replies)


def show_progress(run: PeersRun, setting: Setting, volleys: Sequence[Volley]) -> None:
    whole = run.rounds * len(setting.sections) * len(run.sides)
    line = f"{setting.name}: {len(volleys)} of {whole} turns, {volleys[-1].side}"
    print(f"\r{line:<78}", end="\n" if len(volleys) == whole else "", file=sys.stderr, flush=True)


def section_bodies(
    setting: Setting, number: int, at: int, max_tokens: int
) -> list[dict[str, object]]:
    """Make the requests of a section; the turns of a session that one stream asks begin alike."""
    bodies, mark = [], 0
    for prompt in setting.sections[at]:
        mark += setting.streams > 1 or not prompt.history
        bodies.append(
            body(
                prompt,
                f"{number + 1}.{at + 1}.{mark}",
                max_tokens,
                setting.temperature,
                whole=setting.streams > 1,
            )
        )
    return bodies


@dataclass(frozen=True, slots=True)
class Asker:
    """Asks one server; if it dies, raises an error with the last lines of its log."""

    server: ServerProcess
    side: Side

    def ask(
        self, section: Section, bodies: Sequence[Body], streams: int
    ) -> tuple[float, list[TimedReply]]:
        """Ask everything in as many streams, each of which takes the next prompt when it can.

        Return the seconds until the last reply was over, and the replies.
        """
        begun = time.perf_counter()
        waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
        for at in range(len(bodies)):
            waiting.put(at)
        replies: dict[int, TimedReply] = {}
        errors: list[AskingError] = []

        def stream() -> None:
            try:
                while not errors:
                    at = waiting.get_nowait()
                    replies[at] = ask(self.server.address, bodies[at], section[at].category)
            except queue.Empty:
                return
            except AskingError as error:
                errors.append(error)

        threads = [threading.Thread(target=stream, daemon=True) for _ in range(streams)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        seconds = time.perf_counter() - begun
        if errors:
            self._fail(errors[0])
        return seconds, [replies[at] for at in range(len(bodies))]

    def _fail(self, error: AskingError) -> NoReturn:
        process = self.server.process
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(DYING_SECONDS)
        ended = "" if process.poll() is None else f" and ended with {process.returncode}"
        log_lines = last_lines(self.server.log)
        raise SystemExit(f"{self.side.name} did not answer{ended}: {error}\n{log_lines}") from error
