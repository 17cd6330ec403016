"""A server as a speaker: LocalSpec's own, or another with OpenAI's API."""

from __future__ import annotations

import queue
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from urllib.parse import urlencode

from localspec.base.errors import BackendError, UsageError, reported, require_known
from localspec.console.speakers.http import QUICK_SECONDS, HttpLine, Wire
from localspec.console.speakers.request_fields import request_fields
from localspec.console.speakers.speaker import Ended, Piece, texts_of
from localspec.console.speakers.stream import Object, StreamTally, count, objects
from localspec.core.requests.settings import Settings
from localspec.core.sampling.default_sampling import USUAL
from localspec.core.sampling.parameters import PARAMETERS, Sampling
from localspec.formats.templates.message import Json, Message
from localspec.formats.templates.thinking import SWITCH
from localspec.running.models.recommended import recommended_by_name

OURS = "localspec"
READS_ALOUD = (OURS, "llamacpp")  # these report prompt progress and their context

Event = tuple[float, Json] | Exception | None  # None: that was all
Usual = Callable[[Sampling], Settings]  # settings of a reply by the sampling of its model


class AttachedServer:
    """The models of a server, by name."""

    def __init__(self, address: str, key: str, usual: Usual) -> None:
        self._usual = usual
        self._samplings: dict[str, Sampling] = {}  # of opened models
        self._wire = Wire(address, key)
        self._models = self._list_models()
        if not self._models:
            raise BackendError(f"{self._wire.address} lists no models at /v1/models")

    def names(self) -> Sequence[str]:
        return list(self._models)

    def about(self, name: str) -> str:
        context = context_of(self._models.get(name, {}))
        return f"{context:,} tokens of context" if context else ""

    def who_sees(self) -> str:
        names = [name for name, model in self._models.items() if takes_pictures(model)]
        return f"these at {self._wire.address} do: {', '.join(names)}" if names else ""

    def check(self, name: str) -> None:
        self._models = self._list_models() or self._models
        require_known(self._wire.address, name, self._models)

    def open(self, name: str) -> Attached:
        self.check(name)
        opened = Attached(self._wire, name, self._models[name])
        self._samplings[name] = opened.sampling or recommended_by_name(name)
        return opened

    def usual(self, name: str) -> Settings:
        return self._usual(self._samplings.get(name, USUAL))

    def _list_models(self) -> dict[str, Object]:
        listed = listed_models(self._wire)
        return {name: model for name, model in listed.items() if writes_text(model)}


def listed_models(wire: Wire) -> dict[str, Object]:
    """List the models of a server by their names."""
    listed = wire.ask("/v1/models", seconds=QUICK_SECONDS).get("data")
    models = [objects(model) for model in listed] if isinstance(listed, list) else []
    return {name: model for model in models if isinstance(name := model.get("id"), str) and name}


def writes_text(model: Object) -> bool:
    """Return whether a listed model can be talked to, as far as its server reports."""
    outputs = objects(model.get("architecture")).get("output_modalities")
    return not isinstance(outputs, list) or "text" in outputs


def takes_pictures(model: Object) -> bool | None:
    """Return whether a listed model takes pictures; None: its server does not report it."""
    inputs = objects(model.get("architecture")).get("input_modalities")
    return "image" in inputs if isinstance(inputs, list) else None


def context_of(model: Object) -> int:
    return count(model, "context_length") or count(model, "max_model_len")


def sampling_of(params: Object) -> Sampling | None:
    """Read the sampling of a server's model, by llama.cpp's names; None where none is reported."""
    sampling, is_listed = Sampling(), False
    for parameter in PARAMETERS:
        value = params.get(parameter.names[-1])
        if isinstance(value, int | float) and not isinstance(value, bool):
            bounded = min(max(value, parameter.low), parameter.high)
            sampling, is_listed = parameter.put(sampling, bounded), True
    return sampling if is_listed else None


class Attached:
    thinks = None

    def __init__(self, wire: Wire, name: str, listed: Object) -> None:
        self.name = name
        self.about = (f"{name} at {wire.address}",)
        self._wire = wire
        self._owner = listed.get("owned_by")
        self.context = context_of(listed)
        self.sees = takes_pictures(listed)
        self.sampling: Sampling | None = None  # of requests that choose none; None: not reported
        if self._owner == OURS:
            self.count([{"role": "user", "content": ""}])  # loads the model, which /props does not
        if self._owner in READS_ALOUD:  # a llama-server loads the model here
            props = wire.ask(f"/props?{urlencode({'model': name})}")
            defaults = objects(props.get("default_generation_settings"))
            self.context = count(defaults, "n_ctx") or self.context
            vision = objects(props.get("modalities")).get("vision")
            self.sees = vision if isinstance(vision, bool) else self.sees
            self.sampling = sampling_of(objects(defaults.get("params")))

    def count(self, messages: Sequence[Message]) -> int | None:
        if self._owner != OURS:
            return None
        request: dict[str, Json] = {"model": self.name, "messages": self.sendable(messages)}
        try:
            text = self._wire.ask("/apply-template", request).get("prompt")
            request = {"model": self.name, "content": text, "add_special": True}
            tokens = self._wire.ask("/tokenize", request).get("tokens")
        except UsageError:  # the request itself gets a better message
            return None
        return len(tokens) if isinstance(tokens, list) else None

    def ask(
        self, messages: Sequence[Message], settings: Settings, *, think: bool | None = None
    ) -> AttachedAnswer:
        request: dict[str, Json] = {
            "model": self.name,
            "messages": self.sendable(messages),
            "stream": True,
            "stream_options": {"include_usage": True},
            **request_fields(settings, ours=self._owner == OURS),
        }
        if think is not None:
            request["chat_template_kwargs"] = {SWITCH: think}
        if self._owner in READS_ALOUD:
            request["return_progress"] = True
        return AttachedAnswer(self._wire, request)

    def read_ahead(
        self, messages: Sequence[Message], settings: Settings, *, think: bool | None = None
    ) -> None:
        """Do nothing: a server of ours reads ahead by itself."""

    def sendable(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return messages as the server is sent them: without pictures where it takes none."""
        return texts_of(messages) if self.sees is False else list(messages)

    def close(self) -> None:
        """Do nothing: the server goes on."""


class AttachedAnswer:
    """An answer that a thread of its own reads, so that leaving never waits for the network."""

    def __init__(self, wire: Wire, request: Object) -> None:
        self._wire = wire
        self._request = request
        self._line = HttpLine()
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._ready: deque[Piece | Ended] = deque()
        self._tally = StreamTally(time.perf_counter())
        self._cancelled = False
        threading.Thread(target=self._listen, name="localspec-attached", daemon=True).start()

    @property
    def read(self) -> float | None:
        return self._tally.read

    def next(self, seconds: float) -> Piece | Ended | None:
        end = time.monotonic() + (0 if self._cancelled else seconds)
        while not self._ready:
            try:
                event = self._events.get(timeout=max(end - time.monotonic(), 0))
            except queue.Empty:
                return self._tally.end("cancelled") if self._cancelled else None
            self._ready.extend(self._pieces(event))
        return self._ready.popleft()

    def cancel(self) -> None:
        self._cancelled = True
        self._line.cut()

    def _pieces(self, event: Event) -> Iterator[Piece | Ended]:
        match event:
            case None:
                yield self._tally.end()
            case (now, chunk):
                yield from self._tally.take(chunk, now)
            case _ if self._cancelled:
                yield self._tally.end("cancelled")
            case _ if self._tally.finish:  # some end without saying so
                yield self._tally.end()
            case _:
                raise event

    def _listen(self) -> None:
        try:
            for chunk in self._wire.events("/v1/chat/completions", self._request, self._line):
                self._events.put((time.perf_counter(), chunk))
            self._events.put(None)
        except Exception as error:
            self._events.put(reported(error))
