"""Options of the draft model alone: its context, device, layers on GPUs, KV type and threads."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from localspec.base.errors import UsageError
from localspec.interfaces.backend import Device, DraftOptions, Options
from localspec.running.memory.machine import Machine
from localspec.running.memory.plan import plan
from localspec.running.memory.planner import Limits, drafting_options, plan_pair
from localspec.running.models.engines import Engine
from localspec.running.models.locate import ModelFiles
from localspec.running.runtime.loaded_pair import resolve_and_load
from localspec.running.runtime.pair_files import PairFiles
from tests import engines
from tests.machines import GB, MB, cpu, pc, wanted
from tests.tiny import Head

WIDE = Options(context=4096, slots=2, threads=1)


@pytest.fixture(autouse=True)
def _quiet(monkeypatch, tmp_path):
    """Keep measurements in the test's own folder."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.fixture
def cards(monkeypatch):
    """Let llama.cpp see two cards that are not there."""
    engine_here = engines.GGUF_ENGINE.installed()
    both = [Device(f"card {at}", "gpu", 8 << 30, 8 << 30) for at in range(2)]
    seeing = replace(engine_here, devices=[*engine_here.devices, *both])
    monkeypatch.setattr(Engine, "installed", lambda _: seeing)


def planned(draft=None, limits=None, **options):
    target, other = engines.tiny("llama"), engines.tiny("llama", head=Head(drift=0.2))
    files = PairFiles(
        ModelFiles(engines.GGUF_ENGINE, target), ModelFiles(engines.GGUF_ENGINE, other)
    )
    options = replace(WIDE, draft=draft or DraftOptions(), **options)
    with files.examine() as examined:
        return plan_pair(*examined, options, limits or Limits(), insists=True)


def test_slots_that_share_a_cache_have_a_window_each():
    """Its model could hold a text of twice as many tokens, and has no room for two of them."""
    target, other = engines.tiny("llama"), engines.tiny("llama", head=Head(drift=0.2))
    files = PairFiles(
        ModelFiles(engines.GGUF_ENGINE, target), ModelFiles(engines.GGUF_ENGINE, other)
    )
    options = replace(WIDE, shared=True, draft=DraftOptions(256))
    with resolve_and_load(files, options, Limits()) as loaded:
        assert loaded.pair.draft_context == 256
        assert loaded.pair.draft.context == loaded.pair.draft.pool == 512
        assert loaded.pair.target.context == 4096


def pools(found):
    return {item.pool for item in found.items if item.what == "draft model"}


def test_a_draft_model_has_the_options_of_its_target_where_nothing_else_is_said():
    drafting = planned(kv_type="q8_0").drafting
    assert (drafting.kv_type, drafting.threads, drafting.gpu_layers) == ("q8_0", 1, None)


def test_options_of_the_draft_model_leave_the_target_alone():
    planned_options = planned(DraftOptions(256, kv_type="q8_0", threads=1), threads=None)
    drafting = planned_options.drafting
    assert (drafting.kv_type, drafting.threads, drafting.draft.context) == ("q8_0", 1, 256)
    assert planned_options.options == planned(threads=None).options


def test_a_window_takes_the_memory_of_its_tokens_in_each_slot():
    def draft_bytes(context):
        planned_options = planned(DraftOptions(context))
        return sum(item.bytes for item in planned_options.items if item.what == "draft model")

    whole, half, most = map(draft_bytes, (512, 256, 8192))
    weights = 2 * half - whole
    assert most - weights == pytest.approx(8 * (whole - weights), rel=0.1)  # 4,096: the context


def test_a_window_is_no_longer_than_what_the_draft_model_was_trained_for():
    assert planned(DraftOptions(8192)).drafting.draft.context == 4096


def test_the_draft_model_goes_where_it_is_to_go(cards):
    assert pools(planned()) == {"card 0"}
    planned_options = planned(DraftOptions(device="1"))
    assert pools(planned_options) == {"card 1"}
    assert planned_options.drafting.split == (0, 1)
    for own in (DraftOptions(device="cpu"), DraftOptions(gpu_layers=0)):
        planned_options = planned(own)
        assert pools(planned_options) == {"host memory"}
        assert planned_options.drafting.gpu_layers == 0
        assert planned_options.options.gpu_layers is None
    planned_options = planned(DraftOptions(device="1"), gpu_layers=0)
    assert (pools(planned_options), planned_options.drafting.gpu_layers) == ({"card 1"}, None)


@pytest.mark.parametrize(
    ("own", "layers"),
    [(DraftOptions(), 9), (DraftOptions(gpu_layers=3), 3), (DraftOptions(device="0"), None)],
)
def test_layers_of_the_draft_model_on_gpus_are_chosen_apart(own, layers):
    files = SimpleNamespace(engine=engines.GGUF_ENGINE)
    examined = SimpleNamespace(files=files, footprint=lambda: SimpleNamespace(context=4096))
    options = Options(gpu_layers=9, draft=own)
    drafting = drafting_options(options, examined, examined, pc(64 * GB, 24 * GB), Limits())
    assert drafting.gpu_layers == layers


def test_devices_that_contradict_each_other_are_refused(cards):
    with pytest.raises(UsageError, match="for GPU 1, and --device 0 is for both"):
        planned(DraftOptions(device="1"), Limits(device="0"))
    with pytest.raises(UsageError, match="for GPU 1, and --device cpu is for both"):
        planned(DraftOptions(device="1"), Limits(device="cpu"))
    with pytest.raises(UsageError, match="there is no GPU 7; there are: 0 to 1"):
        planned(DraftOptions(device="7"))
    with pytest.raises(UsageError, match="2 layers of the draft model are for a GPU"):
        DraftOptions(device="cpu", gpu_layers=2)
    with pytest.raises(UsageError, match="device is 'tpu'"):
        DraftOptions(device="tpu")
    with pytest.raises(UsageError, match="draft context is 12; it must be from 64"):
        DraftOptions(12)
    assert pools(planned(DraftOptions(device="cpu"), Limits(device="1"))) == {"host memory"}


def test_a_short_window_leaves_the_context_to_the_target():
    """The 0.6B keeps 112 KiB of a token: 3.5 GiB of 32,768, for weights of 639 MiB."""
    asked = replace(wanted("8b", "0.6b"), context=32_768)
    sizes = {}
    for window in (2048, 32_768):
        drafting = replace(asked.drafting, draft=DraftOptions(window))
        sizes[window] = plan(replace(asked, drafting=drafting), cpu(64 * GB).instead(12 * GB))
    assert sizes[2048].for_draft == 639 * MB + 224 * MB
    assert sizes[2048].options.context == 32_768
    assert sizes[32_768].options.context < 32_768


def test_another_gpu_for_drafts_is_no_gpu_for_the_target():
    machine = Machine.of(
        Device("host memory", "cpu", 64 * GB, 60 * GB),
        [Device(f"GPU {at}", "gpu", 24 * GB, 24 * GB) for at in range(2)],
    ).drafting_on("1")
    fitted = plan(wanted("8b", "0.6b"), machine)
    assert pools(fitted) == {"GPU 1"}
    assert fitted.drafting.split == (0, 1)
