"""A loaded model for programs with an event loop."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import TypeVar, Unpack

from localspec.base.errors import UsageError
from localspec.core.requests.job import Chunk, Result
from localspec.core.requests.settings import Settings
from localspec.core.requests.worker import Stream
from localspec.running.runtime.decisions.answer import Answer
from localspec.running.runtime.decisions.question import Question
from localspec.running.runtime.loading import Loading, load
from localspec.running.runtime.messages import GivenMessage
from localspec.running.runtime.phases import TellPhase, unheard
from localspec.running.runtime.reply_options import ReplyOptions
from localspec.running.runtime.runtime import Prompt, Runtime

T = TypeVar("T")


async def load_async(
    name_or_path: str | Path,
    draft: str | Path | None = None,
    loading: Loading | None = None,
    *,
    tell: TellPhase = unheard,
) -> AsyncModel:
    """Load a model as `load` does, on another thread; `tell` is called there."""
    read = partial(load, name_or_path, draft, loading, tell=tell)
    return AsyncModel(await in_thread(read, Runtime.close))


class AsyncModel:
    """A loaded model whose replies are awaited; they run together, on the models' own thread.

    A task that is cancelled ends its reply, and frees the slot. Used as a context it is closed at
    the end.

    runtime: the model, for all that needs no waiting
    """

    def __init__(self, runtime: Runtime) -> None:
        self.runtime = runtime

    async def chat(
        self,
        messages: str | Sequence[GivenMessage],
        settings: Settings | None = None,
        **options: Unpack[ReplyOptions],
    ) -> Result:
        """Answer messages with `role` and `content`, or a text as one message of the user."""
        stream = await self.stream(messages, settings, **options)
        return await stream.result()

    async def stream(
        self,
        prompt: Prompt,
        settings: Settings | None = None,
        *,
        raw: bool = False,
        **options: Unpack[ReplyOptions],
    ) -> AsyncStream:
        """Begin to answer as `chat` does: `async for chunk in await model.stream(...)`."""
        begin = partial(self.runtime.stream, prompt, settings, raw=raw, **options)
        return AsyncStream(await in_thread(begin, Stream.cancel))

    async def generate(
        self,
        prompt: str | Sequence[int],
        settings: Settings | None = None,
        **options: Unpack[ReplyOptions],
    ) -> Result:
        """Continue a text, or tokens, as they are; return the whole reply."""
        stream = await self.stream(prompt, settings, raw=True, **options)
        return await stream.result()

    async def batch(
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
                stream = await self.stream(prompt, settings, raw=raw, **options)
                ending.callback(stream.cancel)  # where another one fails
                streams.append(stream)
            return [await stream.result() for stream in streams]

    async def decide(
        self,
        state: object,
        questions: Mapping[str, Question],
        *,
        permutations: int = 1,
        calibrated: bool = True,
    ) -> dict[str, Answer]:
        """Answer questions about a state by probabilities, as `Runtime.decide` does."""
        begin = partial(
            self.runtime.begin_deciding, state, questions, permutations, calibrated=calibrated
        )
        future = await in_thread(begin, lambda future: future.cancel())
        decision = await asyncio.wrap_future(future)
        return dict(zip(questions, decision.answers, strict=True))

    async def close(self) -> None:
        """End every request and free the models; safe to call twice."""
        await in_thread(self.runtime.close)

    async def __aenter__(self) -> AsyncModel:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    def __repr__(self) -> str:
        return repr(self.runtime).replace("<Runtime", "<AsyncModel", 1)


class AsyncStream:
    """A reply as it comes: iterate for chunks, then await `result()`.

    Leaving the loop early cancels the reply, as do `cancel` and the end of the task.
    """

    def __init__(self, stream: Stream) -> None:
        loop, self._stream, self._came = asyncio.get_running_loop(), stream, asyncio.Event()

        def ring() -> None:
            with suppress(RuntimeError):  # the loop has ended
                loop.call_soon_threadsafe(self._came.set)

        stream.ring(ring)

    async def __aiter__(self) -> AsyncIterator[Chunk]:
        try:
            while True:
                self._came.clear()
                for chunk in self._stream.ready():
                    yield chunk
                if self._stream.is_over:
                    break
                await self._came.wait()
        finally:
            self.cancel()
        _ = self._stream.result  # raises what ended it

    async def result(self) -> Result:
        """Return the whole reply, once it is there."""
        async for _ in self:
            pass
        return self._stream.result

    def cancel(self) -> None:
        """Stop after the current round; the text until then stays."""
        self._stream.cancel()


async def in_thread(work: Callable[[], T], undo: Callable[[T], object] = lambda _: None) -> T:
    """Do what takes its time on another thread; undo it if nobody waits for it any more."""
    doing: Awaitable[T] = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(doing)
    except asyncio.CancelledError:
        undone = asyncio.ensure_future(_undo(doing, undo))
        UNDER_WAY.add(undone)
        undone.add_done_callback(UNDER_WAY.discard)
        raise


UNDER_WAY: set[asyncio.Future[None]] = set()  # which the loop alone would forget


async def _undo(doing: Awaitable[T], undo: Callable[[T], object]) -> None:
    with suppress(Exception):
        await asyncio.to_thread(undo, await doing)
