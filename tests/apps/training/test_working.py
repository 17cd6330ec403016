"""The time that a training works, and how it gives way to replies."""

from __future__ import annotations

import pytest

from localspec.apps.training.working import LOOK_SECONDS, QUIET_SECONDS, Others, WorkTime, answers


class Clock:
    def __init__(self):
        self.now = 100.0

    def __call__(self):
        return self.now

    def sleep(self, seconds):
        self.now += seconds


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("/usr/bin/python3 /home/me/bin/localspec serve model.gguf", True),
        ("python -m localspec --config x.toml chat qwen3-8b", True),
        ("localspec.exe run qwen3-8b", True),
        ("localspec make-draft model.gguf --train", False),
        ("localspec pull qwen3-8b", False),
        ("python serve.py", False),
        ("", False),
    ],
)
def test_commands_that_answer_are_known_by_their_words(command, expected):
    assert answers(command.split()) is expected


def test_a_program_answers_while_it_computes():
    clock, seconds = Clock(), {7: 1.0, 8: 50.0}
    busy = Others(lambda: dict(seconds), clock)
    clock.sleep(2)
    assert not busy()
    clock.sleep(2)
    seconds[7] += 0.1  # it looked after its connections
    assert not busy()
    clock.sleep(2)
    seconds[8] += 1.5
    assert busy()
    clock.sleep(2)
    seconds[9] = 30.0  # it was started, and has loaded its model
    assert not busy()


def test_pauses_are_no_work_and_end_with_the_last_reply():
    clock, busy, seconds = Clock(), iter([False, True, True, False]), []
    work = WorkTime(60, 10, lambda: next(busy), clock, clock.sleep)
    work.tell = lambda _: seconds.append(work.seconds)
    clock.sleep(LOOK_SECONDS)
    work.breathe()
    work.breathe()  # too early for another look
    assert clock.now == 100 + LOOK_SECONDS
    clock.sleep(LOOK_SECONDS)
    work.breathe()
    assert clock.now == 100 + 2 * LOOK_SECONDS + 2 * QUIET_SECONDS
    assert work.seconds == pytest.approx(10 + 2 * LOOK_SECONDS)
    assert seconds == [work.seconds] * 2
    clock.sleep(60)
    assert work.left == 0
