"""The first minute of eight Macs that nobody here has: room, proposal, pieces of prompts, advice.

Their devices are simulated: what MLX and psutil would say of them. Half to nine tenths of the
memory is free, of which a GPU may take two thirds, or three quarters from 36 GB on.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

pytest.importorskip("mlx_lm")

from localspec.apps.chat.choice import MachineFigures, best_to_pull
from localspec.base.errors import DoesNotFit
from localspec.base.system import chips, free_memory
from localspec.interfaces.backend import Device, Footprint, Needs, Options
from localspec.running.memory.machine import Machine, size
from localspec.running.memory.plan import Plan, plan
from localspec.running.memory.plan_request import PlanRequest
from localspec.running.memory.planner import Limits, current_machine
from localspec.running.memory.wider_batch import worthy_batch
from localspec.running.models import catalogue
from localspec.running.models.catalogue import choose, entries
from localspec.running.models.engines import Engine
from localspec.running.runtime.loading import Loading
from localspec_llamacpp import backend as llamacpp
from localspec_mlx import backend as mlx
from localspec_mlx.rehearsal import MlxRehearsal
from localspec_mlx.spec import SPEC
from localspec_mlx.working import score_bytes, scores_here
from tests.engines import GGUF_ENGINE

GB = 1 << 30
CONTEXTS = 8192, 32_768, 65_536
PREFERRED = Engine("mlx", replace(SPEC, preference=1))  # as on Apple silicon


class Mac(NamedTuple):
    chip: str
    memory: int  # GiB
    free: float
    gpu: float  # that it may take


MACS = {
    "M1 Air": Mac("Apple M1", 8, 2.8, 5.33),
    "M2": Mac("Apple M2", 16, 9, 10.67),
    "M2 Pro": Mac("Apple M2 Pro", 16, 9, 10.67),
    "M4": Mac("Apple M4", 24, 16, 16),
    "M3 Max": Mac("Apple M3 Max", 36, 28, 27),
    "M4 Max": Mac("Apple M4 Max", 64, 54, 48),
    "M5 Max": Mac("Apple M5 Max", 128, 114, 96),
    "M3 Ultra": Mac("Apple M3 Ultra", 512, 480, 384),
}
# The name, and the tokens a second that are told with it.
PROPOSED = {
    "M1 Air": ("llama-3.2-3b", 27),
    "M2": ("llama-3.1-8b", 17),
    "M2 Pro": ("gemma-4-e4b", 27),
    "M4": ("gemma-4-e4b", 17),
    "M3 Max": ("qwen3.6-35b-a3b", 89),
    "M4 Max": ("qwen3.6-35b-a3b", 125),
    "M5 Max": ("qwen3.6-35b-a3b", 132),
    "M3 Ultra": ("qwen3.6-35b-a3b", 150),
}
# By the model's size: the context and the piece of a prompt; in words what comes instead.
PLANNED: dict[str, dict[str, tuple[int, int] | str]] = {
    "M1 Air": {"4b": "515 MiB more than there is", "8b": "close other programs"},
    "M2": {"4b": (32_768, 2048), "8b": (28_416, 512), "27b": "6.9 GiB more"},
    "M2 Pro": {"4b": (32_768, 2048), "8b": (28_416, 512), "30b-a3b": "8.2 GiB more"},
    "M4": {"8b": (32_768, 2048), "27b": "197 MiB more", "30b-a3b": "1.5 GiB more"},
    "M3 Max": {"30b-a3b": (32_768, 2048), "27b": (32_768, 1024), "70b": "13 GiB more"},
    "M4 Max": {"30b-a3b": (32_768, 2048), "27b": (32_768, 2048), "70b": (25_600, 512)},
    "M5 Max": {"27b": (32_768, 2048), "70b": (32_768, 2048)},
    "M3 Ultra": {"27b": (32_768, 2048), "70b": (32_768, 2048)},
}


def host(mac: Mac) -> Device:
    return Device("host memory", "cpu", mac.memory * GB, int(mac.free * GB))


def gpu(mac: Mac) -> Device:
    most = int(mac.gpu * GB)
    return Device(mac.chip, "integrated gpu", most, most, limit=chips.LIMIT)


@pytest.fixture(params=MACS, name="name")
def _simulated(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Let the engines and the system tell of a Mac; return its name."""
    name: str = request.param
    mac = MACS[name]
    monkeypatch.setattr(free_memory, "memory", lambda: host(mac))
    for engine in (mlx, llamacpp):
        monkeypatch.setattr(engine, "probe", lambda: [gpu(mac)])
    monkeypatch.setattr(catalogue, "candidates", lambda _: (PREFERRED, GGUF_ENGINE))
    return name


def test_chat_proposes_what_runs_on_the_preferred_engine(name: str) -> None:
    proposed = best_to_pull(Loading(), MachineFigures(Loading()))
    assert proposed
    assert proposed.name == PROPOSED[name][0]
    assert f"about {PROPOSED[name][1]} tokens/s" in proposed.about
    assert choose(entries()[proposed.name], "auto").name == "mlx"


def model(weights: float, layers: int, heads: int, kv: int, width: int, **more: int) -> Footprint:
    """Describe a model by gigabytes of weights, layers, heads, those of keys, and numbers."""
    sizes = (0, int(weights * 1e9), layers, heads, kv, width, 151_936, 40_960)
    named = Footprint(Path("model"), "any", "any", "4-bit", *sizes, "bpe", None)
    attention = more.pop("attention_layers", layers)
    head = more.pop("head_width", 128)
    token = attention * kv * head * 2 * 2
    return replace(
        named, attention_layers=attention, head_width=head, kv_bytes_per_token=token, **more
    )


MODELS = {
    "4b": model(2.3, 36, 32, 8, 2560),
    "8b": model(4.6, 36, 32, 8, 4096),
    "30b-a3b": model(17.2, 48, 32, 4, 2048, experts=128),
    "27b": model(15, 64, 24, 4, 5120, attention_layers=16, head_width=256, state_bytes=150 << 20),
    "70b": model(39.7, 80, 64, 8, 8192),
}


def planned(f: Footprint, mac: Mac, **wishes: int) -> Plan:
    """Plan for a model on a Mac as if its GPU were here."""

    def needs_on_gpu(options: Options) -> Needs:
        needs, context = MlxRehearsal(f).needs(options), options.context or 0
        scores = score_bytes(f, options, context, matrix_units=mac.chip.startswith("Apple M5"))
        return replace(needs, working=needs.working - scores_here(f, options, context) + scores)

    batches = SPEC.wide_batches
    worthy = worthy_batch(f, batches, [gpu(mac)])
    request = PlanRequest(
        needs_on_gpu, Options(**wishes), 32_768, wide_batches=batches, worthy_batch=worthy
    )
    return plan(request, current_machine(PREFERRED, Limits()))


def test_the_page_for_macs_shows_what_is_proposed() -> None:
    page = (Path(__file__).parents[3] / "docs" / "platforms" / "macos.md").read_text("utf-8")
    rows = re.findall(r"^\| (M\d[\w ]*), (\d+) GB \| ([\d.]+ GiB) \| (\S+) \|$", page, re.M)
    spaces = [size(Machine.of(host(mac), [gpu(mac)]).available) for mac in MACS.values()]
    assert rows == [
        (mac.chip.removeprefix("Apple "), str(mac.memory), space, PROPOSED[name][0])
        for (name, mac), space in zip(MACS.items(), spaces, strict=True)
    ]


CASES = [(name, size) for name, sizes in PLANNED.items() for size in sizes]


@pytest.mark.parametrize(("name", "size"), CASES, indirect=["name"])
def test_a_plan_fills_a_mac_or_says_what_is_short(name: str, size: str) -> None:
    expected = PLANNED[name][size]
    if isinstance(expected, str):
        with pytest.raises(DoesNotFit, match=expected):
            planned(MODELS[size], MACS[name])
    else:
        options = planned(MODELS[size], MACS[name]).options
        assert (options.context, options.batch, options.kv_type) == (*expected, "auto")


@pytest.mark.parametrize("name", ["M4 Max"], indirect=True)
def test_where_the_limit_of_the_gpu_costs_a_context_the_command_is_named(name: str) -> None:
    [concession] = planned(MODELS["70b"], MACS[name]).concessions
    assert concession.why.endswith("sudo sysctl iogpu.wired_limit_mb=51712")


@pytest.mark.parametrize("name", ["M3 Max"], indirect=True)
def test_long_contexts_of_wide_heads_get_shorter_pieces_as_scores_are_written(name: str) -> None:
    pieces = [planned(MODELS["27b"], MACS[name], context=n).options.batch for n in CONTEXTS]
    assert pieces == [2048, 1024, 512]
    fused = replace(MODELS["27b"], head_width=128)
    assert planned(fused, MACS[name], context=CONTEXTS[-1]).options.batch == 2048
