"""The request of TypeSafe's /v1/systemone, and its answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from localspec.apps.server.decisions.asked import DecisionRequest, Object, additions, made
from localspec.apps.server.decisions.contents import as_text
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.media_parts import MediaReference
from localspec.interfaces.media import Medium
from localspec.running.runtime.decisions.answer import Answer, Decision
from localspec.running.runtime.decisions.prompts import State
from localspec.running.runtime.decisions.question import Option, Question

MAX_QUESTIONS = 400
Content = str | dict[str, JsonValue] | list[JsonValue]


class Outcomes(RequestPart):
    true: Content = ""
    false: Content = ""


class NoulQuestion(RequestPart):
    type: Literal["noul"]
    instructions: Content = ""
    criteria: Outcomes = Outcomes()

    def asked(self, field: str) -> Question:
        yes, no = as_text(self.criteria.true), as_text(self.criteria.false)
        options = [Option("yes", yes), Option("no", no)]
        return made(field, "predicate", as_text(self.instructions), options)

    def answer_fields(self, answer: Answer) -> Object:
        return {"noul": answer.probability}


class ChoiceQuestion(RequestPart):
    type: Literal["choice"]
    instructions: Content = ""
    criteria: dict[str, Content | None] = Field(min_length=1, max_length=255)

    def asked(self, field: str) -> Question:
        options = [Option(name, as_text(about or "")) for name, about in self.criteria.items()]
        return made(field, "choice", as_text(self.instructions), options)

    def answer_fields(self, answer: Answer) -> Object:
        shares = dict(zip(self.criteria, answer.probabilities, strict=True))
        confidence = answer.confidence
        return {"choice": answer.best, "confidence": confidence, "probabilities": shares}


class ScoreQuestion(RequestPart):
    type: Literal["score"]
    instructions: Content = ""
    criteria: list[Content] = Field(min_length=1, max_length=10)

    def asked(self, field: str) -> Question:
        levels = [Option(as_text(level)) for level in self.criteria]
        return made(field, "score", as_text(self.instructions), levels)

    def answer_fields(self, answer: Answer) -> Object:
        return {
            "score": answer.score,
            "confidence": answer.confidence,
            "legend": {str(at): level for at, level in enumerate(self.criteria)},
            "probabilities": {str(at): share for at, share in enumerate(answer.probabilities)},
        }


AnyQuestion = Annotated[NoulQuestion | ChoiceQuestion | ScoreQuestion, Field(discriminator="type")]


class SystemOneRequest(DecisionRequest):
    state_: Content = Field(alias="state")
    questions: dict[str, AnyQuestion] = Field(min_length=1, max_length=MAX_QUESTIONS)

    def references(self) -> list[MediaReference]:
        return []

    def state(self, media: Sequence[Medium]) -> State:
        return [as_text(self.state_), *media]

    def asked(self) -> list[Question]:
        return [question.asked(f"questions.{name}") for name, question in self.questions.items()]

    def answer(self, model: str, decision: Decision) -> Object:
        pairs = zip(self.questions.items(), decision.answers, strict=True)
        answers = {
            name: {"type": q.type, **q.answer_fields(answer), **additions(answer)}
            for (name, q), answer in pairs
        }
        usage = {"input_tokens": decision.prompt_tokens, "output_tokens": 0}
        return {"model": model, "answers": answers, "usage": usage}
