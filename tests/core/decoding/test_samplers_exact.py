"""With any sampler, speculation changes the speed and never the text."""

from __future__ import annotations

from functools import cache
from itertools import cycle

import pytest

from localspec.base.tokens import tokens_of
from localspec.core.proposers.silent import Silent
from localspec.core.requests.engine import Engine, EngineParts
from localspec.core.requests.settings import Settings
from localspec.core.sampling.order import ORDER
from localspec.core.sampling.parameters import Sampling
from localspec.interfaces.testing import hashed_logits
from tests.chi_square import chi_square, limit
from tests.core.sampling.definitions import text_probabilities
from tests.runs import LETTERS, PROPOSERS, Want, replies, said, scripted

LAST = tuple(name for name in ORDER if name not in ("temperature", "adaptive_p"))
SAMPLINGS = {
    "typical": Sampling(1.0, typical=0.6),
    "top-n-sigma": Sampling(1.3, top_n_sigma=1.0),
    "xtc": Sampling(1.0, xtc_probability=0.5, xtc_threshold=0.15),
    "dynamic": Sampling(0.9, dynatemp_range=0.6, dynatemp_exponent=0.7),
    "dry": Sampling(1.0, dry_multiplier=1.5, dry_allowed_length=1, dry_breakers=("e",)),
    "last temperature": Sampling(
        1.4, 5, 0.8, 0.05, 1.2, xtc_probability=0.3, samplers=(*LAST, "temperature")
    ),
    "late penalties": Sampling(
        1.0, 5, presence=0.8, samplers=("top_k", "penalties", "temperature")
    ),
    "mirostat 1": Sampling(1.0, mirostat=1, mirostat_tau=1.2, mirostat_eta=0.4),
    "mirostat 2": Sampling(1.0, mirostat=2, mirostat_tau=1.2, mirostat_eta=0.4),
    "adaptive": Sampling(1.0, min_p=0.02, adaptive_target=0.35, adaptive_decay=0.5),
}
STEERED = ("mirostat 1", "mirostat 2", "adaptive")
COLD = {
    "dry": Sampling(dry_multiplier=1.5, dry_allowed_length=1, dry_breakers=("e",)),
    "xtc before": Sampling(
        xtc_probability=0.5, xtc_threshold=0.15, samplers=(*LAST, "temperature")
    ),
    "typical before": Sampling(typical=0.4, samplers=(*LAST, "temperature")),
    "dynamic": Sampling(top_k=1, dynatemp_range=0.5),
    "mirostat": Sampling(mirostat=2),
}
EVERY = SAMPLINGS | {f"cold {kind}": sampling for kind, sampling in COLD.items()}
PROMPTS = ([1, 2, 3, 1, 2], [0, 4, 0, 4, 0], [5])


def wants(sampling, count=3, length=50):
    return [
        Want(prompt, Settings(max_tokens=length, sampling=sampling, seed=seed, ignore_end=True))
        for seed, prompt in enumerate(PROMPTS[:count])
    ]


@cache
def plain(kind):
    return said(replies(scripted(), Silent(), wants(EVERY[kind])))


@pytest.mark.parametrize("name", PROPOSERS)
@pytest.mark.parametrize("kind", [kind for kind in EVERY if kind not in SAMPLINGS])
def test_cold_text_is_the_plain_text_with_every_proposer(name, kind):
    for model in (scripted(batch=9), scripted(recurrent=True)):
        assert said(replies(model, PROPOSERS[name](), wants(EVERY[kind]))) == plain(kind)


@pytest.mark.parametrize("name", PROPOSERS)
@pytest.mark.parametrize("kind", SAMPLINGS)
def test_a_seeded_text_is_the_plain_text_alone_and_beside_others(name, kind):
    for model in (scripted(batch=9), scripted(recurrent=True)):
        assert said(replies(model, PROPOSERS[name](), wants(EVERY[kind]))) == plain(kind)
    alone = [replies(scripted(), PROPOSERS[name](), [want])[0] for want in wants(EVERY[kind])]
    assert said(alone) == plain(kind)


@pytest.mark.parametrize("kind", [kind for kind in SAMPLINGS if kind not in STEERED])
def test_a_twin_that_is_sampled_alike_is_always_accepted(kind):
    fast = replies(scripted(), PROPOSERS["twin"](), wants(SAMPLINGS[kind], count=1))[0]
    assert fast.speculation.drafted > 0
    assert fast.speculation.acceptance_rate == 1


@cache
def law(kind, prompt, length):
    logits = hashed_logits(1)
    return text_probabilities(
        SAMPLINGS[kind],
        lambda reply: logits([*prompt, *reply]),
        prompt,
        length,
        LETTERS.token_bytes,
    )


# Texts of look-ups are those without drafts, seed by seed: see the test of seeded texts. Tokens
# that are translated follow the law in test_verify.py, too.
LATER = [pytest.param(name, marks=pytest.mark.long) for name in ("ngram", "best", "translated")]


@pytest.mark.parametrize("name", ["silent", "twin", "stranger", *LATER])
@pytest.mark.parametrize("kind", SAMPLINGS)
def test_sampled_texts_follow_the_definition_of_their_samplers(name, kind):
    prompt, length, total, sampling = (1, 2, 3, 1, 2), 3, 1500, SAMPLINGS[kind]
    requests = [
        Want(prompt, Settings(max_tokens=length, sampling=sampling, seed=seed, ignore_end=True))
        for seed in range(total)
    ]
    counts: dict[tuple[int, ...], int] = {}
    for result in replies(scripted(), PROPOSERS[name](), requests):
        counts[result.tokens] = counts.get(result.tokens, 0) + 1
    statistic, freedom = chi_square(counts, law(kind, prompt, length), total)
    assert statistic < limit(freedom)


def states(name, sampling, length):
    """The texts of an engine, and the states that their samplers were left in."""
    proposer = PROPOSERS[name]()
    costs = proposer.depth.costs if name == "best" else None
    engine = Engine(scripted(), proposer, 4, parts=EngineParts(costs))
    jobs = [
        engine.prepare(tokens_of(want.prompt), want.settings, lambda _: None)
        for want in wants(sampling, length=length)
    ]
    for job in jobs:
        engine.add(job)
    hurried = cycle((False, False, True))
    while engine.busy:
        engine.step(lambda: next(hurried))
    texts = [job.generation.tokens.tolist() for job in jobs]
    return texts, [job.generation.sampler.chain.course.state for job in jobs]


@pytest.mark.parametrize("kind", STEERED)
def test_the_state_after_a_thousand_tokens_is_the_same_with_and_without_drafts(kind):
    texts, plain = states("silent", SAMPLINGS[kind], 1000)
    assert all(len(text) > 1000 for text in texts)
    for name in ("ngram", "best"):
        assert states(name, SAMPLINGS[kind], 1000) == (texts, plain)
