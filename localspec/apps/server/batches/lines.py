"""The lines of a file of requests, and of the file of their answers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from localspec.base.system.kept_json import decode

CHAT, COMPLETIONS, RESPONSES = "/v1/chat/completions", "/v1/completions", "/v1/responses"
EMBEDDINGS = "/v1/embeddings"
PATHS = (CHAT, COMPLETIONS, RESPONSES, "/v1/messages", EMBEDDINGS)
OF_FIELDS = {"messages": CHAT, "prompt": COMPLETIONS, "input": RESPONSES}
MAX_ID_LETTERS = 512
MAX_LINE_BYTES = 32 << 20


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A line of a file: as OpenAI's batches have it, or the body of a request alone."""

    id: str
    path: str
    body: bytes  # JSON
    model: str = ""


def numbered_lines(file: Path) -> Iterator[tuple[int, bytes]]:
    """Yield the lines of a file that are not empty, with their numbers."""
    with file.open("rb") as lines:
        for number, line in enumerate(lines, 1):
            if line.strip():
                yield number, line


def request_of(line: bytes, number: int, path: str = "") -> BatchRequest:
    """Read a line as a request, to this path if it names none; raise a ValueError if it is none."""
    if len(line) > MAX_LINE_BYTES:
        raise ValueError(f"it has {len(line):,} bytes; a line may have {MAX_LINE_BYTES:,}")
    record = decode(line)
    body = record.get("body", record)
    if not isinstance(body, dict):
        raise ValueError("its body is no JSON object")
    usual = path or next((path for field, path in OF_FIELDS.items() if field in body), "")
    url = record.get("url", usual)
    if url not in PATHS:
        asked = f"{str(url)[:80]!r} is none of" if url else "give a url, or one of the fields of"
        raise ValueError(f"{asked} {', '.join(PATHS)}")
    name = record.get("custom_id", str(number))
    if not isinstance(name, str):
        raise ValueError("its custom_id is no text")
    if len(name) > MAX_ID_LETTERS:
        raise ValueError(f"its custom_id has {len(name):,} letters; it may have {MAX_ID_LETTERS}")
    fields = body if url == EMBEDDINGS else {**body, "stream": False}
    return BatchRequest(name, url, json.dumps(fields).encode(), str(body.get("model") or ""))


def answered_in(file: Path) -> set[str]:
    """Read which requests have their answer in a file; cut off a last line that is not whole.

    Raise a ValueError or KeyError where the file has something else.
    """
    if not file.exists():
        return set()
    names, whole = set[str](), 0
    with file.open("rb") as lines:
        for line in lines:
            if not line.endswith(b"\n"):
                break
            whole += len(line)
            if line.strip():
                names.add(str(decode(line)["custom_id"]))
    if whole < file.stat().st_size:
        with file.open("r+b") as lines:
            lines.truncate(whole)
    return names


def answer_line(request: BatchRequest, status: int, body: Mapping[str, Any]) -> bytes:
    """Write an answer as a line of OpenAI's batches has it."""
    record = {
        "id": f"batch_req_{request.id}",
        "custom_id": request.id,
        "response": {"status_code": status, "request_id": request.id, "body": body},
        "error": None,
    }
    # Halves of characters become escapes of JSON.
    return json.dumps(record, ensure_ascii=False).encode("utf-8", "backslashreplace") + b"\n"
