"""Plans for devices that are not the CPU, held against what those devices then report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from localspec.interfaces.backend import Options
from localspec.running.memory.plan import Plan
from localspec.running.memory.planner import Limits, plan_pair
from localspec.running.models.locate import ModelFiles, locate
from localspec.running.runtime.loaded_pair import load_models
from localspec.running.runtime.pair_files import PairFiles
from localspec.running.runtime.resolved_pair import ResolvedPair
from localspec_llamacpp.bindings.log import LOG, BufferSize
from localspec_llamacpp.devices import gpus, places
from tests import engines
from tests.arrangements import Running

MB = 1 << 20
ANYWHERE = Limits()
TOLERANCE = 0.06
KINDS = {"model": "weights", "KV": "context", "RS": "context", "compute": "buffers"}


def free() -> list[int]:
    return [gpu.device.free_bytes for gpu in gpus(places())]


def taken(before: list[int], sizes: Sequence[BufferSize]) -> list[int]:
    """Return what devices report, or llama.cpp for a card, which others use at the same time."""
    if Running.now.card:
        return put(sizes, *KINDS.values())
    return [old - new for old, new in zip(before, free(), strict=True)]


def put(sizes: Sequence[BufferSize], *kinds: str) -> list[int]:
    """Return the bytes of some kinds that llama.cpp says it put on each device."""
    return [
        sum(
            each.bytes
            for each in sizes
            if each.where == gpu.buffers and KINDS.get(each.kind) in kinds
        )
        for gpu in gpus(places())
    ]


@pytest.fixture(scope="session")
def starter(tmp_path_factory) -> Path:
    return locate("smollm2-135m").path


def plan_of(target: Path, draft: Path | None, options: Options, limits: Limits = ANYWHERE):
    files = (ModelFiles(engines.GGUF_ENGINE, path) for path in (target, draft) if path)
    with PairFiles(*files).examine() as examined:
        plan = plan_pair(*examined, options, limits, insists=True)
        helper = examined[1].resolve() if examined[1] else None
        return ResolvedPair(examined.target.resolve(), helper, plan)


def planned_bytes(plan: Plan, what: str = "") -> list[int]:
    names = [gpu.name for gpu in plan.machine.gpus]
    return [
        sum(item.bytes for item in plan.items if item.pool == name and what in ("", item.what))
        for name in names
    ]


def close(plans: list[int], reports: list[int]) -> bool:
    return all(
        abs(wanted - found) <= TOLERANCE * found + MB // 8
        for wanted, found in zip(plans, reports, strict=True)
    )


WAYS = {
    "one text": Options(context=2048, threads=1),
    "three texts": Options(context=2048, slots=3, kv_type="q8_0", threads=1),
    "half": Options(context=2048, gpu_layers=16, threads=1),
    "wide": Options(context=1024, batch=64, flash_attention=False, threads=1),
}


@pytest.mark.parametrize("way", WAYS)
def test_each_device_takes_what_was_planned_for_it(way, starter):
    before = free()
    plan = plan_of(starter, None, WAYS[way])
    LOG.take_sizes()
    with load_models(plan, insists=True):
        sizes = LOG.take_sizes()
        reported = taken(before, sizes)
    assert sum(reported) > 40 * MB
    assert close(planned_bytes(plan.plan), reported)
    for kind in ("weights", "context", "buffers"):
        assert close(planned_bytes(plan.plan, kind), put(sizes, kind)), kind
    assert Running.now.card or free() == before


@pytest.mark.parametrize("with_head", [False, True])
@pytest.mark.parametrize("name", [*engines.ARCHITECTURES, *engines.WITH_HEADS])
def test_layers_of_all_kinds_are_counted_where_they_go(name, with_head):
    path = engines.tiny(name)
    head = path if with_head and name in engines.WITH_HEADS else None
    options = Options(context=4096, slots=2, threads=1, head=head)
    count = len(free())
    split = (3.0, 1.0) if count == 2 else ()
    before = free()
    plan = plan_of(path, None, replace(options, split=split))
    LOG.take_sizes()
    with load_models(plan, insists=True):
        assert close(planned_bytes(plan.plan), taken(before, LOG.take_sizes()))


def test_a_draft_model_goes_to_the_main_device_and_is_counted_there(starter):
    before = free()
    limits = Limits(main_gpu=len(before) - 1)
    options = Options(context=2048, threads=1)
    plan = plan_of(starter, starter, options, limits)
    LOG.take_sizes()
    with load_models(plan, insists=True):
        assert close(planned_bytes(plan.plan), taken(before, LOG.take_sizes()))
    names = {item.pool for item in plan.plan.items if item.what == "draft model" and item.bytes}
    assert names - {plan.plan.machine.host.name} == {plan.plan.machine.gpus[-1].name}


def test_no_device_is_used_where_that_is_wished(starter):
    before = free()
    plan = plan_of(starter, None, Options(context=1024, threads=1), Limits("cpu"))
    LOG.take_sizes()
    with load_models(plan, insists=True):
        assert sum(taken(before, LOG.take_sizes())) == 0
