"""A server on loopback whose model says what a test wrote down for it."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack, nullcontext
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from types import MappingProxyType

import httpx
import numpy as np
import uvicorn

from localspec.apps.server.app import ServerPolicy, application
from localspec.apps.server.connections import BoundedServer, Connection, ConnectionLimits
from localspec.apps.server.listening import bind
from localspec.apps.server.offered_adapters import OfferedAdapters
from localspec.apps.server.offers import ServedOffer
from localspec.core.prefix_cache.slot_files import SlotFiles
from localspec.core.proposers.first_of import FirstOf
from localspec.core.proposers.forced import ForcedProposer
from localspec.core.proposers.prediction import PredictionProposer
from localspec.core.proposers.suffix import SuffixProposer
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.sampling.parameters import GREEDY
from localspec.interfaces.adapter import Adapter, Scales
from localspec.interfaces.costs import Costs
from localspec.interfaces.testing import Alphabet, ScriptedModel, ScriptedSight
from localspec.interfaces.vector_model import VectorModel
from localspec.running.runtime.runtime import Runtime
from localspec.running.runtime.vector_runtime import VectorRuntime

MARKS = ("<|im_start|>", "<|im_end|>", "<|endoftext|>", "[TOOL_CALLS]", "<|python_tag|>")
START, END = 256, 257
CACHE = 100_000  # bytes of what clients save
TEMPLATE = """
{%- if tools %}<|im_start|>system
You may call: {{ tools | tojson }} by <tool_call>{"name": , "arguments": }</tool_call><|im_end|>
{% endif %}
{%- for message in messages %}<|im_start|>{{ message.role }}
{{ message.content }}{% for call in message.tool_calls or [] %}<tool_call>
{{ call.function | tojson }}
</tool_call>{% endfor %}<|im_end|>
{% endfor %}
{%- if add_generation_prompt %}<|im_start|>assistant
{% endif %}"""


class Bytes(Alphabet):
    """Every byte is a token, and so is every mark."""

    def __init__(self, template: str = TEMPLATE, more: Sequence[str] = ()) -> None:
        self.marks = tuple(dict.fromkeys((*MARKS, *more)))
        pieces = [bytes([byte]) for byte in range(256)] + [b""] * len(self.marks)
        super().__init__(pieces, ends=(END,))
        self.chat_template = template

    def token_text(self, token: int) -> str:
        return self.marks[token - 256] if token >= 256 else bytes([token]).decode("latin-1")

    def encode(self, text: str, *, special: bool = False):
        text = text.encode("utf-8", "replace").decode()  # without halves of characters
        tokens: list[int] = []
        while text:
            marks = {at: mark for mark in self.marks if special and (at := text.find(mark)) >= 0}
            if not marks:
                break
            tokens += [*text[: min(marks)].encode(), 256 + self.marks.index(marks[min(marks)])]
            text = text[min(marks) + len(marks[min(marks)]) :]
        return np.array([*tokens, *text.encode()], np.int32)


def script(
    tokenizer: Bytes, replies: Mapping[str, str], labels: Mapping[int, str] = MappingProxyType({})
):
    """Answer each last message with the reply that is written for it, or repeat it.

    Labels are what it says for positions of pictures.
    """

    def spelling(token: int) -> bytes:
        return bytes([token]) if token < 256 else labels.get(token, "").encode()

    @lru_cache(64)
    def message(turns: tuple[int, ...]) -> str:
        """Read the last message of the last two turns, of which the second has only begun."""
        asked = b"".join(map(spelling, turns)).partition(b"\n")[2]
        question = asked.partition(b"\nassistant\n")[0].decode("utf-8", "replace").strip()
        return question.removesuffix("\nassistant").strip()

    @lru_cache(64)
    def encoded(text: str) -> list[int]:
        return tokenizer.encode(text, special=True).tolist()

    def logits(context: list[int]):
        array = np.zeros(tokenizer.size, np.float32)
        last = last_start(context, len(context))
        before = last_start(context, last)
        question = last + 1 + len(b"assistant\n")
        asked = message(tuple(context[before + 1 : question])) if before >= 0 else ""
        reply = encoded(replies.get(asked, f"You said: {asked}"))
        at = len(context) - question if last >= 0 else 0
        array[reply[at] if 0 <= at < len(reply) else END] = 20.0
        return array

    def last_start(context: list[int], end: int) -> int:
        """Find the last turn before a place; -1: there is none."""
        return end - 1 - context[end - 1 :: -1].index(START) if START in context[:end] else -1

    return logits


class Paused(ScriptedModel):
    """A model that takes its time, if that is wished, and notes the scales of its adapters."""

    pause = 0.0
    adapters: Sequence[Adapter] = ()

    def __init__(self, logits, tokenizer, sight: ScriptedSight | None = None) -> None:
        super().__init__(logits, tokenizer, sight=sight)
        self.scales: Scales = ()
        self.used: list[Scales] = []  # in each forward

    def adapt(self, scales: Scales) -> None:
        self.scales = scales

    def forward(self, rows):
        time.sleep(self.pause)
        self.used.append(self.scales)
        return super().forward(rows)


@dataclass
class Server:
    """One that runs on a thread of its own, and what belongs to it."""

    replies: dict[str, str] = field(default_factory=dict)
    policy: ServerPolicy = field(default_factory=ServerPolicy)
    template: str = TEMPLATE
    pause: float = 0.0  # seconds that a forward takes
    slots: int = 8
    limits: ConnectionLimits = field(default_factory=ConnectionLimits)
    costs: Costs | None = None  # what rounds are taken to cost
    certificate: tuple[Path, Path] | None = None  # and its key
    cache: Path | None = None  # a folder for what clients save
    adapters: Sequence[Adapter] = ()
    alphabet: Callable[[str], Bytes] = Bytes  # of a chat template
    sight: ScriptedSight | None = None
    labels: Mapping[int, str] = field(default_factory=dict)  # what it says for pictures
    beside: Sequence[ServedOffer] = ()  # other models
    vectors: VectorModel | None = None  # by which it turns texts into vectors, too
    unloads: list[str] = field(default_factory=list)
    model: ScriptedModel = field(init=False)
    address: str = field(init=False)
    client: httpx.Client = field(init=False)
    loop: asyncio.AbstractEventLoop = field(init=False)

    def __post_init__(self) -> None:
        tokenizer = self.alphabet(self.template)
        logits = script(tokenizer, self.replies, self.labels)
        self.model = Paused(logits, tokenizer, self.sight)
        self.model.context, self.model.slots = 8192, self.slots
        self.model.pause, self.model.adapters = self.pause, self.adapters

        def load(tell) -> Runtime:
            guessing = {
                "forced": ForcedProposer(),
                "prediction": PredictionProposer(),
                "suffix": SuffixProposer(),
            }
            files = SlotFiles(self.cache / "slots", CACHE, "scripted") if self.cache else None
            parts = EngineParts(costs=self.costs, files=files)
            closing = ExitStack()
            closing.callback(self.unloads.append, "scripted")
            closing.callback(self.model.close)
            vectors = VectorRuntime(self.vectors) if self.vectors else None
            if vectors:
                closing.callback(vectors.close)
            engine = Engine(self.model, FirstOf(guessing), 4, parts=parts)
            return Runtime(engine, closing, vectors=vectors)

        offers = [
            ServedOffer(
                "scripted",
                load,
                lambda: nullcontext(self.model.tokenizer),
                GREEDY,
                "llamacpp",
                "gguf",
                context=8192,
                family="llama",
                slots=self.slots,
                pooling=self.vectors.pooling if self.vectors else "",
                adapters=OfferedAdapters("scripted", self.adapters),
                media=self.sight.kinds if self.sight else frozenset(),
            )
        ]
        self.app = application([*offers, *self.beside], self.policy)
        listener = bind("127.0.0.1", 0)
        cert, key = self.certificate or (None, None)
        self.address = f"{'https' if cert else 'http'}://127.0.0.1:{listener.getsockname()[1]}"
        config = uvicorn.Config(
            self.app,
            log_config=None,
            http=Connection,
            ws="none",
            timeout_graceful_shutdown=2,
            ssl_certfile=cert,
            ssl_keyfile=key,
        )
        self.uvicorn = BoundedServer(config, self.limits, self.app.state.host.events.close)
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(listener)))
        self._thread.start()
        while not self.uvicorn.started:
            time.sleep(0.001)

        self.client = httpx.Client(base_url=self.address, timeout=30)

    async def _serve(self, listener: socket.socket) -> None:
        self.loop = asyncio.get_running_loop()
        await self.uvicorn.serve(sockets=[listener])

    def ask(self, text: str) -> str:
        body = {"messages": [{"role": "user", "content": text}], "temperature": 0}
        answer = self.client.post("/v1/chat/completions", json=body).json()
        return answer["choices"][0]["message"]["content"]

    @property
    def idle(self) -> bool:
        before = self.model.forwards
        time.sleep(0.1)
        return self.model.forwards == before

    def close(self) -> None:
        self.client.close()
        self.uvicorn.should_exit = True
        self._thread.join()
