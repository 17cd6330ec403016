"""A real draft model that cannot pay is unloaded in the middle of a text, which stays the same."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

from localspec.core.requests.settings import Settings
from localspec.interfaces.backend import Options
from localspec.interfaces.costs import Costs
from localspec.running.memory.planner import Limits
from localspec.running.runtime import memory_relief
from localspec.running.runtime.loaded_pair import LoadedPair, resolve_and_load
from localspec.running.runtime.loading import Loading, build_engine
from localspec.running.runtime.pair_files import PairFiles
from tests import engines
from tests.runs import Want, converse

OPTIONS = Options(threads=1, context=512, gpu_layers=0)
WANTS = [Want([5, 6, 7, 8] * 4, Settings(max_tokens=100, ignore_end=True)), Want([9, 8, 7] * 6)]


def written(draft, draft_cost=0.0):
    """Answer with a draft model of such a cost, where a plain token takes 0.01; say if it goes."""
    files = PairFiles.locate(engines.tiny("llama"), draft, "auto")
    closed = []

    class Watched:
        def __init__(self, model):
            self.model = model

        def __getattr__(self, name):
            return getattr(self.model, name)

        def close(self):
            closed.append(self.model)
            self.model.close()

    with resolve_and_load(files, OPTIONS, Limits()) as loaded:
        resolved = replace(loaded.resolved, proposers=("suffix", "draft-model"))
        pair = replace(loaded.pair, draft=Watched(loaded.pair.draft) if draft else None)
        costs = Costs({1: 0.01, 9: 0.011}, {"draft-model": {1: draft_cost, 4: 4 * draft_cost}})
        engine = build_engine(LoadedPair(pair, resolved), Loading(OPTIONS), costs)
        with closing(engine):
            results = converse(engine, WANTS)
            return results, len(closed)


def test_a_real_draft_model_is_unloaded_where_it_cannot_pay(monkeypatch):
    monkeypatch.setattr(memory_relief, "LOOK_SECONDS", 0.0)
    plain, _ = written(None)
    eager = engines.tiny("llama")  # a twin, which is always right
    results, unloaded = written(eager, 0.02)
    assert [result.tokens for result in results] == [result.tokens for result in plain]
    assert unloaded == 1
    assert "its drafts cost more here than they can win" in results[0].notices[0]
    assert not any("draft-model" in result.speculation.tokens_by_source for result in results)
