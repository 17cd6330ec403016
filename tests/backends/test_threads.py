"""The number of threads follows what other programs leave of the processors."""

from __future__ import annotations

import subprocess
import sys
import time
from contextlib import closing

import llama_cpp.llama_cpp as lib
import numpy as np
import psutil
import pytest

from localspec.interfaces.backend import Options, Row
from localspec_llamacpp import loading, threads
from localspec_llamacpp.cores import physical_cores
from localspec_llamacpp.threads import ContextThreads, Threads, taken
from tests import engines

MANY_CORES = physical_cores() > 1
BUSY_LOOP = (sys.executable, "-S", "-c", "while True: pass")


class Machine:
    """A machine of four processors, whose clock moves by a second a look."""

    def __init__(self, seconds: float = 1.0) -> None:
        self.now, self.seconds, self.share = 0.0, seconds, 0.0
        self.threads = Threads(4, lambda: self.share, lambda: self.now)

    def look(self, share: float) -> int:
        self.share, self.now = share, self.now + self.seconds
        self.threads.refresh()
        return self.threads.count(4)


@pytest.mark.parametrize(
    ("share", "count"), [(0.0, 4), (0.05, 4), (0.1, 3), (0.25, 3), (0.5, 2), (0.75, 1), (1.0, 1)]
)
def test_other_programs_have_a_processor_each_and_one_thread_is_left(share, count):
    assert Machine().look(share) == count


def test_what_was_granted_is_used_while_so_much_is_free():
    machine = Machine()
    machine.look(0.5)
    assert [machine.threads.count(most) for most in (1, 2, 3)] == [1, 2, 2]


def test_a_load_on_the_border_changes_nothing():
    machine = Machine()
    assert [machine.look(share) for share in (0.05, 0.07, 0.05, 0.03)] == [4, 3, 3, 4]
    assert taken(0, 0.2) == 0
    assert taken(1, 0.2) == 1


def test_the_machine_is_looked_at_once_a_second():
    machine = Machine(seconds=0.4)
    assert [machine.look(1.0) for _ in range(4)] == [4, 4, 1, 1]


def test_what_happened_in_a_long_pause_counts_for_nothing_and_the_next_look_is_soon():
    machine = Machine(seconds=60.0)
    assert machine.look(1.0) == 4
    machine.seconds = 0.3
    assert machine.look(1.0) == 1


def test_a_machine_so_busy_that_each_forward_takes_long_is_seen_to_be_busy():
    """Two threads that waited for each other took 10 s for a token, and stayed two."""
    machine = Machine(seconds=10.0)
    assert [machine.look(1.0) for _ in range(4)] == [4, 1, 1, 1]


class Context:
    """A context of up to four threads."""

    def __init__(self, model, machine, *, fixed: bool = False) -> None:
        self.pointer = model._context.pointer
        self.threads = ContextThreads(self.pointer, 4, fixed=fixed, threads=machine.threads)

    def count(self) -> int:
        self.threads.follow()
        return int(lib.llama_n_threads(self.pointer))


@pytest.fixture
def model():
    with closing(engines.target("llama", gpu_layers=0)) as model:
        yield model


def test_a_context_follows_and_says_what_changed_once_a_minute(model):
    machine = Machine()
    context = Context(model, machine)
    context.count()
    assert context.threads.take_notices() == []
    machine.look(0.25)
    assert context.count() == 3
    assert context.threads.take_notices() == ["the processors are busy: 3 threads in place of 4"]
    machine.look(0.0)
    assert context.count() == 4
    assert context.threads.take_notices() == []
    machine.now += 60
    assert context.threads.take_notices() == ["the processors are free again: 4 threads"]
    assert context.threads.take_notices() == []


def test_threads_that_were_asked_for_stay(model):
    machine = Machine()
    context = Context(model, machine, fixed=True)
    before = context.count()
    machine.look(1.0)
    assert context.count() == before


@pytest.mark.parametrize(
    ("options", "fixed"),
    [
        (Options(context=64, gpu_layers=0), False),
        (Options(context=64, gpu_layers=0, threads=1), True),
        (Options(context=64, gpu_layers=0, bit_exact=True, products="llama.cpp"), True),
    ],
)
def test_a_model_follows_unless_threads_are_given_or_would_change_bits(options, fixed):
    with closing(loading.load(engines.tiny("llama"), options)) as model:
        assert model._context.shape.fixed_threads is fixed


def test_threads_follow_between_plain_steps_in_a_row(model):
    machine, counts = Machine(), []
    model._context.threads = (context := Context(model, machine)).threads
    model.truncate(0, 0)
    model.forward([Row(0, np.array([3], np.int32))])

    def choose(_):
        counts.append(lib.llama_n_threads(context.pointer))
        machine.look(0.25 * len(counts))
        return [4] if len(counts) < 4 else None

    model.multi_step([0], [4], choose)
    assert counts[1:] == [3, 2, 1]


def long_text_logits(products, shares):
    """Compute the logits of single tokens behind a text so long that attention divides it."""
    machine, text = Machine(), np.arange(560, dtype=np.int32) % 50 + 3
    options = Options(context=1024, batch=560, gpu_layers=0, products=products)
    with closing(loading.load(engines.tiny("llama"), options)) as model:
        context = Context(model, machine)
        model._context.threads = context.threads
        model.forward([Row(0, text)])
        rows = []
        for share in shares:
            machine.look(share)
            rows.append(model.forward([Row(0, text[:1])])[0].copy())
            assert lib.llama_n_threads(context.pointer) == round(4 * (1 - share))
    return np.concatenate(rows)


def test_threads_that_change_in_mid_text_change_no_bit_of_it():
    fixed, changing = (
        long_text_logits("localspec", shares) for shares in ([0.75] * 6, [0.75, 0, 0.5] * 2)
    )
    assert np.array_equal(fixed, changing)


@pytest.mark.skipif(not MANY_CORES, reason="one thread cannot become fewer")
def test_a_model_has_fewer_threads_beside_busy_programs():
    loops = [subprocess.Popen(BUSY_LOOP) for _ in range(psutil.cpu_count())]
    try:
        with closing(loading.load(engines.tiny("llama"), Options(context=64))) as model:
            end = time.monotonic() + 30
            while not (notices := model.take_notices()) and time.monotonic() < end:
                model.forward([Row(0, np.array([3], np.int32))])
                model.truncate(0, 0)
                time.sleep(0.1)
            assert notices[0].startswith("the processors are busy: ")
            assert lib.llama_n_threads(model._context.pointer) < threads.OF_PROCESS._processors
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()
