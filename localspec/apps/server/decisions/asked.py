"""The fields that both forms of a decision have, and the way from its questions to ours."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from pydantic import BeforeValidator, Field

from localspec.apps.server.faults import refused
from localspec.apps.server.requests.fields import as_name
from localspec.apps.server.requests.leniency import RequestPart
from localspec.base.errors import UsageError
from localspec.running.runtime.decisions.answer import Answer
from localspec.running.runtime.decisions.deciding import MOST_ORDERS
from localspec.running.runtime.decisions.question import Kind, Option, Question

Object = dict[str, object]


class DecisionRequest(RequestPart):
    """A model, and how often each question is asked."""

    model: Annotated[str, BeforeValidator(as_name)] = ""
    permutations: int = Field(1, ge=1, le=MOST_ORDERS)


def made(field: str, kind: Kind, words: str | None, options: Sequence[Option]) -> Question:
    """Make a question; where it has no sense, refuse it by its field."""
    if words is None:
        part = f"{field}.instructions"
        raise refused(f"{part}: pictures and sounds are read in the input, not here", part)
    try:
        return Question(kind, words, tuple(options))
    except UsageError as error:
        raise refused(f"{field}: {error}", field) from error


def additions(answer: Answer) -> Object:
    """Return the fields of an answer that are ours."""
    return {"label_mass": answer.label_mass, "temperature": answer.temperature}
