"""Weights that one thread closes while others use their vocabulary."""

from __future__ import annotations

import subprocess
import sys
import threading

import pytest

from localspec.base.errors import BackendError
from localspec_llamacpp.bindings.placement import HOST
from localspec_llamacpp.bindings.weights import ModelWeights
from tests import engines


@pytest.fixture
def weights():
    model = ModelWeights(engines.tiny("llama"), HOST)
    yield model
    model.close()


def test_closing_waits_for_a_call_that_is_inside(weights):
    inside = weights.special_tokens(control=True)
    next(inside)
    closing = threading.Thread(target=weights.close)
    closing.start()
    closing.join(0.1)
    assert closing.is_alive()
    list(inside)
    closing.join(30)
    assert not closing.is_alive()


CALLS = {
    "tokenize": lambda weights: weights.tokenize(b"a", special=True),
    "token_bytes": lambda weights: weights.token_bytes(1),
    "token_text": lambda weights: weights.token_text(1),
    "special_tokens": lambda weights: list(weights.special_tokens(control=True)),
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_a_call_of_closed_weights_is_an_error(weights, call):
    call(weights)
    weights.close()
    with pytest.raises(BackendError, match="was closed; load it again"):
        call(weights)


CROWD = """
import sys, threading
from pathlib import Path
from localspec.base.errors import BackendError
from localspec_llamacpp.bindings.placement import HOST
from localspec_llamacpp.bindings.weights import ModelWeights

def use(call, begun):
    try:
        while True:
            call()
            begun.set()
    except BackendError as error:
        ends.append(str(error))

ends = []
for _ in range(4):
    weights = ModelWeights(Path(sys.argv[1]), HOST)
    calls = [
        lambda: weights.tokenize(b"word " * 20_000, special=False),
        lambda: weights.token_bytes(7),
        lambda: weights.token_text(7),
        lambda: list(weights.special_tokens(control=True)),
    ]
    begun = [threading.Event() for _ in calls]
    threads = [threading.Thread(target=use, args=pair) for pair in zip(calls, begun)]
    for thread in threads:
        thread.start()
    for event in begun:
        event.wait()
    weights.close()
    for thread in threads:
        thread.join()
print(len(ends), *set(ends), sep=": ", flush=True)
"""


def test_weights_that_are_closed_under_a_crowd_of_threads_do_not_end_the_process():
    command = [sys.executable, "-c", CROWD, str(engines.tiny("llama"))]
    done = subprocess.run(command, capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (0, "16: this model was closed; load it again\n")
