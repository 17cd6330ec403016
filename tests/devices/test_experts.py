"""Mixtures of experts whose experts stay on the host."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import numpy as np
import pytest

from localspec.base.errors import UsageError
from localspec.base.tokens import tokens_of
from localspec.core.proposers.ngram import NgramProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from localspec.interfaces.backend import Options, Row
from localspec.running.memory.planner import Limits
from localspec.running.runtime.loaded_pair import load_models
from localspec_llamacpp import backend as llamacpp
from localspec_llamacpp.bindings.log import LOG
from localspec_llamacpp.devices import gpus, places
from tests import engines
from tests.arrangements import Running
from tests.devices.test_planned import close, free, plan_of, planned_bytes, taken
from tests.runs import TEXTS, Want, replies, said

NAME = "glm4moe-experts"
OPTIONS = Options(context=4096, slots=2, threads=1, flash_attention=False)
EACH = 2 * 3 * 64 * 96 * 4  # bytes of the experts of a layer


def logits(options: Options):
    with closing(llamacpp.load(engines.tiny(NAME), options)) as model:
        [logit] = model.forward([Row(0, tokens_of([5, 3, 1, 4, 1, 5, 2, 6]), outputs=8)])
        return logit.copy()


@pytest.mark.parametrize("layers", [0, 2, 3])
def test_text_is_that_of_the_cpu_wherever_experts_are(layers):
    alone = logits(replace(OPTIONS, gpu_layers=0))
    near = Running.now.rounding
    assert np.allclose(logits(replace(OPTIONS, cpu_moe=layers)), alone, atol=near)


@pytest.mark.parametrize("layers", [2, 3])
def test_drafts_change_nothing_with_experts_on_the_host(layers):
    settings = Settings(max_tokens=40, ignore_end=True)
    texts = []
    for proposer in (Silent(), NgramProposer(3, 1)):
        options = replace(OPTIONS, cpu_moe=layers)
        with closing(llamacpp.load(engines.tiny(NAME), options)) as model:
            wants = [Want(model.tokenizer.encode(text).tolist(), settings) for text in TEXTS[:2]]
            texts.append(said(replies(model, proposer, wants)))
    assert texts[0] == texts[1]


def test_the_host_takes_the_experts_of_the_first_layers_and_the_gpus_the_rest():
    before, weights = free(), []
    for layers in (0, 2, 3):  # the first layer has none
        plan = plan_of(engines.tiny(NAME), None, replace(OPTIONS, cpu_moe=layers))
        LOG.take_sizes()
        with load_models(plan, insists=True):
            assert close(planned_bytes(plan.plan), taken(before, LOG.take_sizes()))
        weights.append(sum(planned_bytes(plan.plan, "weights")))
        assert plan.plan.host_read == EACH // 2 * max(layers - 1, 0)
    assert [weights[0] - each for each in weights] == [0, EACH, 2 * EACH]


def test_experts_leave_before_layers_do_where_gpus_are_too_small():
    path, count = engines.tiny(NAME), len(free())
    whole = plan_of(path, None, OPTIONS).plan
    short = sum(planned_bytes(whole)) - EACH // 4
    plan = plan_of(path, None, OPTIONS, Limits(budget=short * count)).plan
    [conceded] = plan.concessions
    assert conceded.what == f"experts of {plan.options.cpu_moe} of 3 layers in host memory"
    assert plan.alternative is not None
    assert plan.host_read < plan.alternative.host_read


def test_a_model_without_experts_says_so():
    with pytest.raises(UsageError, match="has no experts"):
        plan_of(engines.tiny("llama"), None, replace(OPTIONS, cpu_moe=1))
    assert gpus(places())
