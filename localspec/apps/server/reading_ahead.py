"""Prompts that are read before they are asked, while nobody waits for an answer."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial

from localspec.apps.server.model_host import ModelHost
from localspec.apps.server.preparing import Preparing
from localspec.apps.server.replies.reply import Choices, Reply
from localspec.apps.server.requests.prepared import Prepared, Verbatim
from localspec.base.system.power import is_on_battery
from localspec.core.requests.settings import READ_ONLY
from localspec.formats.templates.message import Json, Message


def may_read_ahead(choice: bool | None) -> bool:
    """Whether to read in advance: as chosen, else wherever no battery pays for it."""
    return not is_on_battery() if choice is None else choice


def only_read(prepared: Prepared) -> Prepared:
    """Have a prompt read, and no reply written."""
    asked = prepared.settings
    settings = replace(READ_ONLY, adapters=asked.adapters, media=asked.media)
    return replace(prepared, settings=settings, reader=Verbatim)


async def rehearse(host: ModelHost, preparing: Preparing, name: str) -> None:
    """Do what the first request of an agent would wait for; it takes no place of a request."""
    with suppress(Exception):  # the first request hears of what is wrong
        async with host.unchanged(name) as served:
            if served is not None:
                await preparing.run(served.runtime.rehearse)


def follow(host: ModelHost, preparing: Preparing, choices: Choices) -> None:
    """Read what the next prompt begins with, if it will not repeat the reply as it was written.

    Templates leave thoughts out of what was said before, and write calls in a way of their own.
    """
    reply = choices.replies[0]
    differs = bool(reply.reasoning or reply.calls) and reply.prepared.before_next is not None
    is_whole = reply.ended is not None and reply.ended.finish_reason == "stop"
    if len(choices.replies) == 1 and is_whole and differs:
        host.work(_follow(host, preparing, reply))


async def _follow(host: ModelHost, preparing: Preparing, reply: Reply) -> None:
    prepared = reply.prepared
    served, before_next = prepared.served, prepared.before_next
    if before_next is None or served.leaving or host.loaded.get(served.name) is not served:
        return
    with suppress(Exception):  # the next request reads it, and hears of what is wrong
        async with host.lease(served.name):
            tokens = await preparing.run(partial(before_next, message_of(reply)))
            if len(tokens):
                served.runtime.submit(tokens.tolist(), only_read(prepared).settings, lambda _: None)


def message_of(reply: Reply) -> Message:
    """Write a reply as clients send it back."""
    calls: Sequence[Json] = [
        {
            "id": f"call_{number}",
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }
        for number, call in enumerate(reply.calls)
    ]
    return {
        "role": "assistant",
        "content": reply.content,
        **({"reasoning_content": reply.reasoning} if reply.reasoning else {}),
        **({"tool_calls": calls} if calls else {}),
    }
