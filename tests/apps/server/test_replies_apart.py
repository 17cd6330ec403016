"""Clients with API keys of their own: no reply to one is drafted from a reply to another."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial

import pytest

from localspec.apps.server.app import ServerPolicy
from localspec.apps.server.command import keeping_replies_apart
from localspec.apps.server.offers import ServedOffer
from localspec.apps.server.safety import Rules
from localspec.core.sampling.parameters import GREEDY
from localspec.interfaces.backend import Options
from localspec.running.runtime.loading import Loading, load
from tests import engines
from tests.apps.server.scripted import Server

LOADING = Loading(Options(context=512, threads=1, slots=2), depth=4, proposer="suffix")
BODY = {"model": "tiny", "prompt": "go on: a tale", "max_tokens": 120, "temperature": 0}
BODY |= {"ignore_eos": True, "stream": True}


@pytest.mark.parametrize(("keys", "faster"), [(("first", "other"), False), (("first",), True)])
def test_a_reply_tells_by_its_rounds_nothing_of_what_another_client_was_told(keys, faster):
    runtime = load(engines.tiny("llama"), loading=keeping_replies_apart(LOADING, keys))
    vocabulary = partial(nullcontext, runtime.tokenizer)
    offer = ServedOffer("tiny", lambda _: runtime, vocabulary, GREEDY, "llamacpp", "gguf")
    server = Server(policy=ServerPolicy(Rules(keys=keys)), beside=[offer])

    def rounds(key):
        headers = {"Authorization": f"Bearer {key}"}
        return server.client.post("/v1/completions", json=BODY, headers=headers).text.count("data:")

    before, after = rounds(keys[0]), rounds(keys[-1])
    server.close()
    assert (after < before / 2) if faster else after == before
