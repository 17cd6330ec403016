"""Requests that come to nothing: refused, given up, or malformed."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from collections import Counter
from urllib.parse import urlsplit

from soaking.caller import Busy, Caller, require_refusal, require_success
from soaking.reply import CHAT, COMPLETIONS, SoakReply, Wrong

MALFORMED = (
    b"",
    b"{",
    b"null",
    b"[]",
    b'"a text"',
    b"\xff\xfe\x00",
    b'{"messages": []}',
    b'{"messages": "hello"}',
    b'{"messages": [{"role": "user", "content": "hi"}], "temperature": "hot"}',
    b'{"messages": [{"role": "user", "content": "hi"}], "temperature": NaN}',
    b'{"messages": [{"role": "user", "content": "hi"}], "n": 1000}',
    b'{"messages": [{"role": "user", "content": "hi"}], "tool_choice": "required"}',
    b'{"messages": [{"role": "user", "content": "hi"}], "response_format": '
    b'{"type": "json_schema", "json_schema": {"schema": {"type": "nonsense"}}}}',
    b'{"messages": [{"role": "user", "content": ' + b"[" * 5000 + b"]" * 5000 + b"}]}",
)
GOING_ON = {"max_tokens": 400, "temperature": 0.9, "ignore_eos": True}


async def malformed(caller: Caller) -> str:
    headers = {"content-type": "application/json"}
    body = caller.luck.choice(MALFORMED)
    try:
        require_refusal(await caller.client.post(CHAT, content=body, headers=headers))
    except Wrong as error:
        raise Wrong(f"{body[:120]!r}: {error}") from error
    return "refused"


async def too_long(caller: Caller) -> str:
    asked = [{"role": "user", "content": "again and " * caller.luck.randint(4_000, 20_000)}]
    answer = await caller.client.post(CHAT, json={"messages": asked, "max_tokens": 8})
    require_refusal(answer, code="context_length_exceeded")
    return "refused"


async def infill(caller: Caller) -> str:
    """Ask for a middle, which the starter model has no marks for."""
    body = {"prompt": "def area(a, b):", "suffix": "    return product", "max_tokens": 8}
    require_refusal(await caller.client.post(COMPLETIONS, json=body))
    return "refused"


async def leaves(caller: Caller) -> str:
    """Give up a stream after some pieces or some time, sometimes before the first piece."""
    body = {**caller.question(), **GOING_ON, "stream": True}
    pieces, reply = caller.luck.randrange(60), SoakReply(CHAT)
    try:
        async with asyncio.timeout(caller.luck.uniform(0, 8)):
            async with caller.client.stream("POST", CHAT, json=body) as answer:
                if not answer.is_success:
                    await answer.aread()
                require_success(answer)
                async for line in answer.aiter_lines():
                    reply.take(line)
                    pieces -= 1
                    if pieces < 0:
                        break
    except TimeoutError:
        pass
    return "left"


async def gives_up_waiting(caller: Caller) -> str:
    """Give up waiting for a whole reply."""
    body = {**caller.question(), **GOING_ON}
    try:
        async with asyncio.timeout(caller.luck.uniform(0, 4)):
            require_success(await caller.client.post(CHAT, json=body))
    except TimeoutError:
        return "left"
    return "finished"


async def drops(caller: Caller) -> str:
    """Close or reset a socket within a request or before its answer."""
    whole = request(caller, {**caller.question(), **GOING_ON, "stream": True})
    _, writer = await connect(caller)
    writer.write(whole[: caller.luck.choice((1, 20, len(whole) // 2, len(whole) - 1, len(whole)))])
    await asyncio.sleep(caller.luck.uniform(0, 1))
    if caller.luck.random() < 0.5:
        line: socket.socket = writer.get_extra_info("socket")
        line.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.close()
    return "left"


async def reads_slowly(caller: Caller) -> str:
    """Read some hundred bytes now and then, and yet to the end."""
    more = {"stream": True, "max_tokens": 64, "logprobs": True, "top_logprobs": 20}
    reader, writer = await connect(caller, limit=512)
    try:
        writer.write(request(caller, {**caller.question(), **more}))
        received = b""
        while piece := await reader.read(caller.luck.choice((64, 512, 4096, 65536))):
            received += piece
            await asyncio.sleep(0.01)
    finally:
        writer.close()
    if received.startswith(b"HTTP/1.1 503"):
        return "busy"
    if not received.startswith(b"HTTP/1.1 200") or received.count(b"data: [DONE]") != 1:
        raise Wrong(f"read slowly: {received[:200]!r} ... {received[-200:]!r}")
    return "finished"


async def burst(caller: Caller) -> Counter[str]:
    """Send more requests at once than there are places."""

    async def one(number: int) -> str:
        asked = [{"role": "user", "content": f"Say {number}."}]
        try:
            await caller.ask(CHAT, {"messages": asked, "max_tokens": 8, "stream": number % 2 == 0})
        except Busy:
            return "busy"
        return "finished"

    return Counter(await asyncio.gather(*map(one, range(24))))


async def connect(
    caller: Caller, limit: int = 65536
) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    where = urlsplit(str(caller.client.base_url))
    return await asyncio.open_connection(where.hostname, where.port, limit=limit)


def request(caller: Caller, body: dict[str, object]) -> bytes:
    data = json.dumps(body).encode()
    host = urlsplit(str(caller.client.base_url)).netloc
    head = (
        f"POST {CHAT} HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(data)}\r\n\r\n"
    )
    return head.encode() + data
