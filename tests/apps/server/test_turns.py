"""Turns: one piece of work at a time, the smallest first, and no more wait than may."""

from __future__ import annotations

import asyncio

import pytest

from localspec.apps.server.faults import Refused
from localspec.apps.server.turns import MAX_WAITING, Turns


class Work:
    """Pieces of work of some sizes, which note in what order they have their turns."""

    def __init__(self) -> None:
        self.turns, self.order, self.go = Turns("pictures"), [], asyncio.Event()
        self.under_way = 0

    async def begin(self, *sizes: int) -> list[asyncio.Task[None]]:
        tasks = [asyncio.create_task(self._do(size)) for size in sizes]
        await asyncio.sleep(0)
        return tasks

    async def _do(self, size: int) -> None:
        async with self.turns.turn(size):
            self.under_way += 1
            assert self.under_way == 1
            self.order.append(size)
            await self.go.wait()
            self.under_way -= 1


def test_the_smallest_of_those_that_wait_is_next_and_equal_ones_keep_their_order():
    async def story():
        work = Work()
        tasks = await work.begin(9, 5, 7, 1, 5)
        assert work.order == [9]
        work.go.set()
        await asyncio.gather(*tasks)
        assert work.order == [9, 1, 5, 5, 7]

    asyncio.run(story())


def test_a_turn_of_somebody_who_leaves_goes_to_the_next():
    async def story():
        work = Work()
        [first, waits, gets, last] = await work.begin(1, 2, 3, 4)
        waits.cancel()
        work.go.set()
        await first
        await asyncio.wait_for(asyncio.gather(gets, last), 5)
        assert work.order == [1, 3, 4]

    asyncio.run(story())


@pytest.mark.parametrize("given", [False, True])
def test_a_turn_for_somebody_who_leaves_at_that_moment_goes_to_the_next(given):
    async def story():
        work = Work()

        async def leave():
            async with work.turns.turn(1):
                await work.go.wait()
                given or second.cancel()
            given and second.cancel()

        first = asyncio.create_task(leave())
        await asyncio.sleep(0)
        [second, third] = await work.begin(2, 3)
        work.go.set()
        await first
        await asyncio.wait_for(third, 5)
        assert work.order == [3]

    asyncio.run(story())


def test_where_too_many_wait_the_largest_is_refused():
    async def story():
        work = Work()
        tasks = await work.begin(50, *[90] * MAX_WAITING)
        tasks.pop().cancel()
        await asyncio.sleep(0)
        tasks += await work.begin(90)
        await asyncio.sleep(0)
        assert not tasks[-1].done()
        [large, small] = await work.begin(95, 10)
        with pytest.raises(Refused, match="16 requests with pictures wait, as many as may"):
            await asyncio.wait_for(large, 5)
        with pytest.raises(Refused):
            await asyncio.wait_for(tasks[-1], 5)
        work.go.set()
        await asyncio.gather(*tasks[:-1], small)
        assert work.order == [50, 10, *[90] * (MAX_WAITING - 1)]

    asyncio.run(story())
