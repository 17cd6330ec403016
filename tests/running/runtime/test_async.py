"""A model for programs with an event loop."""

from __future__ import annotations

import asyncio
import threading

import pytest

import localspec
from localspec import AsyncModel
from localspec.base.errors import LocalSpecError, UsageError
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.interfaces.testing import ScriptedModel
from localspec.running.runtime.async_model import in_thread
from localspec.running.runtime.runtime import Runtime
from tests import engines
from tests.apps.server.scripted import TEMPLATE, Bytes, script

LONG = "x" * 3000


class Slow(ScriptedModel):
    """Waits before each forward until it may go on."""

    def __init__(self, *parts):
        super().__init__(*parts)
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.wait_from = 10**9  # forwards

    def forward(self, rows):
        if self.forwards >= self.wait_from:
            self.goes_on.wait()
        return super().forward(rows)


def target(slots=2):
    tokenizer = Bytes(TEMPLATE)
    made = Slow(script(tokenizer, {"hi": "ho", "long": LONG}), tokenizer)
    made.context, made.slots = 4096, slots
    return made


def model(made=None):
    return AsyncModel(Runtime(Engine(made or target(), Silent())))


def run(work):
    return asyncio.run(asyncio.wait_for(work(), 60))


def test_replies_are_awaited_and_run_together():
    async def work():
        async with model() as one:
            replies = await asyncio.gather(*(one.chat("hi") for _ in range(20)))
            assert [reply.text for reply in replies] == ["ho"] * 20
            assert (await one.generate("hi", max_tokens=2)).usage.completion_tokens == 2
            assert [reply.text for reply in await one.batch(["hi", "hi"])] == ["ho", "ho"]
            assert repr(one).startswith("<AsyncModel of a model")

    run(work)


def test_a_stream_is_iterated_while_the_loop_does_other_things():
    async def work():
        ticks = 0

        async def tick():
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0)

        async with model() as one:
            ticking = asyncio.create_task(tick())
            stream = await one.stream("long")
            text = "".join([chunk.text async for chunk in stream])
            ticking.cancel()
            assert text == (await stream.result()).text == LONG
            assert ticks > 10

    run(work)


@pytest.mark.parametrize("end", ["task", "loop"])
def test_whoever_leaves_a_reply_frees_its_slot(end):
    made = target(slots=1)
    made.wait_from = 20

    async def work():
        async with model(made) as one:
            begun = asyncio.Event()

            async def read():
                async for _ in await one.stream("long"):
                    begun.set()
                    if end == "loop":
                        break

            task = asyncio.create_task(read())
            await begun.wait()
            task.cancel()
            await asyncio.wait([task])
            made.goes_on.set()
            assert (await one.chat("hi")).text == "ho"  # in the only slot
            assert made.forwards < len(LONG)

    made.goes_on.clear()
    run(work)


def test_a_task_that_ends_while_its_reply_is_awaited_ends_the_reply():
    made = target(slots=1)

    async def work():
        async with model(made) as one:
            task = asyncio.create_task(one.chat("long"))
            while made.forwards < 5:
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.wait([task])
            assert task.cancelled()
            assert (await one.chat("hi")).text == "ho"

    run(work)
    assert made.forwards < len(LONG)


def test_what_came_too_late_for_anybody_is_undone():
    begun, may_end, undone = threading.Event(), threading.Event(), threading.Event()

    def make():
        begun.set()
        may_end.wait()
        return 7

    async def work():
        task = asyncio.create_task(in_thread(make, lambda made: made == 7 and undone.set()))
        await asyncio.to_thread(begun.wait)
        task.cancel()
        await asyncio.wait([task])
        may_end.set()
        await asyncio.to_thread(undone.wait, 30)

    run(work)
    assert undone.is_set()


def test_what_is_wrong_is_raised_where_it_is_awaited():
    async def work():
        one = model()
        with pytest.raises(UsageError, match="there is no option 'temprature'"):
            await one.chat("hi", temprature=1)
        with pytest.raises(UsageError, match="a batch is a list of prompts"):
            await one.batch("hi")
        await one.close()
        await one.close()
        with pytest.raises(LocalSpecError, match="this model was closed"):
            await one.chat("hi")

    run(work)


def test_a_model_is_loaded_from_its_file():
    async def work():
        loading = localspec.Loading(engines.OPTIONS)
        async with await localspec.load_async(engines.tiny("llama"), loading=loading) as one:
            assert (await one.chat("hi", max_tokens=3)).usage.completion_tokens == 3
            assert one.runtime.facts.target

    run(work)
