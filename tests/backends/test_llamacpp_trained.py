"""Heads that were trained are mostly right, at every depth and however their text came about.

`trained` has the same small model twice, with blocks that were trained in a chain, and with one
that was trained to go on by itself; `trained/make.py` makes such files.
"""

from __future__ import annotations

from contextlib import closing

import numpy as np
import pytest

from localspec.core.proposers.head import HeadProposer
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import GREEDY, Sampling
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Options, Roll, Row
from localspec_llamacpp import backend
from localspec_llamacpp.gathering import PATIENCE
from tests.backends.trained.packed import unpacked
from tests.runs import Want, replies, said

DEPTH = 3
STORY = (
    "Finn carries the drum to the old mill. The ladder of Ada is at the school now. "
    "Now Finn is at the old mill with the drum. Ada sells the ladder to the school. "
    "The candle of June is at the river now. June brings the candle to the river. "
    "Ada sells the ladder to the school. Now June is at the river with the candle. "
)
OTHER = "Now Hana is at the market with the guitar. Hana takes the guitar to the market. " * 3
SURE = 0.5  # of the drafted tokens, at each depth; by chance it would be one of 384


@pytest.fixture(scope="module", params=["chain", "one"])
def model(request, tmp_path_factory):
    path = unpacked(request.param, tmp_path_factory.mktemp("trained"))
    options = Options(slots=4, context=512, batch=64, tentative=8, threads=1, head=path)
    with closing(backend.load(path, options)) as made:
        yield made


def encoded(model, text):
    return np.asarray(model.tokenizer.encode(text), np.int32)


def feed(model, slot, text, held=0, piece=60):
    for at in range(held, len(text), piece):
        model.forward([Row(slot, text[at : at + piece])])


def at_once(model, text, other):
    feed(model, 0, text)


def one_by_one(model, text, other):
    feed(model, 0, text, piece=1)


def truncated(model, text, other):
    feed(model, 0, np.concatenate((text, other)))
    feed(model, 0, text, model.truncate(0, len(text) - 9))


def copied(model, text, other):
    feed(model, 1, np.concatenate((text, other[:30])))
    feed(model, 0, text, model.copy(1, 0, len(text)))


def restored(model, text, other):
    feed(model, 1, text)
    saved = model.save(1, 1 << 30)
    model.truncate(1, 0)
    assert model.restore(0, saved.data, len(text)) == len(text)


def rejected(model, text, other):
    feed(model, 0, text[:-2])
    roll(model, 0, text[:-1])
    model.forward([Row(0, np.concatenate((text[-2:], other[:3])), 5, 4)])
    assert model.truncate(0, len(text)) == len(text)


def exchanged(model, text, other):
    """Slots of one batch are brought side by side in llama.cpp's order."""
    for slot in range(4):
        feed(model, slot, text[:-1] if slot == 0 else other[: 20 + slot])
    model._gaps = PATIENCE
    model.forward([Row(0, text[-1:]), Row(3, other[-1:])])


WAYS = (at_once, one_by_one, truncated, copied, restored, rejected, exchanged)


def roll(model, slot, text):
    newest = Row(slot, text[-1:])
    [draft] = model.head.roll([Roll(newest, DEPTH, Sampler(GREEDY, 0, text), len(text))])
    return draft.tokens


def greedy(model, text):
    """Return the tokens with which the model goes on."""
    model.truncate(2, 0)
    feed(model, 2, text[:-1])
    written = [text[-1]]
    for _ in range(DEPTH):
        [logits] = model.forward([Row(2, np.array(written[-1:], np.int32))])
        written.append(int(logits[0].argmax()))
    return written[1:]


def rightness(model, way):
    """Measure how often the first tokens of a draft are right, by their number."""
    story, other = encoded(model, STORY), encoded(model, OTHER)
    right = np.zeros(DEPTH)
    ends = range(90, len(story) - 1, 11)
    for end in ends:
        for slot in range(4):
            model.truncate(slot, 0)
        way(model, story[:end], other)
        drafted = roll(model, 0, story[: end + 1])
        right += np.cumprod(drafted == greedy(model, story[: end + 1]))
    return right / len(ends)


@pytest.mark.parametrize("way", WAYS)
def test_a_head_is_right_however_its_text_came_about(model, way):
    assert (rightness(model, way) > SURE).all()


@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_texts_in_slots_accept_most_of_what_is_drafted(model, temperature):
    settings = Settings(max_tokens=40, sampling=Sampling(temperature=temperature), seed=7)
    wants = [Want(encoded(model, STORY[:end]).tolist(), settings) for end in (200, 230, 270, 310)]
    answers = replies(model, HeadProposer(model.head, floor=0.0), wants, DEPTH)
    places = np.array([result.speculation.positions["mtp"][:DEPTH] for result in answers]).sum(0)
    assert (places[:, 1] > SURE * places[:, 0]).all()
    if not temperature:
        plain = replies(model, HeadProposer(model.head), wants, 0)
        assert said(answers) == said(plain)
