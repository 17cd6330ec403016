"""Plans: what is conceded in which order, what is refused, and what never happens."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from localspec.base.errors import DoesNotFit, UsageError
from localspec.interfaces.backend import Device, Needs, Options
from localspec.running.memory.concessions import TEXT_ONLY
from localspec.running.memory.machine import Machine
from localspec.running.memory.plan import plan
from localspec.running.memory.plan_request import PlanRequest
from tests.machines import GB, MACHINES, MB, MODELS, PROJECTOR, cpu, mac, pc, wanted


def summary(asked: PlanRequest, machine: Machine) -> str:
    """Describe in one line how a pair would be loaded."""
    try:
        planned = plan(asked, machine)
    except DoesNotFit:
        return "no"
    parts = [f"{planned.options.context}", planned.options.kv_type]
    if planned.options.cpu_moe:
        parts.append(f"experts of {planned.options.cpu_moe} on the host")
    if planned.options.gpu_layers is not None:
        parts.append(f"{planned.options.gpu_layers} layers")
    if planned.drafting:
        parts.append(f"draft {planned.drafting.kv_type}")
    if planned.options.split:
        parts.append("split " + ":".join(f"{share:.0f}" for share in planned.options.split))
    return ", ".join(parts)


# Machine, target, draft: context, keys and values, layers on GPUs, draft model, shares of GPUs.
TABLE = [
    ("8 GB laptop", "4b", "0.6b", "8192, auto, draft auto"),
    ("8 GB laptop", "8b", "0.6b", "6400, q8_0"),
    ("8 GB laptop", "14b", "0.6b", "no"),
    ("8 GB laptop", "32b", "0.6b", "no"),
    ("8 GB laptop", "hybrid-9b", None, "no"),
    ("16 GB laptop", "4b", "0.6b", "8192, auto, draft auto"),
    ("16 GB laptop", "8b", "0.6b", "8192, auto, draft auto"),
    ("16 GB laptop", "14b", "0.6b", "8192, auto, draft auto"),
    ("16 GB laptop", "32b", "0.6b", "no"),
    ("16 GB laptop", "hybrid-9b", None, "8192, auto"),
    ("32 GB box", "4b", "0.6b", "8192, auto, draft auto"),
    ("32 GB box", "8b", "0.6b", "8192, auto, draft auto"),
    ("32 GB box", "14b", "0.6b", "8192, auto, draft auto"),
    ("32 GB box", "32b", "0.6b", "8192, auto, draft auto"),
    ("32 GB box", "moe-35b", None, "8192, auto"),
    ("32 GB box", "70b", "1b", "no"),
    ("64 GB box", "4b", "0.6b", "8192, auto, draft auto"),
    ("64 GB box", "8b", "0.6b", "8192, auto, draft auto"),
    ("64 GB box", "14b", "0.6b", "8192, auto, draft auto"),
    ("64 GB box", "32b", "0.6b", "8192, auto, draft auto"),
    ("64 GB box", "moe-35b", None, "8192, auto"),
    ("64 GB box", "70b", "1b", "8192, auto, draft auto"),
    ("8 GB Mac", "4b", "0.6b", "8192, q8_0"),
    ("8 GB Mac", "8b", "0.6b", "no"),
    ("8 GB Mac", "14b", "0.6b", "no"),
    ("8 GB Mac", "32b", "0.6b", "no"),
    ("8 GB Mac", "moe-35b", None, "no"),
    ("8 GB Mac", "70b", "1b", "no"),
    ("8 GB Mac", "hybrid-9b", None, "no"),
    ("18 GB Mac", "4b", "0.6b", "8192, auto, draft auto"),
    ("18 GB Mac", "8b", "0.6b", "8192, auto, draft auto"),
    ("18 GB Mac", "14b", "0.6b", "8192, auto, draft auto"),
    ("18 GB Mac", "32b", "0.6b", "no"),
    ("18 GB Mac", "moe-35b", None, "no"),
    ("18 GB Mac", "70b", "1b", "no"),
    ("36 GB Mac", "4b", "0.6b", "8192, auto, draft auto"),
    ("36 GB Mac", "8b", "0.6b", "8192, auto, draft auto"),
    ("36 GB Mac", "14b", "0.6b", "8192, auto, draft auto"),
    ("36 GB Mac", "32b", "0.6b", "8192, auto, draft auto"),
    ("36 GB Mac", "moe-35b", None, "8192, auto"),
    ("36 GB Mac", "70b", "1b", "no"),
    ("64 GB Mac", "4b", "0.6b", "8192, auto, draft auto"),
    ("64 GB Mac", "8b", "0.6b", "8192, auto, draft auto"),
    ("64 GB Mac", "14b", "0.6b", "8192, auto, draft auto"),
    ("64 GB Mac", "32b", "0.6b", "8192, auto, draft auto"),
    ("64 GB Mac", "moe-35b", None, "8192, auto"),
    ("64 GB Mac", "70b", "1b", "8192, auto"),
    ("8 GB card", "4b", "0.6b", "8192, auto, draft auto"),
    ("8 GB card", "8b", "0.6b", "8192, auto, draft auto"),
    ("8 GB card", "14b", "0.6b", "4096, q8_0, 33 layers"),
    ("8 GB card", "32b", "0.6b", "no"),
    ("8 GB card", "moe-35b", None, "no"),
    ("8 GB card", "70b", "1b", "no"),
    ("8 GB card", "hybrid-9b", None, "8192, auto"),
    ("12 GB card", "4b", "0.6b", "8192, auto, draft auto"),
    ("12 GB card", "8b", "0.6b", "8192, auto, draft auto"),
    ("12 GB card", "14b", "0.6b", "8192, auto, draft auto"),
    ("12 GB card", "32b", "0.6b", "4096, q8_0, 36 layers"),
    ("12 GB card", "moe-35b", None, "4096, q8_0, experts of 22 on the host"),
    ("12 GB card", "70b", "1b", "no"),
    ("24 GB card", "4b", "0.6b", "8192, auto, draft auto"),
    ("24 GB card", "8b", "0.6b", "8192, auto, draft auto"),
    ("24 GB card", "14b", "0.6b", "8192, auto, draft auto"),
    ("24 GB card", "32b", "0.6b", "8192, auto, draft auto"),
    ("24 GB card", "moe-35b", None, "8192, auto"),
    ("24 GB card", "70b", "1b", "4096, q8_0, 42 layers"),
    ("two 24 GB cards", "4b", "0.6b", "8192, auto, draft auto, split 0:37"),
    ("two 24 GB cards", "8b", "0.6b", "8192, auto, draft auto, split 0:37"),
    ("two 24 GB cards", "14b", "0.6b", "8192, auto, draft auto, split 0:41"),
    ("two 24 GB cards", "32b", "0.6b", "8192, auto, draft auto, split 0:65"),
    ("two 24 GB cards", "moe-35b", None, "8192, auto, split 41:0"),
    ("two 24 GB cards", "70b", "1b", "8192, q8_0, split 41:40"),
    ("24 and 8 GB cards", "4b", "0.6b", "8192, auto, draft auto, split 37:0"),
    ("24 and 8 GB cards", "8b", "0.6b", "8192, auto, draft auto, split 37:0"),
    ("24 and 8 GB cards", "14b", "0.6b", "8192, auto, draft auto, split 41:0"),
    ("24 and 8 GB cards", "32b", "0.6b", "8192, auto, draft auto, split 65:0"),
    ("24 and 8 GB cards", "moe-35b", None, "8192, auto, split 41:0"),
    ("24 and 8 GB cards", "70b", "1b", "4096, q8_0, 55 layers, split 42:13"),
]


@pytest.mark.parametrize(("machine", "target", "draft", "expected"), TABLE)
def test_what_fits_where(machine, target, draft, expected):
    assert summary(wanted(target, draft), MACHINES[machine]) == expected


def conceded(asked: PlanRequest, machine: Machine) -> list[str]:
    return [concession.what for concession in plan(asked, machine).concessions]


# Together the pair takes 7.09 GiB, 6.14 with the first concession, then 5.61.
ORDER = [
    (8 * GB, []),
    (6.5 * GB, ["no draft model: prompt lookup drafts instead"]),
    (6.0 * GB, ["no draft model: prompt lookup drafts instead",
                "KV cache in 8 bits"]),
    (5.55 * GB, ["no draft model: prompt lookup drafts instead",
                 "KV cache in 8 bits",
                 "a context of 7,168 tokens in place of 8,192"]),
]  # fmt: skip


@pytest.mark.parametrize(("budget", "expected"), ORDER)
def test_concessions_come_in_their_order(budget, expected):
    machine = cpu(64 * GB).instead(int(budget))
    assert conceded(wanted("8b", "0.6b"), machine) == expected


def test_a_context_stays_conceded_when_the_draft_model_goes():
    asked = replace(wanted("8b", "0.6b"), context=32768)
    assert conceded(asked, cpu(64 * GB).instead(8 * GB)) == [
        "a context of 16,384 tokens in place of 32,768",
        "no draft model: prompt lookup drafts instead",
    ]


def test_each_concession_tells_what_was_too_much():
    planned = plan(wanted("8b", "0.6b"), cpu(64 * GB).instead(int(5.55 * GB)))
    assert [concession.why for concession in planned.concessions] == [
        "1.5 GiB too much for host memory",
        "605 MiB too much for host memory",
        "65 MiB too much for host memory",
    ]


def test_layers_are_the_last_to_go():
    planned = plan(wanted("14b", "0.6b"), MACHINES["8 GB card"])
    assert planned.concessions[-1].what == "33 of 41 layers on GPUs"
    assert planned.options.context == 4096
    on_host = {item.what: item.bytes for item in planned.items if item.pool == "host memory"}
    assert on_host["weights"] > 7 * (9_000 - 420) * MB // 40


@pytest.mark.parametrize(
    "wish",
    [
        {"context": 8192},
        {"kv_type": "f16"},
        {"context": 6000, "kv_type": "q4_0"},
        {"gpu_layers": 20},
    ],
)
@pytest.mark.parametrize("room", [2.0, 5.0, 5.5, 6.0, 7.0, 7.5, 9.0])
def test_wishes_are_never_conceded(wish, room):
    for machine in (cpu(64 * GB).instead(int(room * GB)), pc(64 * GB, int(room * GB))):
        try:
            planned = plan(wanted("8b", "0.6b", **wish), machine)
        except DoesNotFit:
            continue
        for name, value in wish.items():
            assert getattr(planned.options, name) == value
            assert planned.drafting is None or getattr(planned.drafting, name) == value


def test_a_draft_model_that_was_insisted_on_is_used_or_nothing_is():
    machine = cpu(64 * GB).instead(int(6.3 * GB))
    planned = plan(wanted("8b", "0.6b", insists=True), machine)
    assert planned.drafting
    assert planned.options.context < 8192
    with pytest.raises(DoesNotFit, match="with no draft model it would fit"):
        plan(wanted("8b", "0.6b", insists=True), machine.instead(int(5.6 * GB)))


def seeing(target: str, draft: str | None = None, **options) -> PlanRequest:
    """Ask for a model with a projector beside it."""
    return replace(wanted(target, draft, **options), projector=Path("mmproj.gguf"))


def test_a_projector_that_lies_beside_a_model_is_loaded_where_there_is_room():
    planned = plan(seeing("8b"), MACHINES["16 GB laptop"])
    assert planned.options.projector == Path("mmproj.gguf")
    assert [item.bytes for item in planned.items if item.what == "projector"] == [PROJECTOR]
    assert not planned.concessions


def test_a_model_reads_text_only_rather_than_not_being_loaded():
    machine = cpu(64 * GB).instead(5750 * MB)
    planned = plan(seeing("8b", "0.6b"), machine)
    assert planned.options.projector is None
    assert [concession.what for concession in planned.concessions][-1] == TEXT_ONLY
    assert planned.taken(machine.host) <= machine.host.available
    request = wanted("8b", projector=Path("mmproj.gguf"))
    with pytest.raises(DoesNotFit, match="with --no-mmproj it would fit"):
        plan(request, machine)


def test_a_draft_model_goes_before_a_projector_does():
    planned = plan(seeing("8b", "0.6b"), cpu(64 * GB).instead(6500 * MB))
    assert (planned.drafting, planned.options.projector) == (None, Path("mmproj.gguf"))


def test_a_projector_lies_on_the_first_gpu_with_layers_if_there_is_room():
    machine = pc(64 * GB, 24 * GB, 24 * GB)
    for request in (seeing("70b"), seeing("8b")):
        planned = plan(request, machine)
        at = next(item.pool for item in planned.items if item.what == "projector")
        layers = [item.pool for item in planned.items if item.what == "weights" and item.bytes]
        assert at == next(pool for pool in layers if pool.startswith("GPU"))
        assert all(planned.taken(pool) <= pool.available for pool in planned.pools)


def test_a_projector_makes_room_on_a_gpu_before_layers_do():
    machine = pc(64 * GB, 6 * GB)
    planned = plan(seeing("8b"), machine)
    assert planned.options.projector_on_host
    assert planned.options.gpu_layers is None
    pools = [item.pool for item in planned.items if item.what == "projector"]
    assert pools == ["host memory"]
    assert "the projector in host memory" in [concession.what for concession in planned.concessions]


def test_what_cannot_be_quantised_gives_up_context_instead():
    machine = cpu(64 * GB).instead(5700 * MB)
    planned = plan(wanted("hybrid-9b"), machine)
    assert planned.options.kv_type == "auto"
    assert 4096 <= planned.options.context < 8192


def test_a_refusal_names_what_is_missing_and_what_would_fit():
    machine = cpu(64 * GB).instead(6 * GB)
    with pytest.raises(DoesNotFit) as refused:
        plan(wanted("8b", context=32_768, slots=2), machine)
    assert str(refused.value) == (
        "this takes 3.8 GiB more than the budget leaves for it in host memory; "
        "with --context 6656 it would fit"
    )


def test_where_nothing_would_do_the_least_is_named():
    least = r"at the least 20 GiB of 5\.5 GiB; choose a smaller model .* close other programs$"
    with pytest.raises(DoesNotFit, match=least):
        plan(wanted("32b", "0.6b"), MACHINES["8 GB laptop"])


def test_who_set_a_budget_is_not_told_to_close_other_programs():
    for machine in (cpu(64 * GB).within(GB), cpu(64 * GB).instead(GB)):
        with pytest.raises(DoesNotFit, match=r"of 1\.0 GiB; .*, or give a larger budget$"):
            plan(wanted("32b"), machine)
    with pytest.raises(DoesNotFit, match=r"or close other programs$"):
        plan(wanted("32b"), cpu(8 * GB).within(64 * GB))


@pytest.mark.parametrize(
    ("asked", "room"),
    [
        (wanted("8b", context=32_768), 6.5),
        (wanted("8b", kv_type="f16", context=8192), 6.0),
        (wanted("8b", slots=4, context=8192), 6.5),
        (wanted("8b", "0.6b", insists=True, context=8192), 6.3),
    ],
)
def test_what_a_refusal_names_does_fit(asked, room):
    machine = cpu(64 * GB).instead(int(room * GB))
    with pytest.raises(DoesNotFit) as refused:
        plan(asked, machine)
    named = str(refused.value).partition("; with ")[2].removesuffix(" it would fit")
    assert named
    for wish in named.split(" or "):
        assert plan(heeded(asked, wish), machine)


def heeded(asked: PlanRequest, wish: str) -> PlanRequest:
    """Apply the options that a refusal names."""
    if wish == "no draft model":
        return replace(asked, draft=None, insists=False)
    if wish == "one slot":
        return replace(asked, options=replace(asked.options, slots=1))
    option, value = wish.split()
    name = option.removeprefix("--").replace("-", "_")
    wished = {name: int(value) if value.isdecimal() else value}
    return replace(asked, options=replace(asked.options, **wished))


rooms = st.integers(200 * MB, 80 * GB)
pairs = st.sampled_from([(t, d) for t in MODELS for d in (None, "0.6b", "1b")])
asks = st.fixed_dictionaries(
    {},
    optional={
        "context": st.integers(256, 65_536),
        "kv_type": st.sampled_from(["f16", "q8_0", "q4_0"]),
        "slots": st.integers(1, 16),
        "tentative": st.integers(0, 16),
        "gpu_layers": st.integers(0, 90),
    },
)
cards = st.lists(st.integers(1 * GB, 48 * GB), max_size=3)


def found_or_none(asked, machine):
    try:
        return plan(asked, machine)
    except (DoesNotFit, UsageError):
        return None


@given(pairs, asks, rooms, cards, st.booleans())
def test_a_plan_never_takes_more_than_there_is(pair, wish, room, gpus, insists):
    machine = pc(room + 3 * GB, *gpus)
    fitting = found_or_none(wanted(*pair, insists=insists and pair[1] is not None, **wish), machine)
    for pool in fitting.pools if fitting else ():
        assert fitting.taken(pool) <= pool.available


def worth(found) -> tuple:
    """Larger is better: what was conceded last counts most."""
    if found is None:
        return (-1,)
    layers = found.options.gpu_layers
    return (
        layers if layers is not None else 1000,
        found.options.context,
        found.options.kv_type != "q8_0",
        found.drafting is not None,
        found.drafting is not None and found.drafting.kv_type == "auto",
    )


@given(pairs, asks, rooms, st.integers(0, 8 * GB))
def test_more_memory_never_gives_a_worse_plan(pair, wish, room, more):
    for place in (cpu, mac):
        machines = (place(room + 5 * GB + extra) for extra in (0, more))
        less, greater = (found_or_none(wanted(*pair, **wish), machine) for machine in machines)
        assert worth(greater) >= worth(less)


@given(pairs, st.integers(2 * GB, 40 * GB), st.integers(0, 8 * GB))
def test_a_larger_card_never_gives_a_worse_plan(pair, card, more):
    less, greater = (
        found_or_none(wanted(*pair), pc(256 * GB, card + extra)) for extra in (0, more)
    )
    assert worth(greater) >= worth(less)


def test_two_cards_of_one_kind_are_told_apart():
    card = Device("RTX", "gpu", 24 * GB, 24 * GB)
    machine = Machine.of(Device("host memory", "cpu", 64 * GB, 60 * GB), [card, card])
    planned = plan(wanted("32b", "0.6b"), machine)
    assert [pool.name for pool in machine.gpus] == ["RTX #0", "RTX #1"]
    assert all(planned.taken(pool) <= pool.available for pool in machine.gpus)


def test_a_budget_counts_for_the_cards_together():
    machine = pc(64 * GB, 24 * GB, 8 * GB).within(8 * GB)
    assert sum(gpu.available for gpu in machine.gpus) == pytest.approx(8 * GB, rel=1e-6)
    assert machine.gpus[0].available > 2 * machine.gpus[1].available
    assert machine.host.available > 50 * GB


def test_what_is_left_of_a_large_card_takes_a_part_of_a_model():
    """6% of it were 8 GiB, which kept every layer on the host."""
    card = Device("H200", "gpu", 140 * GB, 6 * GB)
    machine = Machine.of(Device("host memory", "cpu", 126 * GB, 100 * GB), [card])
    layers = plan(wanted("14b"), machine).options.gpu_layers
    assert layers is not None
    assert 10 < layers < 41


def test_a_budget_takes_the_place_of_the_reserve():
    assert cpu(8 * GB).within(6 * GB).host.available == 6 * GB
    assert cpu(8 * GB).within(16 * GB).host.available == 6 * GB  # no more than is free


def test_only_one_card_is_used_where_one_is_chosen():
    machine = MACHINES["two 24 GB cards"].only(1)
    planned = plan(wanted("14b", "0.6b"), machine)
    assert {item.pool for item in planned.items if item.bytes} == {"GPU 1", "host memory"}
    assert planned.options.split == (0, 41)
    with pytest.raises(UsageError, match=r"no GPU 2; there are: 0 to 1"):
        MACHINES["two 24 GB cards"].only(2)
    with pytest.raises(UsageError, match="no engine sees one here"):
        cpu(8 * GB).only(0)


def test_without_layers_on_a_card_everything_is_on_the_host():
    planned = plan(wanted("8b", "0.6b", gpu_layers=0), MACHINES["8 GB card"])
    assert {item.pool for item in planned.items} == {"host memory"}


@pytest.mark.parametrize("layers", [0, 1, 20, 36, 37])
@pytest.mark.parametrize("name", ["8b", "4b", "14b"])
def test_every_byte_is_somewhere_and_only_once(name, layers):
    asked = wanted(name, gpu_layers=layers)
    planned = plan(asked, MACHINES["24 GB card"])
    needs = asked.target(replace(asked.options, context=8192))
    assert sum_of(planned, "context") == pytest.approx(needs.cache, abs=2)
    copied = needs.output if needs.tied and layers > needs.layers else 0
    assert sum_of(planned, "weights") == pytest.approx(needs.weights + copied, abs=2)
    beside = needs.host if layers else 0
    assert sum_of(planned, "buffers") == needs.working + beside
    on_card = [item for item in planned.items if item.pool == "GPU 0" and item.what == "context"]
    share = min(layers, needs.layers) / needs.layers
    assert sum(item.bytes for item in on_card) == pytest.approx(share * needs.cache, abs=2)


def sum_of(found, what):
    return sum(item.bytes for item in found.items if item.what == what)


def test_a_model_of_short_texts_is_not_given_longer_ones():
    short = replace(wanted("8b"), context=2048)
    assert plan(short, cpu(64 * GB)).options.context == 2048
    with pytest.raises(DoesNotFit, match=r"at the least 5\.2 GiB"):
        plan(short, cpu(64 * GB).instead(5 * GB))


def test_a_refusal_is_about_the_place_that_lacks_most():
    with pytest.raises(DoesNotFit, match=r"1\.1 GiB more than there is for it in host memory"):
        plan(wanted("32b", "0.6b"), MACHINES["8 GB card"])
    narrow = pc(int(3.1 * GB), 6 * GB)
    with pytest.raises(DoesNotFit, match="in GPU 0"):
        plan(wanted("14b", context=65_536, gpu_layers=41), narrow)


PER_TOKEN = 1 << 17


def eight_slots(context: int | None) -> PlanRequest:
    """A model trained for 8,192 tokens, which keeps 128 KiB of each, for eight texts."""

    def needs(options: Options) -> Needs:
        caches = 1 if options.shared else options.slots
        return Needs(4 * GB, caches * (options.context or 0) * PER_TOKEN, 200 * MB)

    options = Options(slots=8, context=context)
    return PlanRequest(needs, options, context=8192, trained=8192)


@pytest.mark.parametrize(
    ("free", "context", "chosen"),
    [
        (32 * GB, None, (False, 8192)),  # 8 GiB in all
        (12 * GB, None, (True, 8192)),
        (32 * GB, 32_768, (False, 8192)),  # as 8 times 32,768 it would be 32 GiB, for nothing
        (12 * GB, 32_768, (True, 32_768)),
        (32 * GB, 2048, (False, 2048)),
    ],
)
def test_a_slot_has_a_cache_of_its_own_as_long_as_a_text_can_be(free, context, chosen):
    planned = plan(eight_slots(context), cpu(free + 2 * GB))
    assert (planned.options.shared, planned.options.context) == chosen


def test_shared_memory_is_the_lesser_of_what_both_sides_say():
    host, chip = Device("host memory", "cpu", 16 * GB, 9 * GB), 11 * GB
    shared = Machine.of(host, [Device("chip", "integrated gpu", chip, chip)]).host
    assert (shared.name, shared.total, shared.free) == ("chip", 11 * GB, 9 * GB)
    large = Machine.of(host, [Device("chip", "integrated gpu", 99 * GB, 99 * GB)]).host
    assert (large.total, large.free) == (16 * GB, 9 * GB)
