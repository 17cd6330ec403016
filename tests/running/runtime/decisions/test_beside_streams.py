"""Streams beside decisions wait no longer than a piece of a prompt may hold them up."""

from __future__ import annotations

import threading
from collections import defaultdict

import numpy as np

from localspec import Question
from localspec.core.decoding.prompt_pace import MAX_GAP
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine
from localspec.core.requests.job import Chunk
from localspec.core.requests.settings import Settings
from localspec.interfaces.testing import ScriptedModel
from localspec.running.runtime.runtime import Runtime
from tests.apps.server.scripted import TEMPLATE, Bytes

STREAMS, TOKEN_SECONDS, ROUND_SECONDS = 8, 0.002, 0.02
QUESTIONS = {f"{at}": Question.score("How?" * at, ["calm", "upset"]) for at in range(1, 7)}


class Timed(ScriptedModel):
    """Takes seconds of a clock that nobody waits for."""

    seconds = 0.0

    def forward(self, rows):
        self.seconds += ROUND_SECONDS + TOKEN_SECONDS * sum(len(row.tokens) for row in rows)
        return super().forward(rows)


def test_eight_streams_beside_decisions_have_no_gap_over_the_bound():
    model = Timed(lambda _: np.eye(1, 261, ord("a"), dtype=np.float32)[0], Bytes(TEMPLATE))
    model.context, model.slots = 4096, 12
    times, began = defaultdict(list), [threading.Event() for _ in range(STREAMS)]

    def listen(stream, event):
        if isinstance(event, Chunk):
            times[stream].append(model.seconds)
            began[stream].set()

    with Runtime(Engine(model, Silent(), clock=lambda: model.seconds)) as runtime:
        jobs = [
            runtime.submit(
                [ord("a"), stream], Settings(max_tokens=4000), lambda e, s=stream: listen(s, e)
            )
            for stream in range(STREAMS)
        ]
        assert all(event.wait(30) for event in began)
        start = model.seconds
        answers = runtime.decide("the sea " * 250, QUESTIONS)
        end = model.seconds
        for job in jobs:
            job.cancelled = True
    assert len(answers) == len(QUESTIONS)
    for seen in times.values():
        during = [at for at in seen if start <= at <= end]
        assert len(during) > 10
        assert max(np.diff(during)) <= MAX_GAP
