"""Errors as clients get them: a status, a sentence, and the field at fault."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from localspec.base.errors import (
    DeviceError,
    DoesNotFit,
    LocalSpecError,
    ModelFileError,
    NotOffered,
    NotPulled,
    OutOfMemory,
    PromptTooLong,
    PullError,
    SlotBusy,
    UnknownModel,
    UsageError,
)

KINDS: Mapping[int, str] = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    409: "conflict_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    501: "not_supported_error",
    503: "overloaded_error",
}

STATUSES: Mapping[type[LocalSpecError], int] = {  # the first that an error is one of
    UnknownModel: 404,
    NotPulled: 404,
    UsageError: 400,
    OutOfMemory: 503,
    DoesNotFit: 503,
    DeviceError: 503,
    ModelFileError: 503,
    PullError: 502,
    NotOffered: 501,
    SlotBusy: 503,
}

RETRY_SECONDS = 1


@dataclass(frozen=True, slots=True)
class Fault:
    """An error, before it gets the format of one API."""

    status: int
    message: str
    param: str | None = None  # the field at fault
    code: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)

    @property
    def kind(self) -> str:
        return KINDS.get(self.status, "api_error" if self.status >= 500 else KINDS[400])


def openai_error(fault: Fault) -> dict[str, object]:
    """Format an error as OpenAI's API does."""
    error = {"message": fault.message, "type": fault.kind, "param": fault.param, "code": fault.code}
    return {"error": error}


class Refused(Exception):
    def __init__(self, fault: Fault) -> None:
        super().__init__(fault.message)
        self.fault = fault


def refused(message: str, param: str | None = None) -> Refused:
    return Refused(Fault(400, message, param))


def not_offered(message: str) -> Refused:
    """Refuse what this server does not do; not by a 501, after which some clients retry."""
    return Refused(Fault(400, message, code="not_supported"))


def overloaded(message: str) -> Refused:
    return Refused(Fault(503, message, headers={"Retry-After": str(RETRY_SECONDS)}))


def fault_of(error: Exception) -> Fault:
    """Turn any error into one for clients, which get no details of the server's own faults."""
    if isinstance(error, Refused):
        return error.fault
    status = next((code for kind, code in STATUSES.items() if isinstance(error, kind)), 500)
    if status == 500:
        return Fault(500, "the server failed; its log says why")
    code = "context_length_exceeded" if isinstance(error, PromptTooLong) else None
    if isinstance(error, UnknownModel | NotPulled):
        code = "model_not_found"
    headers = {"Retry-After": str(RETRY_SECONDS)} if status == 503 else {}
    return Fault(status, str(error), code=code, headers=headers)
