"""Plans over devices of this machine and of workers."""

from __future__ import annotations

import pytest

from localspec.running.memory.plan import plan
from tests.machines import GB, home, wanted


def layers(found, *names: str) -> list[int]:
    """Return the bytes of weights in these pools, in GB."""
    return [
        round(sum(i.bytes for i in found.items if (i.pool, i.what) == (name, "weights")) / GB)
        for name in names
    ]


def of_draft(found) -> set[str]:
    return {item.pool for item in found.items if item.what == "draft model"}


def test_a_model_that_fits_here_goes_to_no_worker():
    planned = plan(wanted("14b"), home(64 * GB, 24 * GB, workers=(80 * GB,)))
    assert planned.options.split == (0, 41)
    assert {pool.name for pool in planned.pools} == {"GPU 0", "host memory"}


def test_what_does_not_fit_here_goes_to_as_few_workers_as_hold_it():
    machine = home(64 * GB, 24 * GB, workers=(8 * GB, 48 * GB, 24 * GB))
    planned = plan(wanted("70b"), machine)
    assert layers(planned, "box:0", "box:1", "box:2")[::2] == [0, 0]
    assert planned.taken(machine.gpus[3]) > 0.9 * machine.gpus[3].available
    assert all(planned.taken(pool) <= pool.available for pool in machine.gpus)
    assert planned.options.gpu_layers is None


def test_without_a_gpu_here_a_worker_that_holds_all_takes_all():
    planned = plan(wanted("14b"), home(16 * GB, workers=(16 * GB, 24 * GB)))
    assert planned.options.split == (0, 41)


@pytest.mark.parametrize(
    ("gpus", "kind", "place"),
    [((), "gpu", "host memory"), ((24 * GB,), "gpu", "GPU 0")],
)
def test_a_draft_model_stays_here(gpus, kind, place):
    machine = home(64 * GB, *gpus, workers=(48 * GB,), kind=kind)
    assert of_draft(plan(wanted("70b", "1b"), machine)) == {place}


def test_a_draft_model_goes_to_a_worker_that_was_named_as_the_main_gpu():
    machine = home(64 * GB, 24 * GB, workers=(48 * GB,)).led_by(0)
    assert of_draft(plan(wanted("14b", "0.6b"), machine)) == {"box:0"}


def test_a_gpu_that_was_not_chosen_takes_no_draft_model():
    machine = home(64 * GB, 24 * GB, workers=(48 * GB,)).only(0)
    assert machine.home is None


def test_an_integrated_gpu_takes_layers_beside_a_worker():
    machine = home(36 * GB, 24 * GB, workers=(24 * GB,), kind="integrated gpu")
    assert [pool.name for pool in machine.gpus] == ["box:0", "GPU 0"]
    assert machine.home == 1
    planned = plan(wanted("70b"), machine.instead(60 * GB))
    assert min(layers(planned, "box:0", "GPU 0")) > 10
