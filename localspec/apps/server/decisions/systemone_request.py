"""The request of TypeSafe's /v1/systemone, and its answer."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Annotated, Literal

from pydantic import Field, JsonValue

from localspec.apps.server.decisions.asked import DecisionRequest, Object, additions, made
from localspec.apps.server.decisions.contents import as_text
from localspec.apps.server.faults import refused
from localspec.apps.server.requests.leniency import RequestPart
from localspec.apps.server.requests.media_parts import MediaReference
from localspec.interfaces.media import Medium
from localspec.running.runtime.decisions.answer import Answer, Decision
from localspec.running.runtime.decisions.prompts import State
from localspec.running.runtime.decisions.question import Option, Question

MAX_QUESTIONS, MAX_ASSETS = 400, 100
MAX_PLACES = 1_000  # where assets stand in a state
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


class BoxQuestion(RequestPart):
    type: Literal["box"]

    def asked(self, field: str) -> Question:
        name = f"{field}.type"
        raise refused(
            f"{name}: a model that chats names no box in a picture; ask for a choice", name
        )

    def answer_fields(self, answer: Answer) -> Object:
        return {}


AnyQuestion = Annotated[
    NoulQuestion | ChoiceQuestion | ScoreQuestion | BoxQuestion, Field(discriminator="type")
]


class Asset(RequestPart):
    type: Literal["image"] = "image"
    format: str = ""  # shown by the file itself
    data_base64: str = Field(min_length=1)
    part: str = ""  # of a body in parts, from which the data were taken


class SystemOneRequest(DecisionRequest):
    state_: Content = Field(alias="state")
    questions: dict[str, AnyQuestion] = Field(min_length=1, max_length=MAX_QUESTIONS)
    assets: dict[Annotated[str, Field(min_length=1)], Asset] = Field({}, max_length=MAX_ASSETS)
    _parts: list[str]  # texts of the state, and between them the names of its pictures

    def ignored(self) -> Iterator[str]:
        yield from super().ignored()
        for name, question in self.questions.items():
            yield from (f"questions.{name}.{path}" for path in question.ignored())
        yield from (f"assets.{name}" for name in self.assets if name not in self._parts)

    def model_post_init(self, _: object) -> None:
        """Part the state at its pictures: large bodies are checked on a thread."""
        text, names = as_text(self.state_), sorted(self.assets, key=len, reverse=True)
        if (count := sum(map(text.count, names))) > MAX_PLACES:
            raise refused(
                f"assets: their names stand {count:,} times in the state; they may {MAX_PLACES:,} "
                "times: choose names that no text has",
                "assets",
            )
        self._parts = parted(text, names)

    def references(self) -> list[MediaReference]:
        return [
            MediaReference("image", self.assets[name].data_base64, f"assets.{name}")
            for name in self._parts[1::2]
        ]

    def state(self, media: Sequence[Medium]) -> State:
        parts: list[str | Medium] = [*self._parts]
        parts[1::2] = media
        return parts

    def require_plain(self, field: str, question: AnyQuestion) -> None:
        """Refuse pictures within a question."""
        for name, value in question.model_dump(include={"instructions", "criteria"}).items():
            if any(asset in as_text(value) for asset in self.assets):
                part = f"{field}.{name}"
                raise refused(f"{part}: pictures are read in the state, not here", part)

    def asked(self) -> list[Question]:
        for name, question in self.questions.items():
            self.require_plain(f"questions.{name}", question)
        return [question.asked(f"questions.{name}") for name, question in self.questions.items()]

    def answer(self, model: str, decision: Decision) -> Object:
        pairs = zip(self.questions.items(), decision.answers, strict=True)
        answers = {
            name: {"type": q.type, **q.answer_fields(answer), **additions(answer)}
            for (name, q), answer in pairs
        }
        usage = {"input_tokens": decision.prompt_tokens, "output_tokens": 0}
        return {"model": model, "answers": answers, "usage": usage}


def parted(text: str, names: Sequence[str]) -> list[str]:
    """Part a text at names, which are every other of the parts."""
    if not names:
        return [text]
    name, *others = names
    parts = [parted(part, others) for part in text.split(name)]
    return [*parts[0], *(part for behind in parts[1:] for part in (name, *behind))]
