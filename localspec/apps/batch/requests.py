"""The requests of a file that a command answers, and those that it has answered before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from localspec.apps.server.batches.lines import (
    BatchRequest,
    answered_in,
    numbered_lines,
    request_of,
)
from localspec.base.errors import UsageError


def requests_in(file: Path) -> list[BatchRequest]:
    """Read all requests of a file; refuse it by its first line that is none."""
    requests: dict[str, BatchRequest] = {}
    try:
        for number, line in numbered_lines(file):
            try:
                request = request_of(line, number)
            except ValueError as error:
                raise UsageError(f"line {number} of {file} is no request: {error}") from error
            if request.id in requests:
                raise UsageError(f"line {number} of {file} has the custom_id {request.id!r} again")
            requests[request.id] = request
    except OSError as error:
        raise UsageError(f"{file} cannot be read: {error.strerror}") from error
    return list(requests.values())


def answered(out: Path) -> set[str]:
    """Read which requests have their answer; cut off a last line that is not whole."""
    try:
        return answered_in(out)
    except OSError as error:
        raise UsageError(f"{out} cannot be gone on with: {error.strerror}") from error
    except (ValueError, KeyError) as error:
        raise UsageError(f"{out} has something else than answers: name another file") from error


def open_ones(file: Path, out: Path) -> Iterator[BatchRequest]:
    """Yield the requests that have no answer yet."""
    done = answered(out)
    yield from (request for request in requests_in(file) if request.id not in done)
