"""The check of a whole file of requests, before a batch begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from localspec.apps.server.batches.lines import numbered_lines, request_of
from localspec.apps.server.batches.store import described_error

MAX_REQUESTS = 50_000  # of a batch
MAX_ERRORS = 20  # that are reported of a file


@dataclass(slots=True)
class CheckedFile:
    """Holds what is known of a file of requests, and its faults with their lines."""

    total: int = 0
    model: str = ""
    errors: list[dict[str, object]] = field(default_factory=list)

    def fail(self, code: str, message: str, line: int | None = None) -> None:
        self.errors.append(described_error(code, message, line))


def check(file: Path, endpoint: str) -> CheckedFile:
    """Check a file: requests of one path and one model, each with a name of its own."""
    checked, names = CheckedFile(), set[str]()
    for number, line in numbered_lines(file):
        if len(checked.errors) >= MAX_ERRORS:
            return checked
        if checked.total >= MAX_REQUESTS:
            checked.fail("too_many_tasks", f"a batch may have {MAX_REQUESTS:,} requests", number)
            return checked
        try:
            request = request_of(line, number, endpoint)
        except ValueError as error:
            checked.fail("invalid_json_line", f"this line is no request: {error}", number)
            continue
        if request.path != endpoint:
            message = f"its url is {request.path}, and that of the batch {endpoint}"
            checked.fail("invalid_url", message, number)
        if request.id in names:
            message = f"the custom_id {request.id!r} was there before"
            checked.fail("duplicate_custom_id", message, number)
        if checked.total and request.model != checked.model:
            message = f"its model is {request.model[:80]!r}, and that before {checked.model!r}"
            checked.fail("mismatched_model", message, number)
        names.add(request.id)
        checked.model = checked.model if checked.total else request.model[:200]
        checked.total += 1
    if not checked.total and not checked.errors:
        checked.fail("empty_file", "the file has no requests")
    return checked
