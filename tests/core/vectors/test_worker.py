"""Packing the texts of several requests, and how each of them ends."""

from __future__ import annotations

import threading
import time
from collections import deque
from concurrent.futures import Future

import numpy as np
import pytest

from localspec.base.errors import BackendError, LocalSpecError
from localspec.core.vectors.worker import Reading, VectorWorker, next_batch
from tests.core.vectors.counting import Counting


def texts(*lengths):
    return [np.arange(length, dtype=np.int32) for length in lengths]


def waiting(*requests):
    return deque(Reading(texts(*lengths), 2, lambda _: None) for lengths in requests)


def lengths(batch):
    return [len(reading.texts[at]) for reading, at in batch]


def test_a_batch_takes_texts_while_there_is_room():
    line = waiting([3, 4, 2, 5])
    assert lengths(next_batch(line, 10, 64)) == [3, 4, 2]
    assert lengths(next_batch(line, 10, 64)) == [5]
    assert next_batch(line, 10, 64) == []
    assert not line


def test_a_text_longer_than_a_batch_goes_alone():
    line = waiting([30, 1])
    assert lengths(next_batch(line, 10, 64)) == [30]
    assert lengths(next_batch(line, 10, 64)) == [1]


def test_a_batch_has_so_many_texts_at_most():
    assert lengths(next_batch(waiting([1] * 9), 100, 4)) == [1] * 4


def test_requests_take_turns_so_that_a_short_one_does_not_wait_for_a_long_one():
    line = waiting([2] * 1000, [3], [4, 4])
    assert lengths(next_batch(line, 12, 64)) == [2, 3, 4, 2]
    assert lengths(next_batch(line, 12, 64)) == [4, 2, 2, 2, 2]


def test_a_request_that_was_given_up_is_passed_over():
    line = waiting([2, 2], [3])
    line[0].cancelled = True
    assert lengths(next_batch(line, 12, 64)) == [3]


@pytest.fixture
def model():
    return Counting()


def submitted(worker, *lengths):
    future: Future = Future()
    worker.submit(
        texts(*lengths),
        lambda end: (
            future.set_exception(end) if isinstance(end, Exception) else future.set_result(end)
        ),
    )
    return future


def test_each_request_gets_its_own_rows_in_its_own_order(model):
    worker = VectorWorker(model)
    futures = [submitted(worker, *range(1, count)) for count in (40, 5, 17)]
    for future, count in zip(futures, (40, 5, 17), strict=True):
        assert future.result(30)[:, 0].tolist() == list(range(1, count))
    worker.close()
    worker.close()
    assert model.closed


def test_an_error_ends_the_requests_of_its_batch_and_no_others(model):
    worker = VectorWorker(model)
    model.fails_on = 7
    first = submitted(worker, 7)
    with pytest.raises(BackendError, match="no sevens"):
        first.result(30)
    assert submitted(worker, 3).result(30)[0, 0] == 3
    worker.close()


def test_closing_ends_what_is_under_way(model):
    worker = VectorWorker(model)
    model.gate = threading.Event()
    running = submitted(worker, 3)
    assert model.entered.wait(30)
    behind = submitted(worker, *[model.batch] * 3)
    closing = threading.Thread(target=worker.close)
    closing.start()
    while worker._inbox.qsize() < 2:  # what is behind, and the word to end
        time.sleep(0.001)
    model.gate.set()
    assert running.result(30)[0, 0] == 3
    with pytest.raises(BackendError, match="closed before all texts were read"):
        behind.result(30)
    closing.join(30)
    with pytest.raises(LocalSpecError, match="was closed"):
        submitted(worker, 1)


def test_a_model_that_has_nothing_to_read_rests(model):
    worker = VectorWorker(model)
    submitted(worker, 3).result(30)
    worker.close()
    assert model.rests >= 1
