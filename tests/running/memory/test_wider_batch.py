"""Longer pieces of prompts, by the model and by what memory is left."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from localspec.interfaces.backend import Device, Needs, Options
from localspec.interfaces.footprint import Footprint
from localspec.running.memory.machine import Machine
from localspec.running.memory.plan import plan
from localspec.running.memory.plan_request import PlanRequest
from localspec.running.memory.planner import Limits, open_batches, plan_pair
from localspec.running.memory.wider_batch import worthy_batch
from localspec.running.models.locate import ModelFiles
from localspec.running.models.trial import examine
from tests import engines
from tests.machines import GB, MB

WIDE = (2048, 1024)
CONTEXT, LIMITS = 32_768, Limits()


def machine(memory: int) -> Machine:
    return Machine.of(Device("host", "cpu", memory, memory), ()).within(memory)


def needs(options: Options) -> Needs:
    """8 GiB of weights, and for each token of a piece some scores and other numbers."""
    context = options.context or CONTEXT
    return Needs(8 * GB, context * 65_536, options.batch * (context * 16 + 400_000))


def batch(memory: int, worthy: int = 0, context: int = CONTEXT, **options) -> int:
    wishes = Options(context=context, **options)
    request = PlanRequest(needs, wishes, context, wide_batches=WIDE, worthy_batch=worthy)
    return plan(request, machine(memory)).options.batch


def total(tokens: int, context: int = CONTEXT) -> int:
    return needs(Options(context=context, batch=tokens)).total


def test_a_mixture_takes_all_the_room_that_there_is():
    assert batch(total(2048), worthy=2048) == 2048
    assert batch(total(2048) - MB, worthy=2048) == 1024
    assert batch(total(1024) - MB, worthy=2048) == 512


def test_a_dense_model_takes_a_quarter_of_what_is_left():
    for tokens in WIDE:
        enough = total(512) + 4 * (total(tokens) - total(512)) + MB
        assert batch(enough) == tokens
        assert batch(enough - 2 * MB) < tokens


def test_pieces_get_shorter_as_the_context_grows():
    memory = total(512) + 4 * GB
    assert [batch(memory, context=tokens) for tokens in (8192, 32_768, 65_536)] == [2048, 1024, 512]


def test_nothing_is_conceded_for_a_longer_piece():
    request = PlanRequest(needs, Options(), CONTEXT, wide_batches=WIDE, worthy_batch=2048)
    tight = plan(request, machine(total(512)))
    assert (tight.options.batch, tight.options.context, tight.concessions) == (512, CONTEXT, ())


FOOTPRINT = Footprint(
    Path("m"), "a", "m", "", *(0, 0, 2, 2, 1, 64, 99, 99), tokenizer="bpe", chat_template=None
)


def test_mixtures_and_heads_with_a_late_kernel_deserve_all_room():
    older, newest = ([Device(f"Apple {chip}", "integrated gpu", GB, GB)] for chip in ("M4", "M5"))
    assert worthy_batch(FOOTPRINT, WIDE, newest) == 0
    assert worthy_batch(replace(FOOTPRINT, experts=128), WIDE, older) == 2048
    assert worthy_batch(replace(FOOTPRINT, experts=128), (), older) == 0
    assert worthy_batch(replace(FOOTPRINT, head_width=256), WIDE, newest) == 1024
    assert worthy_batch(replace(FOOTPRINT, head_width=256), WIDE, older) == 0


@pytest.fixture
def _own_cache(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))


@pytest.mark.usefixtures("_own_cache")
def test_a_plan_for_a_gpu_takes_longer_pieces_unless_a_length_was_chosen():
    pytest.importorskip("mlx.core")
    processor = engines.MLX_ENGINE.installed()
    card = replace(processor, devices=[Device("Apple M4", "integrated gpu", 16 * GB, 12 * GB)])
    folder = engines.tiny_folder("qwen3_moe")

    def planned(at, limits=LIMITS, **options):
        with examine(ModelFiles(engines.MLX_ENGINE, folder), engine=at) as looked:
            wishes = Options(context=4096, **options)
            return plan_pair(looked, None, wishes, limits, insists=False).options.batch

    assert planned(card) == 2048
    assert planned(processor) == 512
    assert planned(card, Limits(widens=False)) == 512
    assert planned(card, batch=32) == 32
    with examine(ModelFiles(engines.GGUF_ENGINE, engines.tiny("llama")), engine=card) as looked:
        assert open_batches(looked, Options(), LIMITS) == ()
