"""A loaded model for its users: chat, stream, generate, batch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, TypeVar, Unpack

from localspec.base.errors import UsageError
from localspec.base.tokens import tokens_of
from localspec.core.corpus.corpus import Corpus
from localspec.core.corpus.replies import LEAD
from localspec.core.prefix_cache.slots import Slots
from localspec.core.requests.engine import Engine
from localspec.core.requests.job import Event, Job, Listener, Result
from localspec.core.requests.settings import Settings
from localspec.core.requests.worker import Events, Reads, Stream, Worker, as_it_is
from localspec.formats.templates.message import Tool
from localspec.running.memory.machine import Pool
from localspec.running.runtime import prompting
from localspec.running.runtime.decisions import kept_temperatures
from localspec.running.runtime.decisions.answer import Answer, Decision
from localspec.running.runtime.decisions.deciding import Decider
from localspec.running.runtime.decisions.prompts import as_state
from localspec.running.runtime.decisions.question import Question
from localspec.running.runtime.decisions.temperature import Calibration, Labelled, calibrate
from localspec.running.runtime.loaded_facts import NO_FACTS, LoadedFacts
from localspec.running.runtime.media_text import mark_media, split_at_marks
from localspec.running.runtime.message_media import with_media
from localspec.running.runtime.messages import GivenMessage, are_tokens, as_messages, require_roles
from localspec.running.runtime.model_text import ModelText
from localspec.running.runtime.reply_options import (
    MAX_TOKENS,
    ReplyOptions,
    conversation_with,
    refuse_of_chats,
    settings_with,
)
from localspec.running.runtime.reply_reading import ReplyReading, tell_of_limit

if TYPE_CHECKING:
    from localspec.running.runtime.vector_runtime import VectorRuntime

T = TypeVar("T")
Prompt = str | Sequence[GivenMessage] | Sequence[int]
LOOK: Tool = {"type": "function", "function": {"name": "look", "parameters": {"type": "object"}}}
# Long enough to be tokenised in pieces.
REHEARSAL = prompting.Conversation([{"role": "user", "content": "?" * 5000}], [LOOK])


class Runtime:
    """A loaded model and its proposers. Any thread may call it; requests run together.

    Used as a context it is closed at the end.

    tokenizer: encodes texts, and knows the chat template
    sight: takes in pictures and sounds; None: the model reads text only
    context: tokens that one text can have, prompt and reply together
    text: how a conversation becomes tokens, and these are read
    slots: texts that are worked on at once
    facts: what loading found out: `facts.plan` with its concessions, `facts.pairing`
    vectors: turns texts into vectors, if it was loaded with `Options(pooling=...)`
    """

    def __init__(
        self,
        engine: Engine,
        closing: ExitStack | None = None,
        facts: LoadedFacts = NO_FACTS,
        vectors: VectorRuntime | None = None,
    ) -> None:
        self.tokenizer = engine.target.tokenizer
        self.sight = engine.target.sight
        self.context = engine.target.context
        self.text = ModelText(self.tokenizer, self.sight, self.context)
        self.slots = engine.target.slots
        self.facts = facts
        self.vectors = vectors
        self._tiers = engine.tiers
        self._worker = Worker(engine)
        self.decider = Decider(self.text, self._worker.submit, self.slots)
        self.decider.temperatures = kept_temperatures.temperatures_of(facts)
        # Also if it is never closed: the thread must not outlive the interpreter in mid-forward.
        self._close = weakref.finalize(self, _end, self._worker, closing or ExitStack())

    @property
    def kept_bytes(self) -> int:
        """The bytes of the prefix cache in memory."""
        return self._tiers.bytes

    def devices(self) -> list[Pool]:
        """Measure the memories in use by the models; empty where they are not known."""
        return self.facts.devices()

    def slot_action(self, work: Callable[[Slots], T]) -> T:
        """Save, restore or erase a slot between two rounds, and wait for that."""
        return self._worker.call(work)

    def chat(
        self,
        messages: str | Sequence[GivenMessage],
        settings: Settings | None = None,
        **options: Unpack[ReplyOptions],
    ) -> Result:
        """Answer messages with `role` and `content`, or a text as one message of the user.

        A message may have `images`: paths, bytes or Pillow's; the model must have a `sight`.

        Options, as `temperature=0.7` or `json_schema={...}`, are those of `ReplyOptions`. Without
        settings the sampling is the model's, `facts.usual`; that of `Settings()` is greedy.
        """
        return self.stream(as_messages(messages), settings, **options).result

    def stream(
        self,
        prompt: Prompt,
        settings: Settings | None = None,
        *,
        raw: bool = False,
        **options: Unpack[ReplyOptions],
    ) -> Stream:
        """Answer as `chat` does, in chunks that can be iterated as they come.

        Tokens are continued as they are; so is a text, if it is `raw` or without chat template.
        """
        settings, ends = self._settings(settings, options)
        if isinstance(prompt, str) and (raw or not self.tokenizer.chat_template):
            prompt = self.encode(prompt)
        if are_tokens(prompt):
            refuse_of_chats(options)
            return self._begin(prompt, settings, ends(as_it_is))
        if raw:
            raise UsageError("raw is for a text; messages go through the chat template")
        messages, media = with_media(self._messages(prompt))
        conversation = replace(conversation_with(messages, settings, options), media=media)
        prepared = prompting.prompt(self.text, conversation, settings)
        reads = ends(ReplyReading(prepared.reader()))
        return self._begin(prepared.tokens, prepared.settings, reads)

    def _settings(
        self, settings: Settings | None, options: ReplyOptions
    ) -> tuple[Settings, Callable[[Reads], Reads]]:
        """Combine settings and options; a reply whose length nobody chose gets a limit."""
        combined = settings_with(settings, options, self.facts.usual.sampling)
        if settings is None and "max_tokens" not in options:
            return replace(combined, max_tokens=MAX_TOKENS), tell_of_limit
        return combined, lambda reads: reads

    def _messages(self, prompt: object) -> Sequence[GivenMessage]:
        """Check messages, and that the chat template has their roles."""
        return require_roles(as_messages(prompt), self.tokenizer.chat_template or "")

    def generate(
        self,
        prompt: str | Sequence[int],
        settings: Settings | None = None,
        **options: Unpack[ReplyOptions],
    ) -> Result:
        """Continue a text, or tokens, as they are; return the whole reply."""
        return self.stream(prompt, settings, raw=True, **options).result

    def batch(
        self,
        prompts: Sequence[Prompt],
        settings: Settings | None = None,
        *,
        raw: bool = False,
        **options: Unpack[ReplyOptions],
    ) -> list[Result]:
        """Answer several prompts, each as `stream` would, as many at once as there are slots."""
        if isinstance(prompts, str):
            raise UsageError("a batch is a list of prompts, and this is one text")
        with ExitStack() as ending:
            streams = []
            for prompt in prompts:
                stream = self.stream(prompt, settings, raw=raw, **options)
                ending.callback(stream.cancel)  # where another one fails
                streams.append(stream)
            return [stream.result for stream in streams]

    def decide(
        self,
        state: object,
        questions: Mapping[str, Question],
        *,
        permutations: int = 1,
        calibrated: bool = True,
    ) -> dict[str, Answer]:
        """Answer questions about a state, a text or what JSON can hold, by probabilities.

        Options are shown in as many orders as `permutations` says, and the answers averaged. They
        have the temperatures of `calibrate`, if there are any, and are to be `calibrated`.
        """
        future = self.begin_deciding(state, questions, permutations, calibrated=calibrated)
        try:
            return dict(zip(questions, future.result().answers, strict=True))
        finally:
            future.cancel()  # where the wait for it was ended

    def begin_deciding(
        self,
        state: object,
        questions: Mapping[str, Question],
        permutations: int = 1,
        *,
        calibrated: bool = True,
    ) -> Future[Decision]:
        """Begin to decide; the answers come in the order of the questions."""
        parts, listed = as_state(state), list(questions.values())
        return self.decider.prepare(parts, listed, permutations, calibrated=calibrated).begin()

    def calibrate(self, labelled: Sequence[Labelled]) -> list[Calibration]:
        """Fit temperatures to answers and the options that are right, and keep those that help.

        Each kind of question has its own. The answers must have none yet (`calibrated=False`).
        """
        calibrations = calibrate(labelled)
        temperatures = {
            calibration.kind: calibration.temperature
            for calibration in calibrations
            if calibration.helps
        }
        kept_temperatures.keep(self.facts, temperatures)
        self.decider.temperatures = temperatures
        return calibrations

    def _begin(self, tokens: Sequence[int], settings: Settings, reads: Reads) -> Stream:
        events = Events()
        return Stream(self.submit(tokens, settings, events.put), events, owner=self, reads=reads)

    def submit(self, tokens: Sequence[int], settings: Settings, listener: Listener) -> Job:
        """Continue tokens, and pass each round's events to a listener on the models' thread."""
        proposers, chosen = self.facts.proposers, set(settings.proposers or ())
        if proposers is not None and (unknown := chosen - set(proposers)):
            names = ", ".join(proposers) or "none"
            raise UsageError(f"{min(unknown)} does not draft for this model; these do: {names}")
        if corpus := self.facts.corpus:
            corpus.look_for_changes()
            listener = partial(pass_on, corpus, tokens[-LEAD:], listener)
        return self._worker.submit(tokens_of(tokens), settings, listener)

    def rehearse(self) -> None:
        """Do what the first request with tools would wait for: it learns, starts and compiles once.

        Building what grammars know of a vocabulary of 151,000 tokens takes a second.
        """
        prepared = prompting.prompt(self.text, REHEARSAL, Settings())
        self._worker.check(tokens_of(prepared.tokens), prepared.settings)

    def encode(self, text: str) -> list[int]:
        """Tokenise a plain prompt, with the start token if the model wants one."""
        return self.text.encode(text)

    def conversation(self, messages: Sequence[GivenMessage]) -> list[int]:
        """Tokenise a conversation to ask for its next reply."""
        texts, media = with_media(self._messages(messages))
        return split_at_marks(self.text.render(mark_media(texts, media)), media).read(self.text)[0]

    def close(self) -> None:
        """End every request and free the models; safe to call twice."""
        self._close()

    def __repr__(self) -> str:
        target, proposers = self.facts.target, self.facts.proposers
        model = f"{target.files.path.name} ({target.files.engine})" if target else "a model"
        slots = "1 slot" if self.slots == 1 else f"{self.slots} slots"
        drafts = f"drafts by {', '.join(proposers)}" if proposers else "no drafts"
        return f"<Runtime of {model}: {self.context:,} tokens, {slots}, {drafts}>"

    def __enter__(self) -> Runtime:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def pass_on(corpus: Corpus, lead: Sequence[int], listener: Listener, event: Event) -> None:
    """Pass an event on, and let a corpus keep the reply."""
    listener(event)
    if isinstance(event, Result):
        corpus.learn(lead, event.tokens)


def _end(worker: Worker, closing: ExitStack) -> None:
    worker.close()
    closing.close()
