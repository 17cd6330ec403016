"""A stream whose end fails, or is cut off, has passed on all that came before."""

from __future__ import annotations

import asyncio
import errno
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass

import pytest

from localspec.apps.server.replies.streaming import Streaming


@dataclass
class TwoSteps:
    """Choices of one reply in two steps."""

    over: bool = False

    async def steps(self):
        yield [(0, "one ")]
        self.over = True
        yield [(0, "two ")]


class FailingAtItsEnd:
    def __init__(self, closing):
        self.closing = closing

    def opening(self):
        return [b"begun "]

    def bodies(self, number, step):
        return [step.encode()]


async def broken():
    raise OSError(errno.ENOSPC, "a disk is full")


async def cut_off():
    raise asyncio.CancelledError


async def never():
    await asyncio.Event().wait()


async def sent_by(closing):
    sent = []

    async def send(message):
        sent.append(message)

    answer = FailingAtItsEnd(closing)
    stream = Streaming(answer, TwoSteps(), AsyncExitStack(), lambda fault: b"%d" % fault.status)
    with suppress(asyncio.CancelledError):
        await stream({}, never, send)
    return sent


@pytest.mark.parametrize(
    ("closing", "said"),
    [(broken, b"500"), (cut_off, b"503")],
    ids=["fails", "is cut off"],
)
def test_the_last_step_comes_before_the_error(closing, said):
    sent = asyncio.run(sent_by(closing))
    assert b"".join(each.get("body", b"") for each in sent) == b"begun one two " + said
    assert sent[-1]["more_body"] is False
