"""Speculation changes the speed, never the text."""

from __future__ import annotations

from dataclasses import replace

import pytest

from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import Sampling
from tests.runs import PROPOSERS, Want, replies, said, scripted

ENDINGS = {
    "length": Settings(max_tokens=60, ignore_end=True),
    "end token": Settings(max_tokens=60),
    "stop text": Settings(max_tokens=60, ignore_end=True, stop=("cab", "dd", "efe")),
}


def wants(settings: Settings, count: int = 3) -> list[Want]:
    prompts = [[(at * at + 3 * slot) % 5 for at in range(2 + 9 * slot)] for slot in range(count)]
    return [
        Want(prompt, replace(settings, seed=slot, max_tokens=60 + slot))
        for slot, prompt in enumerate(prompts)
    ]


@pytest.mark.parametrize("name", PROPOSERS)
@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("batch", [7, 64])
@pytest.mark.parametrize("recurrent", [False, True], ids=["attention", "recurrent"])
@pytest.mark.parametrize("count", [1, 3])
def test_greedy_text_is_the_plain_text(name, ending, batch, recurrent, count):
    requests = wants(ENDINGS[ending], count)
    plain = replies(scripted(), Silent(), requests)
    model = scripted(recurrent=recurrent, batch=batch)
    fast = replies(model, PROPOSERS[name](), requests)
    assert said(fast) == said(plain)


@pytest.mark.parametrize("name", PROPOSERS)
def test_penalties_and_bias_see_the_same_context_at_every_drafted_position(name):
    sampling = Sampling(repetition=1.3, presence=0.4, frequency=0.3, bias={2: 1.5, 4: -1.0})
    requests = wants(Settings(sampling=sampling, ignore_end=True))
    plain = replies(scripted(), Silent(), requests)
    assert said(replies(scripted(), PROPOSERS[name](), requests)) == said(plain)
    unpenalised = replies(scripted(), Silent(), wants(Settings(ignore_end=True)))
    assert said(unpenalised) != said(plain)


@pytest.mark.parametrize("name", PROPOSERS)
@pytest.mark.parametrize("depth", [None, 1, 3])
@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0),
        Sampling(temperature=0.7, top_k=4, top_p=0.9),
        Sampling(temperature=1.5, min_p=0.1, presence=0.5, repetition=1.2),
    ],
    ids=["all", "top", "penalised"],
)
def test_a_seeded_text_is_the_plain_text_with_any_drafts_at_any_depth(name, depth, sampling):
    requests = wants(Settings(sampling=sampling, depth=depth))
    plain = replies(scripted(), Silent(), requests)
    fast = replies(scripted(batch=9), PROPOSERS[name](), requests)
    assert said(fast) == said(plain)


def test_another_seed_is_another_text():
    settings = Settings(sampling=Sampling(temperature=1.0), ignore_end=True)
    [one], [other] = (
        replies(scripted(), Silent(), [Want([1, 2], replace(settings, seed=seed, max_tokens=40))])
        for seed in (1, 2)
    )
    assert one.tokens != other.tokens


@pytest.mark.parametrize("name", PROPOSERS)
@pytest.mark.parametrize("temperature", [0.0, 0.9])
@pytest.mark.parametrize("batch", [7, 12, 64])
def test_a_sequence_does_not_depend_on_its_neighbours(name, temperature, batch):
    requests = wants(Settings(sampling=Sampling(temperature=temperature)), count=5)
    together = replies(scripted(batch=batch), PROPOSERS[name](), requests)
    alone = [replies(scripted(), PROPOSERS[name](), [each])[0] for each in requests]
    assert said(together) == said(alone)


def test_a_twin_draft_model_is_always_accepted():
    requests = wants(ENDINGS["length"], count=1)
    plain = replies(scripted(), Silent(), requests)[0]
    fast = replies(scripted(), PROPOSERS["twin"](), requests)[0]
    assert fast.speculation.acceptance_rate == 1
    assert fast.speculation.rounds <= plain.speculation.rounds / 4


@pytest.mark.parametrize(
    "sampling",
    [
        Sampling(temperature=1.0),
        Sampling(temperature=0.9, top_k=4, bias={1: 2.0}),
        Sampling(temperature=1.0, repetition=1.4, presence=0.6, frequency=0.5),
    ],
    ids=["all", "biased", "penalised"],
)
def test_a_sampled_twin_is_always_accepted(sampling):
    """Draft model and target see the same context, draft tokens included."""
    settings = Settings(sampling=sampling, ignore_end=True)
    fast = replies(scripted(), PROPOSERS["twin"](), wants(settings, count=1))[0]
    assert fast.speculation.acceptance_rate == 1


@pytest.mark.parametrize("name", PROPOSERS)
@pytest.mark.parametrize("recurrent", [False, True], ids=["attention", "recurrent"])
def test_the_target_holds_all_but_the_newest_token(name, recurrent):
    model = scripted(recurrent=recurrent)
    [result] = replies(model, PROPOSERS[name](), [Want([1, 2, 1], Settings(max_tokens=30))])
    held = next(iter(model.held.values()))
    whole = [1, 2, 1, *result.tokens]
    assert held == whole[: len(held)]
    assert recurrent or len(held) == len(whole) - 1
