"""The lines of a file of requests, and of the file of their answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localspec.base.errors import UsageError
from localspec.base.system.kept_json import decode

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
PATHS = (CHAT, COMPLETIONS, RESPONSES, "/v1/messages", "/v1/embeddings")
OF_FIELDS = {"messages": CHAT, "prompt": COMPLETIONS, "input": RESPONSES}


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A line of a file: as OpenAI's batches have it, or the body of a request alone."""

    id: str
    path: str
    body: Mapping[str, Any]


def requests_in(file: Path) -> list[BatchRequest]:
    """Read all requests of a file; refuse it by its first line that is none."""
    requests: dict[str, BatchRequest] = {}
    try:
        lines = file.read_bytes().splitlines()
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            request = _request(decode(line), number)
        except ValueError as error:
            raise UsageError(f"line {number} of {file} is no request: {error}") from error
        if request.id in requests:
            raise UsageError(f"line {number} of {file} has the custom_id {request.id!r} again")
        requests[request.id] = request
    return list(requests.values())


def _request(line: Mapping[str, Any], number: int) -> BatchRequest:
    body = line.get("body", line)
    if not isinstance(body, dict):
        raise ValueError("its body is no JSON object")
    usual = next((path for field, path in OF_FIELDS.items() if field in body), "")
    path = line.get("url", usual)
    if path not in PATHS:
        asked = f"{str(path)[:80]!r} is none of" if path else "give a url, or one of the fields of"
        raise ValueError(f"{asked} {', '.join(PATHS)}")
    name = line.get("custom_id", str(number))
    if not isinstance(name, str):
        raise ValueError("its custom_id is no text")
    return BatchRequest(name, path, {**body, "stream": False} if path != PATHS[-1] else body)


def answered(out: Path) -> set[str]:
    """Read which requests have their answer; cut off a last line that is not whole."""
    if not out.exists():
        return set()
    try:
        data = out.read_bytes()
        whole = data[: data.rfind(b"\n") + 1]
        names = {str(decode(line)["custom_id"]) for line in whole.splitlines() if line.strip()}
        if len(whole) < len(data):
            with out.open("r+b") as file:
                file.truncate(len(whole))
    except OSError as error:
        raise UsageError(f"{out} cannot be gone on with: {error.strerror}") from error
    except (ValueError, KeyError) as error:
        raise UsageError(f"{out} has something else than answers: name another file") from error
    return names


def answer_line(request: BatchRequest, status: int, body: Mapping[str, Any]) -> str:
    """Write an answer as a line of OpenAI's batches has it."""
    record = {
        "id": f"batch_req_{request.id}",
        "custom_id": request.id,
        "response": {"status_code": status, "request_id": request.id, "body": body},
        "error": None,
    }
    return json.dumps(record, ensure_ascii=False) + "\n"


def open_ones(file: Path, out: Path) -> Iterator[BatchRequest]:
    """Yield the requests that have no answer yet."""
    done = answered(out)
    yield from (request for request in requests_in(file) if request.id not in done)
