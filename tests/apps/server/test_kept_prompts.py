"""Prompts that a server keeps on disk, for the next start."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import pytest

from localspec.apps.server.offers import ServedOffer
from localspec.core.sampling.parameters import GREEDY
from localspec.interfaces.backend import Options
from localspec.running.runtime.loading import Loading, load
from tests import engines
from tests.apps.server.scripted import Server


@pytest.mark.parametrize("name", engines.there("mlx llama"))
def test_a_server_started_anew_reads_a_kept_prompt_from_disk(name, tmp_path):
    path = engines.tiny_folder(name.removeprefix("mlx "))
    loading = Loading(Options(context=1024, slots=2), depth=0, cache_dir=tmp_path)
    body = {"model": "tiny", "prompt": [300 + at % 61 for at in range(800)], "n_predict": 6}
    answers = []
    for _ in range(2):
        runtime = load(path, loading=loading)
        vocabulary = partial(nullcontext, runtime.tokenizer)
        offer = ServedOffer("tiny", lambda _, r=runtime: r, vocabulary, GREEDY, "any", "any")
        server = Server(beside=[offer])
        answers.append(server.client.post("/completion", json=body).json())
        server.close()
    assert answers[0]["content"] == answers[1]["content"]
    assert [answer["timings"]["cache_n"] for answer in answers] == [0, 799]
