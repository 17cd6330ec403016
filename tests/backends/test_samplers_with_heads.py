"""Texts of real engines, drafted by heads and draft models, follow the definition of samplers."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from localspec.base.tokens import tokens_of
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.backend import Row
from tests import engines
from tests.chi_square import chi_square, limit
from tests.core.sampling.definitions import text_probabilities
from tests.runs import TEXTS, Want, replies

LENGTH, TOTAL = 3, 800
SAMPLINGS = {
    "xtc": Sampling(1.0, 6, xtc_probability=0.5, xtc_threshold=0.1),
    "mirostat": Sampling(1.0, mirostat=2, mirostat_tau=2.0, mirostat_eta=0.3),
    "adaptive": Sampling(1.0, 6, adaptive_target=0.4, adaptive_decay=0.5),
}


def law(model, prompt, sampling):
    """The probability of every text, by the logits of the model."""

    def logits(reply):
        model.truncate(0, 0)
        [rows] = model.forward([Row(0, tokens_of([*prompt, *reply]))])
        return rows[0]

    probabilities = text_probabilities(sampling, logits, prompt, LENGTH)
    model.truncate(0, 0)
    return probabilities


@pytest.mark.parametrize("kind", SAMPLINGS)
@pytest.mark.parametrize(
    ("architecture", "name"),
    [("llama", "llama"), ("llama-eagle3", "eagle3"), ("glm4moe-soft-mtp", "mtp")],
)
def test_texts_follow_the_definition_of_samplers_with_real_drafts(architecture, name, kind):
    sampling, target = SAMPLINGS[kind], engines.target(architecture)
    prompt = target.tokenizer.encode(TEXTS[0]).tolist()
    expected = law(target, prompt, sampling)
    proposer, models = engines.proposer(name, target)
    settings = Settings(max_tokens=LENGTH, sampling=sampling, ignore_end=True)
    requests = [Want(prompt, replace(settings, seed=seed)) for seed in range(TOTAL)]
    results = replies(target, proposer, requests)
    assert sum(result.speculation.drafted for result in results) > 200
    statistic, freedom = chi_square(Counter(r.tokens for r in results), expected, TOTAL)
    assert statistic < limit(freedom)
    for model in (target, *models):
        model.close()
