"""Stored responses, from which later requests go on: the ones used last, in memory or a folder."""

from __future__ import annotations

import json
import logging
import os
import re
import threading
from collections import Counter, OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple, Protocol

from localspec.apps.server.options import STORED
from localspec.base.system import kept_json
from localspec.base.system.atomic_write import write
from localspec.base.system.folders import make_private

MAX_STORE_BYTES = 64 << 20  # of all responses together
OWNER_BYTES = 256  # of a record, within which its owner is named
OWNED = re.compile(r'\{"owner": "([^"\\]*)"')
ID = re.compile(r"resp_[0-9a-f]{24}")
ITEM = re.compile(r"[a-z]+_(?P<response>[0-9a-f]{24})[io][0-9]+")

LOG = logging.getLogger("localspec.server")
Object = dict[str, object]


@dataclass(frozen=True, slots=True)
class StoredResponse:
    owner: str  # whose API key it was asked for with
    previous: str | None  # the response that it goes on from
    input: Sequence[Mapping[str, object]]  # its own items, without those before
    response: Mapping[str, object]

    @property
    def items(self) -> list[Mapping[str, object]]:
        """Return the items it adds to a conversation: input and reply."""
        output = self.response["output"]
        assert isinstance(output, list)
        return [*self.input, *output]

    def packed(self) -> bytes:
        """Encode as JSON in ASCII, which has room for halves of characters."""
        fields = {"owner": self.owner, "previous": self.previous}
        return json.dumps({**fields, "input": self.input, "response": self.response}).encode()


def item_id(kind: str, response: str, at: str) -> str:
    """Make the identifier of an item, by which its response can be found."""
    return f"{kind}_{response.removeprefix('resp_')}{at}"


class Size(NamedTuple):
    bytes: int
    owner: str


class Shelf(Protocol):
    """Bytes under identifiers."""

    def sizes(self) -> Iterable[tuple[str, Size]]:
        """List identifiers with sizes and owners; the longest unused first."""

    def read(self, id: str) -> bytes: ...

    def write(self, id: str, data: bytes) -> None: ...

    def touch(self, id: str) -> None:
        """Note that a response is used now."""

    def remove(self, id: str) -> None: ...


class Memory:
    def __init__(self) -> None:
        self._data: dict[str, bytes] = {}

    def sizes(self) -> Iterable[tuple[str, Size]]:
        return ()

    def read(self, id: str) -> bytes:
        return self._data[id]

    def write(self, id: str, data: bytes) -> None:
        self._data[id] = data

    def touch(self, id: str) -> None:
        pass

    def remove(self, id: str) -> None:
        del self._data[id]


class Folder:
    """A folder with a file for each, beside the prefix cache, which its owner alone can read."""

    def __init__(self, cache: Path) -> None:
        self._folder = cache / "responses"
        make_private(cache)
        make_private(self._folder)

    def sizes(self) -> Iterable[tuple[str, Size]]:
        entries = []
        for path in self._folder.glob("resp_*.json"):
            if ID.fullmatch(path.stem):
                with suppress(OSError):
                    info = path.stat()
                    size = Size(info.st_size, owner_in(path))
                    entries.append((info.st_mtime_ns, path.stem, size))
        return [(id, size) for _, id, size in sorted(entries)]

    def read(self, id: str) -> bytes:
        return self._place(id).read_bytes()

    def write(self, id: str, data: bytes) -> None:
        write(self._place(id), data.decode())

    def touch(self, id: str) -> None:
        os.utime(self._place(id))

    def remove(self, id: str) -> None:
        self._place(id).unlink(missing_ok=True)

    def _place(self, id: str) -> Path:
        return self._folder / f"{id}.json"


class ResponseStore:
    """Holds a bounded number of responses and of bytes.

    The longest unused one goes first, of the owner that holds most: so that no client can push
    out what others keep. Any thread may call it. A response is there for its owner only.
    """

    def __init__(
        self, most: int = STORED, cache: Path | None = None, most_bytes: int = MAX_STORE_BYTES
    ) -> None:
        self.most = most
        self._most_bytes = most_bytes
        self._shelf: Shelf = Folder(cache) if cache and most else Memory()
        self._sizes = OrderedDict(self._shelf.sizes())  # the longest unused first
        self._lock = threading.Lock()
        self._make_room()

    def add(self, stored: StoredResponse) -> None:
        """Keep a response, if there is room for one of its size."""
        id = str(stored.response["id"])
        data = stored.packed()
        if not self.most or len(data) > self._most_bytes:
            return
        with self._lock:
            try:
                self._shelf.write(id, data)
            except OSError as error:
                LOG.warning("a response could not be kept: %s", error)
                return
            self._sizes[id] = Size(len(data), stored.owner)
            self._make_room()

    def get(self, id: str, owner: str) -> StoredResponse | None:
        """Find a response for its owner; this counts as a use."""
        with self._lock:
            stored = self._owned(id, owner)
            if stored is not None:
                self._use(id)
            return stored

    def chain(self, id: str, owner: str) -> list[StoredResponse]:
        """List a response and its predecessors, the first one first; none if one is missing."""
        responses: dict[str, StoredResponse] = {}
        next_id: str | None = id
        with self._lock:
            while next_id is not None:
                stored = self._owned(next_id, owner)
                if stored is None or next_id in responses:
                    return []
                responses[next_id] = stored
                next_id = stored.previous
            for response_id in reversed(responses):  # the newest is the last to go
                self._use(response_id)
        return list(reversed(responses.values()))

    def item(self, id: str, owner: str) -> Mapping[str, object] | None:
        """Find an item of a kept response by its own identifier."""
        named = ITEM.fullmatch(id)
        stored = self.get(f"resp_{named['response']}", owner) if named else None
        items = stored.items if stored else ()
        return next((item for item in items if item.get("id") == id), None)

    def delete(self, id: str, owner: str) -> bool:
        """Forget a response; return whether it was there."""
        with self._lock:
            is_found = self._owned(id, owner) is not None
            if is_found:
                self._drop(id)
            return is_found

    def _owned(self, id: str, owner: str) -> StoredResponse | None:
        if id not in self._sizes:
            return None
        try:
            stored = read(self._shelf.read(id))
        except (OSError, ValueError, TypeError, KeyError):  # gone from the disk, or damaged
            self._drop(id)
            return None
        return stored if stored.owner == owner else None

    def _use(self, id: str) -> None:
        self._sizes.move_to_end(id)
        with suppress(OSError):
            self._shelf.touch(id)

    def _make_room(self) -> None:
        total = sum(size.bytes for size in self._sizes.values())
        while len(self._sizes) > self.most or total > self._most_bytes:
            held = Counter[str]()
            for size in self._sizes.values():
                held[size.owner] += 1 if len(self._sizes) > self.most else size.bytes
            [(largest, _)] = held.most_common(1)
            oldest = next(id for id, size in self._sizes.items() if size.owner == largest)
            total -= self._sizes[oldest].bytes
            self._drop(oldest)

    def _drop(self, id: str) -> None:
        del self._sizes[id]
        with suppress(OSError):
            self._shelf.remove(id)


def owner_in(path: Path) -> str:
    """Read the owner of a record from its beginning; empty where that is damaged."""
    with path.open("rb") as file:
        match = OWNED.match(file.read(OWNER_BYTES).decode("ascii", "replace"))
    return match[1] if match else ""


def read(data: bytes) -> StoredResponse:
    """Decode a kept record; raise a ValueError, TypeError or KeyError if it is none."""
    record = kept_json.decode(data)
    own, response = record["input"], record["response"]
    stored = StoredResponse(record["owner"], record["previous"], own, response)
    if not all(type(item) is dict for item in [*own, *response["output"]]):
        raise TypeError("items")
    if not all(type(name) in (str, type(None)) for name in (stored.owner, stored.previous)):
        raise TypeError("identifiers")
    return stored


def with_identifiers(items: Sequence[Mapping[str, object]], response: str) -> Iterator[Object]:
    """List items of a request with an identifier, a status and kinds of parts."""
    for at, item in enumerate(items):
        kind = KINDS.get(str(item.get("type")), "item")
        entry: Object = {"id": item_id(kind, response, f"i{at}"), "status": "completed"}
        entry |= {key: value for key, value in item.items() if value is not None}
        spoken = "output_text" if item.get("role") == "assistant" else "input_text"
        for name in ("content", "output"):
            parts = item.get(name)
            if isinstance(parts, list):
                entry[name] = [typed_part(part, spoken) for part in parts]
        yield entry


KINDS = {
    "message": "msg",
    "reasoning": "rs",
    "function_call": "fc",
    "function_call_output": "fco",
}


def typed_part(part: Mapping[str, object], spoken: str) -> Object:
    if part.get("type") not in ("text", "input_text", "output_text"):
        return dict(part)
    return {**part, "type": spoken, **({"annotations": []} if spoken == "output_text" else {})}
