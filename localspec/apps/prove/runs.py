"""Greedy replies through the whole engine, with a record of the model's calls."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from localspec.apps.prove.recording import AnswerPlace, RecordedForward, Recorder, find_answers
from localspec.apps.prove.refeed import empty_slots
from localspec.base.tokens import Tokens
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.requests.job import Event, Job
from localspec.core.requests.settings import Settings
from localspec.interfaces.backend import Model
from localspec.interfaces.proposer import Proposer


@dataclass(frozen=True, slots=True)
class ReplyRequest:
    """A prompt to be answered; `depth` 0 is plain decoding."""

    prompt: Tokens
    tokens: int  # of the reply, at most
    depth: int = 0


@dataclass(frozen=True, slots=True)
class ProofReply:
    """A reply, and every answer of the model that belongs to it, by place in the text."""

    prompt: int  # tokens of the text that are the prompt
    text: list[int]
    slot: int
    steps: Sequence[RecordedForward]
    drafted: int
    accepted: int
    answers: Mapping[int, AnswerPlace]


def run(model: Model, proposer: Proposer, requests: Sequence[ReplyRequest]) -> list[ProofReply]:
    """Run all requests at once, in an engine of their own."""
    empty_slots(model)  # so that no run finds the memory as another left it
    recorder = Recorder(model)
    failures: list[Exception] = []

    def listener(event: Event) -> None:
        if isinstance(event, Exception):
            failures.append(event)

    engine = Engine(recorder, proposer, model.tentative)
    jobs = []
    for request in requests:
        settings = Settings(max_tokens=request.tokens, depth=request.depth)
        jobs.append(engine.prepare(request.prompt, settings, listener))
        engine.add(jobs[-1])
    while engine.busy:
        engine.step()
    if failures:
        raise failures[0]
    return [reply(recorder.steps, job) for job in jobs]


def reply(steps: Sequence[RecordedForward], job: Job) -> ProofReply:
    g, figures = job.generation, job.ledger.report()
    text = g.tokens.tolist()
    answers = find_answers(steps, g.slot, text)
    counts = figures.drafted, figures.accepted
    return ProofReply(g.prompt_tokens, text, g.slot, steps, *counts, answers)


def plain(model: Model, prompts: Sequence[Tokens], tokens: int) -> Iterator[ProofReply]:
    for prompt in prompts:
        yield from run(model, Silent(), [ReplyRequest(prompt, tokens)])
