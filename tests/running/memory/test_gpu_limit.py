"""The limit of what an Apple GPU takes of memory, and the command that raises it."""

from __future__ import annotations

import pytest

from localspec.base.errors import DoesNotFit
from localspec.base.system import chips
from localspec.interfaces.backend import Device, Needs, Options
from localspec.running.memory.machine import Machine
from localspec.running.memory.plan import plan
from localspec.running.memory.plan_request import PlanRequest
from tests.machines import GB


def mac(total: float, free: float, gpu: float) -> Machine:
    """A Mac by the GiB that it has, that are free, and that its GPU may take."""
    host = Device("host memory", "cpu", int(total * GB), int(free * GB))
    chip = Device("Apple M2", "integrated gpu", int(gpu * GB), int(gpu * GB), limit=chips.LIMIT)
    return Machine.of(host, [chip])


def advice(machine: Machine, short: float) -> str:
    return machine.host.advice(int(short * GB))


def test_a_limit_is_raised_by_what_is_short_and_the_share_that_stays_free():
    sentence = "the GPU may take more of the memory after: sudo sysctl iogpu.wired_limit_mb="
    assert advice(mac(64, 60, 48), 4) == f"{sentence}{52 * 1024 + 512}"
    assert advice(mac(16, 13, 10.5), 1) == f"{sentence}{11 * 1024 + 768}"


def test_a_limit_that_is_no_hindrance_or_cannot_be_raised_is_not_named():
    assert advice(mac(64, 40, 48), 4) == ""  # other programs hold the memory
    assert advice(mac(64, 50, 48), 4) == ""  # of which less is free than is short
    assert advice(mac(64, 64, 48), 13) == ""  # the system would have too little
    assert advice(mac(8, 7.5, 5.3), 0.5) == ""
    assert advice(mac(64, 60, 48).within(8 * GB), 1) == ""
    host = Device("host memory", "cpu", 64 * GB, 60 * GB)
    other = Device("Radeon", "integrated gpu", 32 * GB, 32 * GB)
    assert Machine.of(host, [other]).host.advice(GB) == ""


def needs(options: Options) -> Needs:
    bits = 0.5 if options.kv_type == "q8_0" else 1
    return Needs(42 * GB, int(((options.context or 0) << 17) * bits), GB)


def test_what_a_raised_limit_would_have_spared_is_told_with_the_concession():
    tight = plan(PlanRequest(needs, Options(), 32_768), mac(64, 60, 48))
    [concession] = tight.concessions
    assert concession.what.startswith("a context of")
    assert concession.why.endswith("wired_limit_mb=51200")
    raised = mac(64, 60, 51_200 / 1024)
    assert plan(PlanRequest(needs, Options(), 32_768), raised).concessions == ()


def test_a_refusal_names_the_command_beside_what_would_fit():
    request = PlanRequest(needs, Options(context=40_960), 32_768)
    with pytest.raises(DoesNotFit, match=r"--context 17152 it would fit; .*limit_mb=\d+$"):
        plan(request, mac(64, 60, 48))
    with pytest.raises(DoesNotFit) as failure:
        plan(request, mac(64, 48, 48))
    assert "sysctl" not in str(failure.value)
