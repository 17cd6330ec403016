"""Texts that a model writes itself: what somebody might ask on plain topics, and its replies."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cache
from itertools import count
from pathlib import Path

from localspec.apps.training.record import Text
from localspec.apps.training.texts import HELD_OUT, is_held_out
from localspec.base.tokens import tokens_of
from localspec.core.requests.job import Result
from localspec.core.requests.settings import Settings
from localspec.core.requests.worker import Stream
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.running.runtime.runtime import Runtime

TOPICS = Path(__file__).parent / "topics.txt"
FORMS = (
    "Write one question that somebody might ask an assistant about this: {}. Write the question "
    "only, as it would be typed.",
    "Write one task for an assistant that has to do with this: {}. Write the task only, with all "
    "that is needed to do it.",
    "Write a short message to an assistant that asks for help with this: {}. Write the message "
    "only, with the details that make it plain.",
    "Write a request to an assistant for a longer answer about this: {}. Write the request only.",
)
PLAIN = "{}\n\n"  # the beginning of a text, for a model without a chat template
VARIED = Sampling(temperature=1.0, top_p=0.95)  # for what is asked
MAX_TURN, MAX_REPLY = 96, 320  # tokens
LOOK_SECONDS = 0.5  # between two looks at whether to go on


@dataclass(frozen=True, slots=True)
class Assignment:
    """A text to write. A topic that is held out never occurs in a text that is trained on."""

    topic: str
    form: str
    seed: int
    held_out: bool
    greedy: bool  # or sampled from the model's own distribution

    @classmethod
    def numbered(cls, number: int) -> Assignment:
        """Return the text of a number: each topic in turn, in each form, greedy and sampled."""
        held_out = number % HELD_OUT == HELD_OUT // 2
        earlier = (number + HELD_OUT // 2 - 1) // HELD_OUT  # texts that are held out
        subjects = held_out_topics() if held_out else trained_topics()
        turn, at = divmod(earlier if held_out else number - earlier, len(subjects))
        form = FORMS[(at + turn) % len(FORMS)]
        return cls(subjects[at], form, number, held_out, (at + turn // len(FORMS)) % 2 == 0)

    @property
    def asking(self) -> Settings:
        return Settings(max_tokens=MAX_TURN, sampling=VARIED, seed=self.seed)

    @property
    def answering(self) -> Settings:
        sampling = GREEDY if self.greedy else Sampling(temperature=1.0)
        return Settings(max_tokens=MAX_REPLY, sampling=sampling, seed=self.seed)


@cache
def topics() -> tuple[str, ...]:
    return tuple(TOPICS.read_text(encoding="utf-8").splitlines())


@cache
def held_out_topics() -> tuple[str, ...]:
    return tuple(topic for topic in topics() if is_held_out(topic.encode()))


@cache
def trained_topics() -> tuple[str, ...]:
    return tuple(topic for topic in topics() if topic not in held_out_topics())


class Writer:
    """Has a model write texts, on several threads that `end` ends."""

    def __init__(self, runtime: Runtime) -> None:
        self._runtime, self._has_ended, self._streams = runtime, False, set[Stream]()

    def write(self, assignment: Assignment) -> Text:
        """Have the model ask about a topic, and answer that."""
        runtime = self._runtime
        if runtime.tokenizer.chat_template:
            request = [{"role": "user", "content": assignment.form.format(assignment.topic)}]
            question = self._reply(runtime.stream(request, assignment.asking, thinking=False))
            turn = question.text.strip() or assignment.topic
            prompt = runtime.conversation([{"role": "user", "content": turn}])
        else:
            prompt = runtime.encode(PLAIN.format(assignment.topic))
        reply = self._reply(runtime.stream(prompt, assignment.answering))
        return Text(tokens_of([*prompt, *reply.tokens]), len(prompt), assignment.held_out)

    def _reply(self, stream: Stream) -> Result:
        self._streams.add(stream)
        if self._has_ended:
            stream.cancel()
        try:
            return stream.result
        finally:
            self._streams.discard(stream)

    def end(self) -> None:
        """Cancel all replies, those too that are yet to begin."""
        self._has_ended = True
        for stream in tuple(self._streams):
            stream.cancel()


def write(runtime: Runtime, begin: int, breathe: Callable[[], None]) -> Generator[Text, None, None]:
    """Have texts written from the one of this number on, in their order, without end.

    As many are worked on as there are slots. `breathe` is called between rounds, now and then, and
    may take as long as it likes.
    """
    numbers, writer = count(begin), Writer(runtime)
    threads = ThreadPoolExecutor(runtime.slots)

    def submit() -> Future[Text]:
        return threads.submit(writer.write, Assignment.numbered(next(numbers)))

    pending = deque(submit() for _ in range(2 * runtime.slots))
    try:
        while True:
            while not wait([pending[0]], LOOK_SECONDS).done:
                runtime.slot_action(lambda _: breathe())
            breathe()
            yield pending.popleft().result()
            pending.append(submit())
    finally:
        writer.end()  # or a thread might tokenise after the model is freed
        threads.shutdown(cancel_futures=True)
