"""A server as the one who answers: LocalSpec's own, or another with OpenAI's API."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import httpx

from localspec.chat.speaker import Ended, Piece
from localspec.chat.tally import Object, Tally, number, objects
from localspec.errors import BackendError, LocalSpecError, PromptTooLong, UsageError
from localspec.message import Json, Message
from localspec.sampling import Sampling
from localspec.settings import Settings

CONNECT_SECONDS = 10.0
SILENT_SECONDS = 600.0  # after which a server that says nothing is taken for dead
TOO_LONG = "context_length_exceeded"

Event = Piece | Ended | LocalSpecError
Usual = Callable[[str], Settings]  # what is wished of a model's answers if nobody says anything


class Server:
    """Where models are asked for by name."""

    def __init__(self, address: str, key: str, usual: Usual) -> None:
        base = address if "://" in address else f"http://{address}"
        self.address = base.rstrip("/").removesuffix("/v1")
        self.usual = usual
        headers = {"authorization": f"Bearer {key}"} if key else {}
        timeout = httpx.Timeout(SILENT_SECONDS, connect=CONNECT_SECONDS)
        try:
            self.client = httpx.Client(base_url=self.address, headers=headers, timeout=timeout)
        except (httpx.InvalidURL, ValueError) as error:
            raise UsageError(f"{address!r} is no address of a server: {error}") from error
        listed = self.told("GET", "/v1/models").get("data")
        models = [objects(each) for each in listed] if isinstance(listed, list) else []
        self.models = {str(each.get("id")): each for each in models}
        if not self.models:
            raise BackendError(f"{self.address} tells of no models, as OpenAI's API would")

    def names(self) -> Sequence[str]:
        return list(self.models)

    def check(self, name: str) -> None:
        if name not in self.models:
            raise UsageError(f"{self.address} has no {name}; it has: {', '.join(self.models)}")

    def open(self, name: str) -> Attached:
        self.check(name)
        return Attached(self, name, self.models[name])

    def told(self, method: str, path: str, asked: Json = None) -> Object:
        with translated(self.address):
            answer = self.client.request(method, path, json=asked)
            succeed(answer)
            return objects(answer.json())


class Attached:
    def __init__(self, server: Server, name: str, told: Object) -> None:
        self.name = name
        self.context = int(number(told, "context_length") or number(told, "max_model_len"))
        self.about = (f"{name} at {server.address}",)
        self._server = server
        self._ours = told.get("owned_by") == "localspec"  # else it may not know what we ask

    def count(self, messages: Sequence[Message]) -> int | None:
        if not self._ours:
            return None
        asked: dict[str, Json] = {"model": self.name, "messages": list(messages)}
        text = self._server.told("POST", "/apply-template", asked).get("prompt")
        asked = {"model": self.name, "content": text, "add_special": True}
        tokens = self._server.told("POST", "/tokenize", asked).get("tokens")
        return len(tokens) if isinstance(tokens, list) else None

    def ask(self, messages: Sequence[Message], settings: Settings) -> AttachedAnswer:
        asked: dict[str, Json] = {"model": self.name, "messages": list(messages)}
        asked |= wished(settings)
        if self._ours:
            asked["localspec"] = {"trace": True, **guessing(settings)}
        return AttachedAnswer(self._server, asked)

    def close(self) -> None:
        """The server goes on without us."""


class AttachedAnswer:
    """Read by a thread of its own, so that nobody has to wait for the network to leave it."""

    read = None

    def __init__(self, server: Server, asked: Object) -> None:
        self._server = server
        self._asked = asked
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._response: httpx.Response | None = None
        self._cancelled = False
        self._tally = Tally()
        threading.Thread(target=self._run, name="localspec-attached", daemon=True).start()

    def next(self, seconds: float) -> Piece | Ended | None:
        if self._cancelled:
            return self._tally.ended("cancelled")
        try:
            event = self._events.get(timeout=seconds)
        except queue.Empty:
            return None
        if isinstance(event, LocalSpecError):
            raise event
        return event

    def cancel(self) -> None:
        """Hang up, by which the server hears of it."""
        self._cancelled = True
        if self._response is not None:
            stream = self._response.extensions["network_stream"]
            with suppress(OSError):
                stream.get_extra_info("socket").shutdown(2)

    def _run(self) -> None:
        try:
            with translated(self._server.address):
                self._read()
        except LocalSpecError as error:
            self._events.put(error)

    def _read(self) -> None:
        asked = {**self._asked, "stream": True, "stream_options": {"include_usage": True}}
        path = "/v1/chat/completions"
        with self._server.client.stream("POST", path, json=asked) as response:
            self._response = response
            if not response.is_success:
                response.read()
            succeed(response)
            for line in response.iter_lines():
                name, _, data = line.partition(":")
                if name == "data" and data.strip() == "[DONE]":
                    self._events.put(self._tally.ended())
                    return
                if name == "data":
                    for piece in self._tally.take(json.loads(data)):
                        self._events.put(piece)
        self._events.put(BackendError(f"{self._server.address} broke off within the answer"))


def wished(settings: Settings) -> dict[str, Json]:
    """In the words of OpenAI's API, and of the many servers that know a few more; what does
    nothing is not said."""
    drawn, nothing = settings.sampling, Sampling()
    more: dict[str, Json] = {
        "top_k": drawn.top_k or None,
        "top_p": drawn.top_p if drawn.top_p != nothing.top_p else None,
        "min_p": drawn.min_p or None,
        "repetition_penalty": drawn.repetition if drawn.repetition != nothing.repetition else None,
        "presence_penalty": drawn.presence or None,
        "frequency_penalty": drawn.frequency or None,
        "logit_bias": {str(token): value for token, value in drawn.bias.items()} or None,
        "seed": settings.seed,
        "max_tokens": settings.max_tokens,
        "stop": list(settings.stop) or None,
        "ignore_eos": settings.ignore_end or None,
        "prediction": {"type": "content", "content": settings.prediction}
        if settings.prediction
        else None,
        "response_format": formed(settings),
    }
    given = {name: value for name, value in more.items() if value is not None}
    return {"temperature": drawn.temperature, **given}


def formed(settings: Settings) -> Json:
    if settings.grammar is None:
        return None
    schema = {"name": "answer", "schema": json.loads(settings.grammar.text)}
    return {"type": "json_schema", "json_schema": schema}


def guessing(settings: Settings) -> dict[str, Json]:
    found: dict[str, Json] = {}
    if settings.depth is not None:
        found["depth"] = settings.depth
    if settings.proposers:
        found["proposer"] = ",".join(settings.proposers)
    return found


def succeed(answer: httpx.Response) -> None:
    """Raise what a server refused, in its own words if it has any."""
    if answer.is_success:
        return
    found: Mapping[str, Json] = {}
    with suppress(ValueError):
        found = objects(objects(answer.json()).get("error"))
    message = str(found.get("message") or f"the server says {answer.status_code}")
    if found.get("code") == TOO_LONG:
        raise PromptTooLong(message)
    raise UsageError(message) if answer.is_client_error else BackendError(message)


@contextmanager
def translated(address: str) -> Iterator[None]:
    try:
        yield
    except httpx.ConnectError as error:
        raise BackendError(f"nobody answers at {address}: {error}") from error
    except (httpx.HTTPError, OSError) as error:
        what = str(error) or type(error).__name__
        raise BackendError(f"{address} cannot be understood: {what}") from error
    except ValueError as error:
        raise BackendError(f"{address} sends something that is no JSON") from error
