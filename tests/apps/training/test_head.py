"""Heads trained for a tiny target that was itself trained, on both engines."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import sys
from contextlib import closing
from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from localspec.apps.training.record import Shard, Text, record, recorded_tokens, shards
from localspec.base.errors import ModelFileError
from localspec.core.proposers.head import HeadProposer
from localspec.core.proposers.silent import Silent
from localspec.core.requests.settings import Settings
from localspec.core.sampling.parameters import GREEDY
from localspec.core.sampling.sampler import Sampler
from localspec.interfaces.backend import Options, Roll, Row
from localspec.running.models.engines import engine
from localspec.running.models.locate import ModelFiles
from tests import tiny
from tests.backends.trained import make
from tests.backends.trained.packed import unpacked
from tests.runs import Want, replies, said

pytestmark = pytest.mark.train
ENGINES = ["llamacpp", *(["mlx"] if sys.platform != "win32" else [])]
OPTIONS = Options(slots=2, context=512, tentative=8)
MOST_BYTES = 1 << 30


def ignored():
    pass


def stories(count, seed):
    rng = random.Random(seed)
    return [make.story(rng)[: rng.randrange(90, 390)] for _ in range(count)]


@pytest.fixture(scope="module", params=ENGINES)
def recorded(request, tmp_path_factory):
    """A target, and a folder in which texts are recorded, some of them held out."""
    folder = tmp_path_factory.mktemp("training")
    path = unpacked("trunk", folder)
    if request.param == "mlx":
        from tests.gguf_to_mlx import convert

        path = convert(path, folder / "trunk")
    files = ModelFiles(engine(request.param), path)
    with files.engine.backend().rehearse(path) as rehearsal:
        encode = rehearsal.tokenizer.encode
        texts = [
            Text(encode(story), begin=8, held_out=at % 8 == 0)
            for at, story in enumerate(stories(96, seed=1))
        ]
    *_, tokens = record(files, texts, folder, ignored, MOST_BYTES)
    assert tokens == recorded_tokens(folder) == sum(len(text.tokens) for text in texts)
    return files, folder


def copied(recorded, place):
    files, folder = recorded
    place.mkdir()
    for path in (*shards(folder), *folder.glob("*.npy")):
        shutil.copy(path, place)
    return files, place


def trained(files, folder, steps):
    from localspec.apps.training.loop import train

    return list(train(files, folder, ignored, steps))


@pytest.fixture(scope="module")
def head(recorded, tmp_path_factory):
    """A folder in which a head was trained, the reports of its steps, and the head."""
    from localspec.apps.training.export import export

    files, folder = copied(recorded, tmp_path_factory.mktemp("head") / "training")
    reports = trained(files, folder, 70)
    out = folder / ("head.gguf" if files.engine.name == "llamacpp" else "head")
    export(files, folder, files.engine.spec.format, out)
    return folder, reports, out


def loaded(files, head):
    return files.engine.backend().load(files.path, replace(OPTIONS, head=head))


def test_the_loss_falls_and_what_is_held_out_is_accepted_more(head):
    _, reports, _ = head
    assert reports[-1].loss < 0.7 * reports[0].loss
    listed = sorted({report.held_out.step for report in reports if report.held_out})
    held_out = reports[-1].held_out
    assert listed[0] == 50
    assert min(held_out.greedy[:3]) > 0.3
    assert held_out.speedup > 0
    assert [report.step for report in reports] == list(range(1, 71))


def test_its_engine_loads_the_head_and_replies_are_the_plain_ones(recorded, head):
    files, _ = recorded
    with closing(loaded(files, head[2])) as model:
        prompts = [model.tokenizer.encode(story)[:40].tolist() for story in stories(4, seed=7)]
        wants = [Want(prompt, Settings(max_tokens=24, ignore_end=True)) for prompt in prompts]
        plain = [replies(model, Silent(), [want])[0] for want in wants]
        fast = [replies(model, HeadProposer(model.head, floor=0.0), [want])[0] for want in wants]
        assert said(fast) == said(plain)
        assert sum(reply.speculation.accepted for reply in fast) > 20


def test_the_engine_drafts_what_the_network_drafts(recorded, head):
    """The layout in files: rotation, norms, the scale of the states, the drafted tokens."""
    import torch

    from localspec.apps.training.batches import Reader, Vocabulary
    from localspec.apps.training.head import Chains, Network
    from localspec.apps.training.state import State

    files, _ = recorded
    folder, _, out = head
    state = State.load(folder, torch.device("cpu"))
    shard = Shard.load(shards(folder)[0])
    vocabulary = Vocabulary.numbered(state.vocabulary, 384)
    [texts, *_] = Reader(folder, vocabulary, torch.device("cpu")).held_out(1, 1 << 20)
    order = np.argsort(-shard.lengths[np.flatnonzero(shard.held_out)], kind="stable")
    first = np.flatnonzero(shard.held_out)[order[0]]
    start = int(shard.lengths[:first].sum())
    text = shard.tokens[start : start + int(shard.lengths[first])]
    ends = range(30, len(text) - 4, 7)
    with torch.no_grad(), closing(loaded(files, out)) as model:
        chains = Chains(
            Network(state.shape, state.average, state.scale),
            texts,
            torch.tensor([[end - 2 for end in ends]]).expand(len(texts.lengths), -1),
        )
        likeliest = state.vocabulary[chains.step()[0].argmax(-1).numpy()]
        drafted = []
        for end in ends:
            model.truncate(0, 0)
            model.forward([Row(0, text[: end - 1])])
            sampler = Sampler(GREEDY, 0, text[:end])
            [draft] = model.head.roll([Roll(Row(0, text[end - 1 : end]), 1, sampler, end)])
            drafted.append(int(draft.tokens[0]))
    assert np.mean(np.array(drafted) == likeliest) > 0.9  # weights are rounded in files


def test_a_training_begins_with_a_published_head_and_its_tokens(recorded, head, tmp_path):
    from localspec.apps.training.export import export
    from localspec.apps.training.published import choose_beginning
    from localspec.running.models import trial

    files, _ = recorded
    trained_in, reports, _ = head
    export(files, trained_in, "mlx", tmp_path / "published")
    _, folder = copied(recorded, tmp_path / "training")
    few = np.load(folder / "outputs.npy", mmap_mode="r").shape[0]
    target = trial.footprint(files.path, files.engine.name)
    choose_beginning(tmp_path / "published", target, folder)
    more = trained(files, folder, 30)
    assert more[0].loss < 0.8 * reports[0].loss
    assert np.mean([report.loss for report in more[-5:]]) < 1.05 * reports[-1].loss
    export(files, folder, "mlx", tmp_path / "after")
    before, after = (
        json.loads((tmp_path / name / "config.json").read_text()) for name in ("published", "after")
    )
    assert before == after
    assert 0 < before["draft_vocab_size"] <= few


def weights_of(folder):
    import torch

    from localspec.apps.training.state import State

    state = State.load(folder, torch.device("cpu"))
    return {**state.weights, **{f"average {name}": x for name, x in state.average.items()}}


def killed(files, folder, calls):
    """Train in a process that ends by itself after so many steps, as if it were killed."""
    from localspec.apps.training.loop import train

    left = iter(range(calls))
    list(train(files, folder, lambda: next(left, None) is None and os._exit(9)))


def test_steps_in_half_precision_learn_as_well(recorded, tmp_path, monkeypatch):
    from localspec.apps.training import loop

    losses = []
    for half in (False, True):
        files, folder = copied(recorded, tmp_path / str(half))
        monkeypatch.setattr(loop, "multiplies_faster_in_half", lambda _, half=half: half)
        losses.append([report.loss for report in trained(files, folder, 40)])
    whole, half = losses
    assert half != whole
    assert np.mean(half[-5:]) == pytest.approx(np.mean(whole[-5:]), rel=0.1)


def test_a_training_that_is_killed_three_times_ends_with_the_same_weights(recorded, tmp_path):
    import torch

    from localspec.apps.training.loop import train

    files, whole = copied(recorded, tmp_path / "whole")
    trained(files, whole, 10)
    _, cut = copied(recorded, tmp_path / "cut")
    with closing(train(files, cut, ignored)) as steps:  # one that iterates no further
        list(islice(steps, 3))

    def interrupted():
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        list(train(files, cut, interrupted))
    process = multiprocessing.get_context("spawn").Process(target=killed, args=(files, cut, 4))
    process.start()
    process.join()
    assert process.exitcode == 9
    assert trained(files, cut, 10)[0].step == 4
    expected, weights = weights_of(whole), weights_of(cut)
    assert expected.keys() == weights.keys()
    assert all(torch.equal(expected[name], weights[name]) for name in expected)


def test_recording_goes_on_behind_what_is_recorded_and_stays_within_its_bytes(recorded, tmp_path):
    files, folder = recorded
    shard = Shard.load(shards(folder)[0])
    starts = np.cumsum(shard.lengths)[:-1]
    texts = [Text(tokens) for tokens in np.split(shard.tokens, starts)]
    with closing(record(files, texts, tmp_path, ignored, MOST_BYTES)) as reading:
        list(islice(reading, 5))
    assert recorded_tokens(tmp_path) == sum(len(text.tokens) for text in texts[:5])
    *_, tokens = record(files, texts[:9], tmp_path, ignored, MOST_BYTES)
    assert tokens == recorded_tokens(tmp_path) == sum(len(text.tokens) for text in texts[:9])
    again = np.concatenate([Shard.load(path).states for path in shards(tmp_path)])
    assert np.allclose(again, shard.states[: len(again)], atol=0.02)
    most = sum(path.stat().st_size for path in shards(tmp_path)) + 100
    assert list(record(files, texts, tmp_path, ignored, most)) == []


def test_a_target_that_gives_no_inner_states_is_refused_in_words(tmp_path):
    from localspec.apps.training.support import require_trainable

    for name in ("llama", "gemma3", "mamba2"):
        path = tiny.write(tmp_path / f"{name}.gguf", name)
        require_trainable(ModelFiles(engine("llamacpp"), path))
    if "mlx" in ENGINES:
        from tests import tiny_mlx

        with pytest.raises(ModelFileError, match="no head can be trained for made"):
            require_trainable(ModelFiles(engine("mlx"), tiny_mlx.write(tmp_path / "made", "lfm2")))
