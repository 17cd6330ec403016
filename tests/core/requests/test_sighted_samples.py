"""Texts sampled behind pictures by real models follow their distribution, whoever drafts."""

from __future__ import annotations

from collections import Counter
from contextlib import ExitStack, closing
from dataclasses import replace

import pytest

from localspec.base.tokens import tokens_of
from localspec.core.proposers.prediction import PredictionProposer
from localspec.core.requests.settings import Settings
from localspec.core.sampling import filters
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.backend import Row
from localspec.interfaces.proposer import Hints
from tests import engines
from tests.chi_square import chi_square, limit
from tests.core.requests.test_sighted_models import ONE, sighted
from tests.runs import TEXTS, Hinted, Want, replies
from tests.seeing import pictured

LENGTH, TOTAL = 4, 1000
SAMPLING = Sampling(0.7)
RARE = 1e-3  # beginnings of texts that are rarer are counted together
OTHERS = "others"


def text_probabilities(model, want):
    """The probability of every text, by the logits behind a prompt with a picture in its middle."""
    texts, others = {(): 1.0}, 0.0
    for _ in range(LENGTH):
        longer = {}
        for reply, p in texts.items():
            model.truncate(0, 0)
            [rows] = model.forward([Row(0, tokens_of([*want.prompt, *reply]))])
            drawn = filters.distribution(SAMPLING, rows[0])
            for token, q in zip(drawn.ids.tolist(), drawn.probs.tolist(), strict=True):
                longer[(*reply, token)] = p * q
        texts = {reply: p for reply, p in longer.items() if p > RARE}
        others += sum(longer.values()) - sum(texts.values())
    model.truncate(0, 0)
    return texts | {OTHERS: others}


@pytest.mark.long
@pytest.mark.parametrize(
    ("architecture", "name"),
    [("qwen3vl", "prediction"), ("llama", "llama"), ("llama-eagle3", "eagle3")],
)
def test_texts_behind_a_picture_follow_the_law_of_the_target_with_drafts(architecture, name):
    settings = Settings(max_tokens=LENGTH, sampling=SAMPLING, ignore_end=True)
    with ExitStack() as stack:
        model = stack.enter_context(closing(sighted(architecture, slots=4)))
        words = [model.tokenizer.encode(text).tolist() for text in TEXTS[:2]]
        want = pictured(model, words[0], ONE, words[1], settings=settings)
        expected = text_probabilities(model, want)
        if name == "prediction":  # the likeliest text, which is looked up
            likeliest = max(expected.keys() - {OTHERS}, key=expected.__getitem__)
            proposer = Hinted(PredictionProposer(floor=0.1), Hints(tokens_of(likeliest)))
        else:
            proposer, models = engines.proposer(name, model)
            for other in models:
                stack.callback(other.close)
        requests = [Want(want.prompt, replace(want.settings, seed=seed)) for seed in range(TOTAL)]
        results = replies(model, proposer, requests)
    assert sum(result.speculation.accepted for result in results) > TOTAL / 10
    counts = Counter(result.tokens if result.tokens in expected else OTHERS for result in results)
    statistic, freedom = chi_square(counts, expected, TOTAL)
    assert freedom > 5
    assert statistic < limit(freedom)
