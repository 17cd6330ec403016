"""A greedy text says where rounding may turn it, if its log-probabilities were asked for."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.testing import LETTERS, ScriptedModel
from tests.runs import tokens_of

SETTINGS = Settings(max_tokens=5, logprobs=2, ignore_end=True)
LEADS = (1.0, 0.25, 0.0625, 1.0, 0.03125)  # of each token of the reply


def nearly_tied(context):
    logits = np.zeros(7, np.float32)
    logits[3], logits[5] = 9.0, 9.0 - LEADS[len(context) - 2]
    return logits


def notices(settings, *, rounds_by_width=True):
    events = []
    parts = EngineParts(rounds_by_width=rounds_by_width)
    engine = Engine(ScriptedModel(nearly_tied, LETTERS), Silent(), parts=parts)
    engine.add(engine.prepare(tokens_of([1, 2]), settings, events.append))
    while engine.busy:
        engine.step()
    return events[-1].notices


def test_the_nearest_tie_is_reported():
    [notice] = notices(SETTINGS)
    assert notice.startswith("near-tie at token 5 (0.031), the closest of 2: in another batch")
    [notice] = notices(replace(SETTINGS, max_tokens=3))
    assert notice.startswith("near-tie at token 3 (0.062): in another batch")


@pytest.mark.parametrize(
    "settings",
    [
        replace(SETTINGS, max_tokens=2),
        replace(SETTINGS, logprobs=1),
        replace(SETTINGS, logprobs=None),
        replace(SETTINGS, sampled_logprobs=True),
        replace(SETTINGS, sampling=Sampling(temperature=0.01), seed=1),
    ],
    ids=["none", "no alternatives", "no log-probabilities", "as sampled", "sampled"],
)
def test_nothing_is_reported_of_other_texts(settings):
    assert notices(settings) == ()


def test_nothing_is_reported_where_a_row_has_the_same_bits_in_any_batch():
    assert notices(SETTINGS, rounds_by_width=False) == ()
