"""The request of OpenAI's /v1/decisions, and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, StrictBool, StrictStr, model_validator

from localspec.apps.server.conversation.entries import Entry, references
from localspec.apps.server.conversation.items import groups
from localspec.apps.server.decisions.asked import DecisionRequest, Object, additions, made
from localspec.apps.server.decisions.contents import Messages, Words, state_of, words_of
from localspec.apps.server.faults import refused
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.media_parts import MediaReference
from localspec.interfaces.media import Medium
from localspec.running.runtime.decisions.answer import Answer, Decision
from localspec.running.runtime.decisions.prompts import State
from localspec.running.runtime.decisions.question import Option, Question

MAX_QUESTIONS = 400


class NamedQuestion(RequestPart):
    name: str | None = None
    instructions: Words


class PredicateQuestion(NamedQuestion):
    type: Literal["predicate"]

    @property
    def options(self) -> list[Option]:
        return [Option("yes"), Option("no")]

    def answer_fields(self, answer: Answer) -> Object:
        return {"probability": answer.probability}


class ChoiceOption(RequestPart):
    value: StrictStr | StrictBool
    description: str = ""


class ChoiceQuestion(NamedQuestion):
    type: Literal["choice"]
    choices: list[ChoiceOption] = Field(min_length=2, max_length=255)

    @property
    def options(self) -> list[Option]:
        """The options by texts, of which a switch has another than a text that reads alike."""
        texts = {choice.value for choice in self.choices if isinstance(choice.value, str)}
        return [Option(spelled(c.value, texts), c.description) for c in self.choices]

    def answer_fields(self, answer: Answer) -> Object:
        values = [choice.value for choice in self.choices]
        pairs = zip(values, answer.probabilities, strict=True)
        return {
            "choice": values[answer.place],
            "confidence": answer.confidence,
            "probabilities": [{"value": value, "probability": share} for value, share in pairs],
        }


class Level(RequestPart):
    label: str
    description: str = ""


class ScoreQuestion(NamedQuestion):
    type: Literal["score"]
    levels: list[Level] = Field(min_length=2, max_length=10)

    @property
    def options(self) -> list[Option]:
        return [Option(level.label, level.description) for level in self.levels]

    def answer_fields(self, answer: Answer) -> Object:
        pairs = zip(answer.options, answer.probabilities, strict=True)
        return {
            "score": answer.score,
            "confidence": answer.confidence,
            "probabilities": [
                {"label": label, "probability": share, "value": at}
                for at, (label, share) in enumerate(pairs)
            ],
        }


AnyQuestion = Annotated[
    PredicateQuestion | ChoiceQuestion | ScoreQuestion, Field(discriminator="type")
]


class OpenAiDecisions(DecisionRequest):
    input: Messages
    questions: list[AnyQuestion] = Field(min_length=1, max_length=MAX_QUESTIONS)

    @model_validator(mode="after")
    def named_apart(self) -> Self:
        names: set[str] = set()
        for at, question in enumerate(self.questions):
            if question.name is not None and question.name in names:
                field = f"questions.{at}.name"
                raise refused(f"{field}: {question.name[:60]!r} is another question's name", field)
            names |= {question.name or ""}
        return self

    @property
    def _entries(self) -> list[Entry]:
        return [entry for group in groups(self.input) for entry in group]

    def references(self) -> list[MediaReference]:
        return references([self._entries])

    def state(self, media: Sequence[Medium]) -> State:
        return state_of(self._entries, media)

    def asked(self) -> list[Question]:
        return [
            made(f"questions.{at}", q.type, words_of(q.instructions), q.options)
            for at, q in enumerate(self.questions)
        ]

    def answer(self, model: str, decision: Decision) -> Object:
        answers = [
            {
                "type": q.type,
                "name": q.name,
                **q.answer_fields(answer),
                **additions(answer),
            }
            for q, answer in zip(self.questions, decision.answers, strict=True)
        ]
        tokens = decision.prompt_tokens
        read = {"cached_tokens": decision.cached_tokens, "cache_write_tokens": 0}
        usage = {"input_tokens": tokens, "input_tokens_details": read, "output_tokens": 0}
        usage |= {"output_tokens_details": {"reasoning_tokens": 0}, "total_tokens": tokens}
        return {"object": "decision", "model": model, "answers": answers, "usage": usage}


def spelled(value: str | bool, texts: set[str]) -> str:
    if isinstance(value, str):
        return value
    text = str(value).lower()
    return f"{text} (boolean)" if text in texts else text
