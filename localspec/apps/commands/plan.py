"""The command `localspec plan`: a model's memory on this machine, and the concessions for it."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace

import click

from localspec.base.errors import NotPulled
from localspec.base.system.bandwidth import read_bytes_a_second
from localspec.console.options.declare import COUNT, flag, option, options, read
from localspec.console.options.loading import DraftingOptions, LoadingOptions, make_loading
from localspec.console.options.model_names import MODEL, name_or_path
from localspec.console.options.sections import SectionedCommand
from localspec.interfaces.backend import Options
from localspec.interfaces.other_machines import Link
from localspec.running.memory.machine import Pool, size
from localspec.running.memory.placement import DRAFT_HEAD, DRAFT_MODEL, PROJECTOR
from localspec.running.memory.plan import Plan, beyond_training
from localspec.running.memory.planner import current_machine, plan_pair
from localspec.running.models.catalogue import choose, find
from localspec.running.models.engines import all_engines
from localspec.running.models.locate import locate
from localspec.running.pulling.estimate import fitting, rough_plan
from localspec.running.runtime.drafter_choice import pair_files
from localspec.running.runtime.loading import Loading, choose_proposers
from localspec.running.runtime.vector_loading import vector_options

BAR_WIDTH = 60  # characters
MARKS = {"weights": "W", "context": "C", DRAFT_MODEL: "D", DRAFT_HEAD: "H", PROJECTOR: "P"}
MARKS |= {"buffers": "B"}
FREE, RESERVE, OTHERS = ".", "-", "x"


@dataclass(frozen=True, slots=True)
class PlanOptions:
    slots: int = option(COUNT, "Number of texts at once, each with a context.", default=1)
    json: bool = flag("Plan as JSON.")


@click.command(
    "plan", cls=SectionedCommand, params=options(LoadingOptions, DraftingOptions, PlanOptions)
)
@click.argument("model", metavar="NAME_OR_PATH", type=MODEL, shell_complete=name_or_path)
@click.pass_context
def plan(context: click.Context, model: str) -> None:
    """Report what memory a model would take, and if it fits, without loading it.

    With --budget it is planned for a machine of that much memory, whatever is free here. A model
    that is not pulled yet is planned by the sizes of the catalogue.
    """
    shown, options = read(context, PlanOptions), read(context, LoadingOptions)
    loading = make_loading(options, read(context, DraftingOptions))
    loading = replace(loading, options=replace(loading.options, slots=shown.slots))
    loading = replace(loading, limits=replace(loading.limits, supposed=True))
    try:
        title, pair_plan = plan_by_files(model, options.draft, loading)
    except NotPulled:
        title, pair_plan = plan_by_catalogue(model, loading)
    links = [link for engine in all_engines() for link in engine.links()]
    if shown.json:
        click.echo(json.dumps(as_data(pair_plan, links), indent=2, default=os.fspath))
    else:
        click.echo("\n".join((title, *lines(pair_plan), *link_lines(pair_plan, links))))


def plan_by_files(model: str, draft: str | None, loading: Loading) -> tuple[str, Plan]:
    """Plan by a model's files on this machine."""
    files = pair_files(locate(model, loading.backend), draft, loading)
    with files.examine() as examined:
        footprint = examined.target.footprint()
        if footprint.kind == "text":
            _, options = choose_proposers(examined, loading)
        else:
            options = vector_options(loading.options, footprint)
        pair_plan = plan_pair(*examined, options, loading.limits, insists=loading.insists)
    title = f"{footprint.name} {footprint.quantisation}, {files.target.engine}"
    return with_warning(title, pair_plan, footprint.context, options.context), pair_plan


def plan_by_catalogue(model: str, loading: Loading) -> tuple[str, Plan]:
    """Plan by the catalogue for files that are not here."""
    name, _, weights = model.partition(":")
    entry = find(name).text_only() if loading.limits.text_only else find(name)
    engine = choose(entry, loading.backend)
    machine = current_machine(engine, loading.limits)
    weights = fitting(entry, engine, weights, machine)
    pair_plan = rough_plan(entry, engine, weights, machine, loading.options, alone=loading.alone)
    note = "" if entry.shape else "; its context is not known before it is pulled"
    title = f"{entry.name} {weights}, {engine}, by published sizes{note}"
    return with_warning(title, pair_plan, entry.context, loading.options.context), pair_plan


def with_warning(title: str, plan: Plan, trained: int, requested: int | None) -> str:
    """Put a warning under a title, where the context is beyond what a model was trained for."""
    note = beyond_training(plan.options, trained, requested)
    return f"{title}\n{note}" if note else title


def lines(plan: Plan) -> Iterator[str]:
    """Describe the way of loading, the memory of each device, and the concessions."""
    options = plan.options
    texts = f"{options.slots} texts of" if options.slots > 1 else "one text of"
    cells = "16 bits" if options.kv_type == "auto" else options.kv_type
    context = options.context or 0
    yield f"{texts} {context:,} tokens, keys and values in {cells}"
    if options.batch != Options().batch:
        yield f"prompts are read in pieces of {options.batch:,} tokens"
    if plan.drafting and plan.drafting.draft.context < context:
        yield f"the draft model reads {plan.drafting.draft.context:,} of them at once"
    for adapter in options.adapters:
        yield f"with the adapter {adapter.path.name}, at a scale of {adapter.scale:g}"
    if options.projector:
        yield f"with the projector {options.projector.name}"
    for pool in plan.pools:
        yield ""
        yield from pool_lines(plan, pool)
    if plan.host_read:
        yield ""
        yield from speed_lines(plan)
    for concession in plan.concessions:
        yield ""
        yield f"conceded: {concession.what} ({concession.why})"


def link_lines(plan: Plan, links: Sequence[Link]) -> Iterator[str]:
    """Describe the links to workers, and which are not needed."""
    used = {pool.worker for pool in plan.pools}
    if links:
        yield ""
    for link in links:
        yield f"{link}" + ("" if link.worker in used else "; it is not needed")


def speed_lines(plan: Plan) -> Iterator[str]:
    """Bound the speed by what each token reads in host memory, for both ways to place experts."""
    rate = read_bytes_a_second()
    yield f"host memory is read at about {rate / 1e9:.0f} GB/s"
    rows = [("each token", plan.host_read)]
    if plan.alternative:
        rows.append((f"with {plan.alternative.what} instead, it", plan.alternative.host_read))
    for subject, count in rows:
        yield f"  {subject} reads {size(count)} there: at most {rate / max(count, 1):,.0f} tokens/s"


def pool_lines(plan: Plan, pool: Pool) -> Iterator[str]:
    others = max(pool.total - pool.free, 0)
    free = pool.free - plan.taken(pool)
    reserve = min(pool.reserve, free)
    parts = [(kind, amount(plan, pool, kind), mark) for kind, mark in MARKS.items()]
    parts += [("reserve", reserve, RESERVE), ("free", free - reserve, FREE)]
    parts += [("taken by others", others, OTHERS)]
    yield f"{pool.name}, {size(pool.total)}"
    yield f"  [{bar([(mark, count) for _, count, mark in parts], pool.total)}]"
    for kind, count, mark in parts:
        if count:
            yield f"  {mark} {kind:<16}{size(count):>12}"


def amount(plan: Plan, pool: Pool, kind: str) -> int:
    return sum(item.bytes for item in plan.items if (item.pool, item.what) == (pool.name, kind))


def bar(parts: list[tuple[str, int]], total: int) -> str:
    """Draw each part by its length; even the smallest can be seen."""
    drawn, reached = "", 0
    for mark, count in parts:
        reached += count
        end = min(round(BAR_WIDTH * reached / max(total, 1)), BAR_WIDTH)
        drawn += mark * max(end - len(drawn), 1 if count else 0)
    return drawn[:BAR_WIDTH].ljust(BAR_WIDTH)


def as_data(plan: Plan, links: Sequence[Link] = ()) -> dict[str, object]:
    return {
        "links": [link._asdict() for link in links],
        "options": asdict(plan.options),
        "drafting": plan.drafting and asdict(plan.drafting),
        "pools": [asdict(pool) for pool in plan.pools],
        "items": [asdict(item) for item in plan.items],
        "concessions": [asdict(concession) for concession in plan.concessions],
        "host_read": plan.host_read,
        "alternative": plan.alternative and asdict(plan.alternative),
    }
