"""Candidates of `localspec tune`: what each must keep of the first, and what is shown of them."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from localspec.apps.tuning.candidates import Candidates, Table, Tried
from localspec.base.errors import ModelFileError
from localspec.interfaces.backend import Options
from localspec.running.memory.concessions import Concession
from localspec.running.models.trial_speed import Speeds

USUAL = {"threads": None, "kv_type": "auto"}
FAST = Speeds(200.0, 20.0, 50.0, (1, 2, 3))


class Pair:
    """Plans and measurements by the number of threads: None is the usual one."""

    def __init__(self, fates):
        self.fates, self.tried, self.limits, self.now = fates, [], [], 0.0

    def plan(self, options):
        conceded = self.fates.get(options.threads) == "tight"
        concessions = (Concession("a context of 5 tokens", ""),) if conceded else ()
        return SimpleNamespace(options=options, concessions=concessions)

    def measure(self, options, seconds, limit):
        self.limits.append(limit)
        self.now += 10.0
        fate = self.fates.get(options.threads, FAST)
        if isinstance(fate, Exception):
            raise fate
        return replace(FAST, text=(9,)) if options.kv_type != "auto" else fate

    def candidates(self):
        return Candidates(
            self.plan, self.measure, Options(), 1.0, self.tried.append, clock=lambda: self.now
        )


def score(candidates, **choice):
    return candidates.score({**USUAL, **choice})


def test_a_candidate_with_another_text_a_shorter_context_or_a_dead_process_cannot_be_used():
    died = ModelFileError("it ends its engine (SIGABRT): no such kernel")
    fates = {1: replace(FAST, text=(1, 2, 4)), 2: "tight", 3: died, 4: replace(FAST, plain=80.0)}
    pair = Pair(fates)
    candidates = pair.candidates()
    usual = score(candidates)
    assert usual > 0
    assert [score(candidates, threads=count) for count in (1, 2, 3)] == [0, 0, 0]
    assert score(candidates, threads=4) == pytest.approx(2 * usual)
    assert [tried.fault for tried in pair.tried] == [
        "",
        "another text",
        "does not fit: a context of 5 tokens",
        str(died),
        "",
    ]


def test_a_kv_type_that_was_asked_for_may_change_the_text():
    candidates = Pair({}).candidates()
    assert score(candidates) == score(candidates, kv_type="q8_0")


def test_a_usual_choice_that_cannot_be_loaded_is_an_error():
    with pytest.raises(ModelFileError):
        score(Pair({None: ModelFileError("broken")}).candidates())


def test_a_candidate_gets_four_times_what_the_first_one_took():
    pair = Pair({})
    candidates = pair.candidates()
    score(candidates)
    score(candidates, threads=1)
    assert pair.limits == [600.0, 40.0]


def test_the_table_names_only_what_differs():
    lines = []
    table = Table(USUAL, lines.append)
    table.add(Tried(USUAL, FAST))
    table.add(Tried({**USUAL, "threads": 4}, None, "it died"))
    assert lines[0].split()[:3] == ["reading", "plain", "drafts"]
    assert lines[1].split() == ["200.0", "20.0", "50.0", "as", "usual"]
    assert lines[2].split() == ["-", "-", "-", "--threads", "4:", "it", "died"]
