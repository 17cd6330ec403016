"""The share of the processors that other programs take."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import psutil
import pytest

from localspec.base.system import processors
from localspec.base.system.processors import ProcessorTimes, RivalWatch

BUSY_LOOP = (sys.executable, "-S", "-c", "while True: pass")


def test_rivals_are_other_programs_but_for_those_that_give_way():
    readings = iter(
        [
            ProcessorTimes(100.0, 50.0, 20.0, 5.0),
            ProcessorTimes(104.0, 56.0, 21.0, 8.0),
            ProcessorTimes(104.0, 66.0, 31.0, 8.0),
        ]
    )
    watch = RivalWatch(lambda: next(readings))
    assert watch.share() == pytest.approx(0.2)  # of ten seconds, six busy: one its own, three niced
    assert watch.share() == 0.0


def test_a_clock_that_runs_backwards_tells_of_no_rivals():
    times = ProcessorTimes(1.0, 1.0, 1.0).since(ProcessorTimes(2.0, 2.0, 2.0))
    assert (times.others, times.rivals) == (0.0, 0.0)


def test_work_of_this_process_is_its_own():
    watch, end = RivalWatch(), time.process_time() + 0.3
    before = processors.processor_times()
    while time.process_time() < end:
        pass
    times = processors.processor_times().since(before)
    assert times.own == pytest.approx(0.3, abs=0.1)
    assert 0 <= watch.share() <= 1


def test_busy_loops_on_all_processors_are_rivals():
    loops = [subprocess.Popen(BUSY_LOOP) for _ in range(psutil.cpu_count())]
    try:
        assert processors.is_busy()
        assert processors.watched(0.5).others > processors.CROWDED
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


@pytest.mark.skipif(sys.platform == "win32", reason="it has no nice")
def test_a_process_of_a_low_priority_has_those_beside_it_for_rivals():
    code = "import os; os.nice(5); from localspec.base.system import processors; {}"
    code = code.format("print(processors.gives_way(), processors.processor_times().yielding)")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=dict(os.environ)
    )
    assert done.stdout.split() == ["True", "0.0"]
